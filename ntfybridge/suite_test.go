package ntfybridge_test

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/parleykit/parley/ntfybridge/ntfytest"
)

// protocol is a server under the suite. The same facts hold for the server of
// this tree and, with NTFY_URL, for a real one, which must have attachments on,
// no limits of requests and open topics.
type protocol struct {
	url  string
	real bool
	now  *clock
}

// answer is what a server says to one request.
type answer struct {
	Status     int
	Code       int    `json:"code"`
	ID         string `json:"id"`
	Time       int64  `json:"time"`
	Expires    int64  `json:"expires"`
	Event      string `json:"event"`
	Topic      string `json:"topic"`
	Message    string `json:"message"`
	Encoding   string `json:"encoding"`
	Attachment *struct {
		Name string `json:"name"`
	} `json:"attachment"`
}

func protocols(t *testing.T) map[string]protocol {
	now := newClock()
	server := ntfytest.Start(t, ntfytest.Options{Burst: -1, Now: now.now, KeepAlive: 50 * time.Millisecond})
	all := map[string]protocol{"in-tree": {url: server.URL, now: now}}
	if url := os.Getenv("NTFY_URL"); url != "" {
		all["real"] = protocol{url: strings.TrimRight(url, "/"), real: true}
	}
	return all
}

// do makes one request; headers are name and value in turn.
func (p protocol) do(t *testing.T, method, path, body string, headers ...string) answer {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, p.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	a := answer{Status: response.StatusCode}
	_ = json.Unmarshal(data, &a)
	return a
}

// poll lists the texts that a topic holds.
func (p protocol) poll(t *testing.T, topics, query string) (texts []string) {
	t.Helper()
	response, err := http.Get(p.url + "/" + topics + "/json?poll=1&" + query)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		var a answer
		if err := json.Unmarshal(lines.Bytes(), &a); err != nil {
			t.Fatal(err)
		}
		texts = append(texts, a.Message)
	}
	return texts
}

// TestProtocolFacts has a row for each fact that was measured of a real server.
func TestProtocolFacts(t *testing.T) {
	for name, p := range protocols(t) {
		for _, fact := range facts {
			t.Run(name+"/"+fact.name, func(t *testing.T) {
				if p.real && fact.clock {
					t.Skip("needs the server's clock")
				}
				fact.check(t, p, fmt.Sprintf("suite%d", time.Now().UnixNano()))
			})
		}
	}
}

func (a answer) want(t *testing.T, status, code int) {
	t.Helper()
	if a.Status != status || a.Code != code {
		t.Errorf("answer %d, code %d, want %d, code %d", a.Status, a.Code, status, code)
	}
}

func (a answer) wantText(t *testing.T, text string) {
	t.Helper()
	a.want(t, 200, 0)
	if a.Message != text || a.Attachment != nil || a.Event != "message" || len(a.ID) != 12 {
		t.Errorf("message %.60q (%d bytes), id %q, attachment %v; want %.60q", a.Message, len(a.Message), a.ID, a.Attachment, text)
	}
}

func (a answer) wantAttachment(t *testing.T, name string) {
	t.Helper()
	a.want(t, 200, 0)
	if a.Attachment == nil || a.Attachment.Name != name || a.Message != "You received a file: "+name {
		t.Errorf("message %.60q, attachment %v", a.Message, a.Attachment)
	}
}

var facts = []struct {
	name  string
	clock bool
	check func(t *testing.T, p protocol, topic string)
}{
	{"4095 bytes of text are a message", false, func(t *testing.T, p protocol, topic string) {
		text := strings.Repeat("x", 4095)
		p.do(t, "POST", "/"+topic, text).wantText(t, text)
	}},
	{"4096 bytes of text are an attachment", false, func(t *testing.T, p protocol, topic string) {
		p.do(t, "POST", "/"+topic, strings.Repeat("x", 4096)).wantAttachment(t, "attachment.txt")
	}},
	{"bytes that are no text are an attachment", false, func(t *testing.T, p protocol, topic string) {
		p.do(t, "POST", "/"+topic, strings.Repeat("\xff", 3000)).wantAttachment(t, "attachment.bin")
	}},
	{"up=1 takes 4096 bytes of any kind", false, func(t *testing.T, p protocol, topic string) {
		raw := strings.Repeat("\xff", 4096)
		a := p.do(t, "POST", "/"+topic+"?up=1", raw)
		a.want(t, 200, 0)
		if a.Encoding != "base64" || a.Message != base64.StdEncoding.EncodeToString([]byte(raw)) {
			t.Errorf("encoding %q, %d bytes", a.Encoding, len(a.Message))
		}
	}},
	{"up=1 keeps text untrimmed", false, func(t *testing.T, p protocol, topic string) {
		p.do(t, "POST", "/"+topic, " text \n", "UnifiedPush", "1").wantText(t, " text \n")
	}},
	{"up=1 cuts 5000 bytes to 4096 and says 200", false, func(t *testing.T, p protocol, topic string) {
		p.do(t, "POST", "/"+topic+"?up=1", strings.Repeat("x", 5000)).wantText(t, strings.Repeat("x", 4096))
	}},
	{"JSON with a message of 4096 bytes makes an attachment", false, func(t *testing.T, p protocol, topic string) {
		p.do(t, "POST", "/", fmt.Sprintf(`{"topic":%q,"message":%q}`, topic, strings.Repeat("x", 4096))).wantAttachment(t, "attachment.txt")
	}},
	{"JSON of more than 8192 bytes is 41303", false, func(t *testing.T, p protocol, topic string) {
		p.do(t, "POST", "/", fmt.Sprintf(`{"topic":%q,"message":%q}`, topic, strings.Repeat("x", 8200))).want(t, 413, 41303)
	}},
	{"a message in a header has no limit", false, func(t *testing.T, p protocol, topic string) {
		text := strings.Repeat("x", 6000)
		p.do(t, "POST", "/"+topic, "", "Message", text).wantText(t, text)
	}},
	{"text is trimmed", false, func(t *testing.T, p protocol, topic string) {
		p.do(t, "PUT", "/"+topic, " \ntext\t ").wantText(t, "text")
	}},
	{"an empty body is triggered", false, func(t *testing.T, p protocol, topic string) {
		p.do(t, "POST", "/"+topic, "").wantText(t, "triggered")
	}},
	{"since=id gives exactly the later ones in order", false, func(t *testing.T, p protocol, topic string) {
		var ids []string
		for i := range 10 {
			ids = append(ids, p.do(t, "POST", "/"+topic, fmt.Sprint(i)).ID)
		}
		if got := p.poll(t, topic, "since="+ids[5]); !slices.Equal(got, []string{"6", "7", "8", "9"}) {
			t.Errorf("after the sixth: %q", got)
		}
	}},
	{"since=unknown id gives everything", false, func(t *testing.T, p protocol, topic string) {
		p.do(t, "POST", "/"+topic, "one")
		p.do(t, "POST", "/"+topic, "two")
		if got := p.poll(t, topic, "since=abcdefghijkl"); !slices.Equal(got, []string{"one", "two"}) {
			t.Errorf("got %q", got)
		}
	}},
	{"since=nonsense is 40008", false, func(t *testing.T, p protocol, topic string) {
		p.do(t, "GET", "/"+topic+"/json?poll=1&since=a,b", "").want(t, 400, 40008)
	}},
	{"time is in whole seconds", false, func(t *testing.T, p protocol, topic string) {
		if a := p.do(t, "POST", "/"+topic, "x"); a.Time < 1e9 || a.Time > 1e11 {
			t.Errorf("time %d", a.Time)
		}
	}},
	{"Cache: no is not kept", false, func(t *testing.T, p protocol, topic string) {
		p.do(t, "POST", "/"+topic, "x", "Cache", "no").wantText(t, "x")
		if got := p.poll(t, topic, ""); len(got) != 0 {
			t.Errorf("kept %q", got)
		}
	}},
	{"In: 5s is 40005", false, func(t *testing.T, p protocol, topic string) {
		p.do(t, "POST", "/"+topic, "x", "In", "5s").want(t, 400, 40005)
	}},
	{"one body published twice has two ids", false, func(t *testing.T, p protocol, topic string) {
		one, two := p.do(t, "POST", "/"+topic, "x"), p.do(t, "POST", "/"+topic, "x")
		if one.ID == two.ID || len(p.poll(t, topic, "")) != 2 {
			t.Errorf("ids %q and %q", one.ID, two.ID)
		}
	}},
	{"HEAD is 404", false, func(t *testing.T, p protocol, topic string) {
		if a := p.do(t, "HEAD", "/"+topic+"/json", ""); a.Status != 404 {
			t.Errorf("status %d", a.Status)
		}
	}},
	{"a topic of 65 characters or with a space is 40401", false, func(t *testing.T, p protocol, _ string) {
		p.do(t, "POST", "/"+strings.Repeat("x", 65), "x").want(t, 404, 40401)
		p.do(t, "POST", "/a%20b", "x").want(t, 404, 40401)
	}},
	{"topics in a list are read together", false, func(t *testing.T, p protocol, topic string) {
		p.do(t, "POST", "/"+topic+"a", "one")
		p.do(t, "POST", "/"+topic+"b", "two")
		p.do(t, "POST", "/"+topic+"c", "three")
		got := p.poll(t, topic+"a,"+topic+"b", "since=all")
		slices.Sort(got)
		if !slices.Equal(got, []string{"one", "two"}) {
			t.Errorf("got %q", got)
		}
	}},
	{"X-Sequence-ID changes nothing", false, func(t *testing.T, p protocol, topic string) {
		p.do(t, "POST", "/"+topic, "x", "X-Sequence-ID", "seq").wantText(t, "x")
	}},
	{"keepalive events follow open", true, func(t *testing.T, p protocol, topic string) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		r, _ := http.NewRequestWithContext(ctx, "GET", p.url+"/"+topic+"/json", http.NoBody)
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		lines := bufio.NewScanner(response.Body)
		for _, want := range []string{"open", "keepalive"} {
			var a answer
			if !lines.Scan() || json.Unmarshal(lines.Bytes(), &a) != nil || a.Event != want {
				t.Errorf("event %q, want %q (%v)", a.Event, want, lines.Err())
			}
		}
	}},
	{"messages are kept for 12 hours", true, func(t *testing.T, p protocol, topic string) {
		a := p.do(t, "POST", "/"+topic, "x")
		if a.Expires-a.Time != 12*60*60 {
			t.Errorf("kept for %d s", a.Expires-a.Time)
		}
		p.now.advance(12*time.Hour - time.Second)
		if got := p.poll(t, topic, ""); len(got) != 1 {
			t.Errorf("just before: %q", got)
		}
		p.now.advance(time.Second)
		if got := p.poll(t, topic, ""); len(got) != 0 {
			t.Errorf("after: %q", got)
		}
	}},
}

func TestStockServerTakesSixtyRequestsAndThenOneInFiveSeconds(t *testing.T) {
	now := newClock()
	p := protocol{url: ntfytest.Start(t, ntfytest.Options{Now: now.now}).URL}
	for range 60 {
		p.do(t, "POST", "/topic", "x").want(t, 200, 0)
	}
	p.do(t, "POST", "/topic", "x").want(t, 429, 42901)
	now.advance(5 * time.Second)
	p.do(t, "POST", "/topic", "x").want(t, 200, 0)
	p.do(t, "POST", "/topic", "x").want(t, 429, 42901)
}

func TestAccessToTopics(t *testing.T) {
	p := protocol{url: ntfytest.Start(t, ntfytest.Options{
		Burst: -1, DenyAll: true, Users: map[string]string{"ann": "secret"}, Tokens: map[string]string{"tk_a": "ann"},
		Access: []ntfytest.Access{{User: "ann", Topic: "ann-*", Read: true, Write: true}, {Topic: "up*", Write: true}},
	}).URL}
	basic := "Basic " + base64.StdEncoding.EncodeToString([]byte("ann:secret"))
	for _, row := range []struct {
		method, path, login string
		status, code        int
	}{
		{"POST", "/ann-in", "", 403, 40301},
		{"POST", "/ann-in", "Bearer tk_a", 200, 0},
		{"POST", "/ann-in", basic, 200, 0},
		{"POST", "/ann-in", "Bearer tk_b", 401, 40101},
		{"POST", "/ann-in", "Basic " + base64.StdEncoding.EncodeToString([]byte("ann:wrong")), 401, 40101},
		{"POST", "/other", "Bearer tk_a", 403, 40301},
		{"POST", "/upabc", "", 200, 0},
		{"GET", "/upabc/json?poll=1", "", 403, 40301},
		{"GET", "/ann-in/json?poll=1&auth=" + base64.RawURLEncoding.EncodeToString([]byte(basic)), "", 200, 0},
	} {
		var headers []string
		if row.login != "" {
			headers = []string{"Authorization", row.login}
		}
		t.Run(row.method+row.path, func(t *testing.T) {
			if a := p.do(t, row.method, row.path, "x", headers...); a.Status != row.status || row.status != 200 && a.Code != row.code {
				t.Errorf("answer %d, code %d, want %d, code %d", a.Status, a.Code, row.status, row.code)
			}
		})
	}
}

func TestMessagesOutliveARestartOfTheServer(t *testing.T) {
	file := t.TempDir() + "/messages"
	first := ntfytest.Start(t, ntfytest.Options{Burst: -1, File: file})
	one := protocol{url: first.URL}
	id := one.do(t, "POST", "/topic", "one").ID
	one.do(t, "POST", "/topic", "two")
	first.Close()
	two := protocol{url: ntfytest.Start(t, ntfytest.Options{Burst: -1, File: file}).URL}
	two.do(t, "POST", "/topic", "three")
	if got := two.poll(t, "topic", "since="+id); !slices.Equal(got, []string{"two", "three"}) {
		t.Errorf("after the restart: %q", got)
	}
}

func TestDelayedMessageKeepsItsOldPlace(t *testing.T) {
	now := newClock()
	server := ntfytest.Start(t, ntfytest.Options{Burst: -1, Now: now.now})
	p := protocol{url: server.URL}
	p.do(t, "POST", "/topic", "delayed", "In", "10s").want(t, 200, 0)
	second := p.do(t, "POST", "/topic", "second").ID
	if got := p.poll(t, "topic", ""); !slices.Equal(got, []string{"second"}) {
		t.Errorf("before it was due: %q", got)
	}
	now.advance(11 * time.Second)
	server.Tick()
	if got := p.poll(t, "topic", ""); len(got) != 2 {
		t.Errorf("after it was due: %q", got)
	}
	if got := p.poll(t, "topic", "since="+second); len(got) != 0 {
		t.Errorf("after the second one: %q", got) // why a carrier never delays
	}
}

func TestOtherFormatsOfStreams(t *testing.T) {
	server := ntfytest.Start(t, ntfytest.Unlimited)
	p := protocol{url: server.URL}
	p.do(t, "POST", "/topic", "two\nlines")
	for format, want := range map[string]string{"raw": "two lines\n", "sse": `data: {"id":"`} {
		response, err := http.Get(p.url + "/topic/" + format + "?poll=1")
		if err != nil {
			t.Fatal(err)
		}
		data, _ := io.ReadAll(response.Body)
		response.Body.Close()
		if !strings.HasPrefix(string(data), want) {
			t.Errorf("%s: %q", format, data)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ws, _, err := websocket.Dial(ctx, "ws"+strings.TrimPrefix(p.url, "http")+"/topic/ws?since=all", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer ws.CloseNow()
	for _, want := range []string{"open", "message"} {
		_, data, err := ws.Read(ctx)
		var a answer
		if err != nil || json.Unmarshal(data, &a) != nil || a.Event != want {
			t.Errorf("event %q, want %q (%v)", a.Event, want, err)
		}
	}
}
