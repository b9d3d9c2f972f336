package ntfybridge_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/internal/egress"
	"github.com/parleykit/parley/ntfybridge"
	"github.com/parleykit/parley/ntfybridge/ntfytest"
)

func send(t testing.TB, c *ntfybridge.Carrier, to, data string) {
	t.Helper()
	if err := c.Send(t.Context(), address(to), []byte(data)); err != nil {
		t.Fatal(err)
	}
}

func numbered(from, to int) (all []string) {
	for i := from; i < to; i++ {
		all = append(all, fmt.Sprintf(`{"n":%d}`, i))
	}
	return all
}

func TestRestartResumesExactlyById(t *testing.T) {
	server := ntfytest.Start(t, ntfytest.Unlimited)
	topic := server.URL + "/inbox"
	c := newCarrier(t, ntfybridge.Options{Topics: []string{topic}}, server.URL)
	for _, data := range numbered(0, 10) {
		send(t, c, topic, data)
	}
	first := newBox()
	stop := receive(t, c, "", first.handle)
	first.await(t, "the backlog", func(got []string, cursor carrier.Cursor) bool { return len(got) == 10 && cursor != "" })
	for _, data := range numbered(10, 15) {
		send(t, c, topic, data)
	}
	first.await(t, "the stream", func(got []string, _ carrier.Cursor) bool { return len(got) == 15 })
	stop()
	for _, data := range numbered(15, 20) {
		send(t, c, topic, data)
	}
	_, cursor, _ := first.state()
	second := newBox()
	receive(t, newCarrier(t, ntfybridge.Options{Topics: []string{topic}}), cursor, second.handle)
	second.await(t, "after the restart", func(got []string, cursor carrier.Cursor) bool { return len(got) >= 5 })
	send(t, c, topic, `{"n":20}`)
	got := second.await(t, "the last one", func(got []string, _ carrier.Cursor) bool { return got[len(got)-1] == `{"n":20}` })
	if diff := cmp.Diff(numbered(15, 21), got); diff != "" {
		t.Errorf("what the server sent after the restart (-want +got):\n%s", diff)
	}
}

func TestExpiredIdReadsEverything(t *testing.T) {
	now := newClock()
	server := ntfytest.Start(t, ntfytest.Options{Burst: -1, Now: now.now})
	topic := server.URL + "/inbox"
	c := newCarrier(t, ntfybridge.Options{Topics: []string{topic}}, server.URL)
	send(t, c, topic, `{"n":0}`)
	first := newBox()
	if err := c.Poll(t.Context(), "", first.handle); err != nil {
		t.Fatal(err)
	}
	_, cursor, _ := first.state()
	now.advance(13 * time.Hour)
	for _, data := range numbered(1, 4) {
		send(t, c, topic, data)
	}
	second := newBox()
	if err := c.Poll(t.Context(), cursor, second.handle); err != nil {
		t.Fatal(err)
	}
	if got, _, _ := second.state(); !cmp.Equal(got, numbered(1, 4)) {
		t.Errorf("after the expired id came %q", got)
	}
}

func TestCursorStandsStillUntilTheBacklogIsHandled(t *testing.T) {
	server := ntfytest.Start(t, ntfytest.Unlimited)
	topic := server.URL + "/inbox"
	c := newCarrier(t, ntfybridge.Options{Topics: []string{topic}}, server.URL)
	for _, data := range numbered(0, 5) {
		send(t, c, topic, data)
	}
	disk := errors.New("disk full")
	n := 0
	err := c.Poll(t.Context(), "", func(_ context.Context, data []byte, next carrier.Cursor) error {
		if n++; n == 3 {
			return disk
		}
		if next != "" {
			t.Errorf("cursor %q with message %d", next, n)
		}
		return nil
	})
	if !errors.Is(err, disk) || n != 3 {
		t.Errorf("Poll = %v after %d messages", err, n)
	}
}

func TestNewTopicsAreReadFromTheirStart(t *testing.T) {
	server := ntfytest.Start(t, ntfytest.Unlimited)
	secret := []byte("0123456789abcdef0123456789abcdef")
	now := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	urls := func(at time.Time) (all []string) {
		for _, topic := range ntfybridge.Topics(secret, "contact", at) {
			all = append(all, server.URL+"/"+topic)
		}
		return all
	}
	c := newCarrier(t, ntfybridge.Options{Topics: urls(now)}, server.URL)
	later := ntfybridge.EpochEnd(ntfybridge.Epoch(now))
	send(t, c, urls(later)[0], `{"n":0}`) // a contact whose clock is ahead
	send(t, c, urls(now)[0], `{"n":1}`)
	b := newBox()
	receive(t, c, "", b.handle)
	b.await(t, "the topic of this epoch", func(got []string, cursor carrier.Cursor) bool { return len(got) == 1 && cursor != "" })
	if err := c.SetTopics(urls(later)); err != nil {
		t.Fatal(err)
	}
	b.await(t, "the topic of the next epoch", func(got []string, _ carrier.Cursor) bool { return len(got) == 2 && got[1] == `{"n":0}` })
	send(t, c, urls(now)[0], `{"n":2}`)
	b.await(t, "the topic of the last epoch", func(got []string, _ carrier.Cursor) bool { return len(got) == 3 && got[2] == `{"n":2}` })
}

func TestBothModesCarryWhatTheyTake(t *testing.T) {
	server := ntfytest.Start(t, ntfytest.Unlimited)
	for _, test := range []struct {
		name   string
		binary bool
		limit  int
		data   string
		fails  bool
	}{
		{"text", false, ntfybridge.MaxText, "{" + strings.Repeat("é", 2046) + "}", false},
		{"text too long", false, ntfybridge.MaxText, "{" + strings.Repeat("é", 2047) + "}", true},
		{"text with an end that ntfy trims", false, ntfybridge.MaxText, "{} ", true},
		{"bytes as text", false, ntfybridge.MaxText, "PF\x01\x00\xff", true},
		{"text with up=1", true, ntfybridge.MaxBinary, "{" + strings.Repeat("x", 4093) + "} ", true},
		{"bytes with up=1", true, ntfybridge.MaxBinary, string(carrier.Frame{Total: 4064, Payload: []byte(strings.Repeat("\xff", 4064))}.Encode(false)), false},
		{"too many bytes with up=1", true, ntfybridge.MaxBinary, "{" + strings.Repeat("x", 4096), true},
	} {
		t.Run(test.name, func(t *testing.T) {
			topic := server.URL + "/" + strings.ReplaceAll(strings.ReplaceAll(test.name, " ", "-"), "=", "")
			c := newCarrier(t, ntfybridge.Options{Topics: []string{topic}, Binary: test.binary}, server.URL)
			if c.MaxFrame(address(topic)) != test.limit || c.TextOnly(address(topic)) == test.binary {
				t.Errorf("MaxFrame %d, TextOnly %v", c.MaxFrame(address(topic)), c.TextOnly(address(topic)))
			}
			err := c.Send(t.Context(), address(topic), []byte(test.data))
			if len(test.data) <= test.limit && test.name == "text with up=1" {
				test.fails = false // it is kept as it is
			}
			if test.fails != errors.Is(err, carrier.ErrPermanent) || !test.fails && err != nil {
				t.Fatalf("Send = %v", err)
			}
			if test.fails {
				return
			}
			b := newBox()
			if err := c.Poll(t.Context(), "", b.handle); err != nil {
				t.Fatal(err)
			}
			if got, _, _ := b.state(); len(got) != 1 || got[0] != test.data {
				t.Errorf("%d messages came, or another text", len(got))
			}
		})
	}
}

func TestEnvelopeOfManyFramesNeedsAnAllowance(t *testing.T) {
	server := ntfytest.Start(t, ntfytest.Unlimited)
	topic := server.URL + "/inbox"
	public, own := newCarrier(t, ntfybridge.Options{}), newCarrier(t, ntfybridge.Options{}, server.URL)
	_, few := frames(t, 12_000)
	_, many := frames(t, 64<<10)
	if len(few) != 4 || len(many) != 22 {
		t.Fatalf("%d and %d frames", len(few), len(many))
	}
	for _, test := range []struct {
		name  string
		c     *ntfybridge.Carrier
		data  []byte
		fails bool
	}{
		{"4 frames, public", public, few[0], false},
		{"22 frames, public", public, many[0], true},
		{"22 frames, own", own, many[21], false},
	} {
		if err := test.c.Send(t.Context(), address(topic), test.data); test.fails != errors.Is(err, carrier.ErrPermanent) || !test.fails && err != nil {
			t.Errorf("%s: %v", test.name, err)
		}
	}
}

func TestLimitOfAStockServerIsMirrored(t *testing.T) {
	now := newClock()
	server := ntfytest.Start(t, ntfytest.Options{Now: now.now})
	topic := server.URL + "/inbox"
	c := newCarrier(t, ntfybridge.Options{Now: now.now})
	for range 60 {
		send(t, c, topic, "{}")
	}
	var limited *carrier.RateLimited
	err := c.Send(t.Context(), address(topic), []byte("{}"))
	if !errors.As(err, &limited) || limited.After <= 0 || limited.After > 5*time.Second {
		t.Fatalf("message 61: %v", err)
	}
	if server.Published() != 60 {
		t.Errorf("the server was asked %d times", server.Published())
	}
	now.advance(limited.After)
	send(t, c, topic, "{}")
}

func TestRefusalsSetThePause(t *testing.T) {
	for _, test := range []struct {
		name, header, body string
		first, second      time.Duration
	}{
		{"no hint", "", `{"code":42901}`, 5 * time.Second, 10 * time.Second},
		{"Retry-After", "7", `{"code":42901}`, 7 * time.Second, 7 * time.Second},
		{"hostile Retry-After", "999999999", "", 24 * time.Hour, 24 * time.Hour},
		{"nonsense in Retry-After", "soon", "<html>", 5 * time.Second, 10 * time.Second},
		{"the day's messages are used up", "", `{"code":42908}`, time.Hour, time.Hour},
	} {
		t.Run(test.name, func(t *testing.T) {
			now := newClock()
			url := serve(t, func(rw http.ResponseWriter, _ *http.Request) {
				if test.header != "" {
					rw.Header().Set("Retry-After", test.header)
				}
				rw.WriteHeader(http.StatusTooManyRequests)
				_, _ = io.WriteString(rw, test.body)
			})
			c := newCarrier(t, ntfybridge.Options{Now: now.now})
			for i, want := range []time.Duration{test.first, test.second} {
				var limited *carrier.RateLimited
				err := c.Send(t.Context(), address(url+"/inbox"), []byte("{}"))
				if !errors.As(err, &limited) || limited.After != want {
					t.Errorf("refusal %d: %v, want %s", i+1, err, want)
				}
				now.advance(want)
			}
		})
	}
}

func TestAnswersThatAreNoSuccess(t *testing.T) {
	good := `{"id":"abcdefghijkl","time":1,"event":"message","topic":"inbox","message":"{}"`
	for _, test := range []struct {
		name   string
		status int
		body   string
		want   error
	}{
		{"bad request", 400, `{"code":40000}`, carrier.ErrPermanent},
		{"unauthorized", 401, "", carrier.ErrPermanent},
		{"forbidden", 403, "", carrier.ErrPermanent},
		{"no such topic", 404, "", carrier.ErrPermanent},
		{"too large", 413, "", carrier.ErrPermanent},
		{"insufficient storage", 507, "", carrier.ErrTransient},
		{"broken server", 500, strings.Repeat("x", 1<<20), carrier.ErrTransient},
		{"redirect", 302, "", carrier.ErrTransient},
		{"HTML", 200, "<html>log in to the hotel's network</html>", carrier.ErrTransient},
		{"megabytes", 200, `{"id":"` + strings.Repeat("x", 2<<20), carrier.ErrTransient},
		{"nothing", 200, "", carrier.ErrTransient},
		{"no id", 200, `{"event":"message","topic":"inbox","message":"{}"}`, carrier.ErrTransient},
		{"another topic", 200, strings.Replace(good, `"inbox"`, `"other"`, 1) + "}", carrier.ErrTransient},
		{"an attachment", 200, good + `,"attachment":{"name":"attachment.txt"}}`, carrier.ErrPermanent},
		{"another text", 200, strings.Replace(good, `"{}"`, `"{"`, 1) + "}", carrier.ErrPermanent},
		{"success", 200, good + `,"novelty":[1]}`, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			url := serve(t, func(rw http.ResponseWriter, r *http.Request) {
				rw.Header().Set("Location", "http://127.0.0.1:1/elsewhere")
				rw.WriteHeader(test.status)
				_, _ = io.WriteString(rw, test.body)
			})
			err := newCarrier(t, ntfybridge.Options{}).Send(t.Context(), address(url+"/inbox"), []byte("{}"))
			if !errors.Is(err, test.want) || test.want == nil && err != nil {
				t.Errorf("Send = %v, want %v", err, test.want)
			}
			if err != nil && strings.Contains(err.Error(), "inbox") {
				t.Errorf("the error names the topic: %v", err)
			}
		})
	}
}

func TestServerThatHangsEndsWithTheContext(t *testing.T) {
	url := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // only then the server sees that the client goes
		<-r.Context().Done()
	})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	err := newCarrier(t, ntfybridge.Options{}).Send(ctx, address(url+"/inbox"), []byte("{}"))
	if !errors.Is(err, carrier.ErrTransient) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Send = %v", err)
	}
}

func TestErrorsOfTheNetworkDoNotNameTheTopic(t *testing.T) {
	c := newCarrier(t, ntfybridge.Options{Topics: []string{"http://127.0.0.1:1/hidden"}})
	for what, err := range map[string]error{
		"Send": c.Send(t.Context(), address("http://127.0.0.1:1/hidden"), []byte("{}")),
		"Poll": c.Poll(t.Context(), "", newBox().handle),
	} {
		if !errors.Is(err, carrier.ErrTransient) || strings.Contains(err.Error(), "hidden") {
			t.Errorf("%s = %v", what, err)
		}
	}
}

func TestTopicOfAStrangerIsDialedUnderTheStrictRule(t *testing.T) {
	server := ntfytest.Start(t, ntfytest.Unlimited)
	allow, err := egress.ParseAllow(strings.TrimPrefix(server.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name   string
		topics []string
		fails  bool
	}{
		{"a stranger's server on this machine", nil, true},
		{"the same server, configured by the owner", []string{server.URL + "/mine"}, false},
	} {
		c, err := ntfybridge.New(ntfybridge.Options{Topics: test.topics, Dialer: egress.New(egress.Options{Allow: []egress.Allow{allow}})})
		if err != nil {
			t.Fatal(err)
		}
		err = c.Send(t.Context(), address(server.URL+"/inbox"), []byte("{}"))
		if test.fails != errors.Is(err, carrier.ErrPermanent) || !test.fails && err != nil {
			t.Errorf("%s: %v", test.name, err)
		}
		c.Close()
	}
}

func TestSilentStreamIsOpenedAgain(t *testing.T) {
	var streams atomic.Int64
	url := serve(t, func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "application/x-ndjson")
		if r.URL.Query().Get("poll") == "" {
			streams.Add(1)
			rw.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(rw).Flush()
			<-r.Context().Done()
		}
	})
	now := newClock()
	c := newCarrier(t, ntfybridge.Options{Topics: []string{url + "/inbox"}, Now: now.now})
	c.LookEvery(5 * time.Millisecond)
	receive(t, c, "", newBox().handle)
	until(t, "the first stream", func() bool { return streams.Load() == 1 })
	now.advance(99 * time.Second)
	time.Sleep(50 * time.Millisecond) // ten looks
	if n := streams.Load(); n != 1 {
		t.Errorf("%d streams after 99 s of silence", n)
	}
	now.advance(2 * time.Second)
	until(t, "the second stream", func() bool { return streams.Load() == 2 })
}

func TestHostileStreamDoesNoHarm(t *testing.T) {
	line := func(id, topic, message string) string {
		return fmt.Sprintf(`{"id":%q,"time":1,"event":"message","topic":%q,"message":%q}`, id, topic, message) + "\n"
	}
	hostile := []string{
		"<html>\n", "{\n", "\n", "null\n", "[]\n", `{"event":7}` + "\n",
		line("short", "inbox", "{}"), line("abcdefghijk,", "inbox", "{}"), line("aaaaaaaaaaaa", "other", `{"foreign":1}`),
		`{"id":"aaaaaaaaaaab","event":"message","topic":"inbox","message":"%%","encoding":"base64"}` + "\n",
		`{"id":"aaaaaaaaaaac","event":"message","topic":"inbox","message":"{}","encoding":"rot13"}` + "\n",
		`{"id":"aaaaaaaaaaad","event":"message","topic":"inbox","message":"{}","attachment":{"url":"http://127.0.0.1:1"}}` + "\n",
		`{"id":"aaaaaaaaaaae","event":"message_delete","topic":"inbox"}` + "\n", `{"id":"aaaaaaaaaaaf","event":"poll_request","topic":"inbox"}` + "\n",
		strings.Repeat("x", 1<<20) + "\n", line("aaaaaaaaaaag", "inbox", "{"+strings.Repeat("x", 65<<10)), line("aaaaaaaaaaah", "inbox", "hello"),
	}
	url := serve(t, func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "application/x-ndjson; charset=utf-8")
		if r.URL.Query().Get("poll") != "" {
			return
		}
		for _, text := range hostile {
			_, _ = io.WriteString(rw, text)
		}
		_, _ = io.WriteString(rw, line("aaaaaaaaaaaz", "inbox", `{"good":1}`))
		_ = http.NewResponseController(rw).Flush()
		<-r.Context().Done()
	})
	b := newBox()
	receive(t, newCarrier(t, ntfybridge.Options{Topics: []string{url + "/inbox"}}), "", b.handle)
	got := b.await(t, "the good message", func(got []string, _ carrier.Cursor) bool { return len(got) > 0 })
	if diff := cmp.Diff([]string{`{"good":1}`}, got); diff != "" {
		t.Errorf("handed on (-want +got):\n%s", diff)
	}
}

func TestStreamsThatAreNoneEnd(t *testing.T) {
	for name, answer := range map[string]func(rw http.ResponseWriter){
		"HTML":                  func(rw http.ResponseWriter) { rw.Header().Set("Content-Type", "text/html") },
		"bad lines for ever":    func(rw http.ResponseWriter) { repeat(rw, "nonsense\n", 1000) },
		"a line without an end": func(rw http.ResponseWriter) { repeat(rw, strings.Repeat("x", 1<<20), 64) },
	} {
		t.Run(name, func(t *testing.T) {
			url := serve(t, func(rw http.ResponseWriter, r *http.Request) {
				rw.Header().Set("Content-Type", "application/x-ndjson")
				answer(rw)
				_ = http.NewResponseController(rw).Flush()
				<-r.Context().Done()
			})
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			c := newCarrier(t, ntfybridge.Options{Topics: []string{url + "/inbox"}})
			if err := c.Poll(ctx, "", newBox().handle); err == nil || ctx.Err() != nil {
				t.Errorf("Poll = %v", err)
			}
		})
	}
}

func repeat(w io.Writer, text string, n int) {
	for range n {
		if _, err := io.WriteString(w, text); err != nil {
			return
		}
	}
}

func TestMalformedPositionReadsEverything(t *testing.T) {
	server := ntfytest.Start(t, ntfytest.Unlimited)
	url := serve(t, func(rw http.ResponseWriter, r *http.Request) {
		if since := r.URL.Query().Get("since"); since != "all" {
			rw.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(rw, `{"code":40008,"http":400,"error":"since"}`)
			return
		}
		server.Handler().ServeHTTP(rw, r)
	})
	c := newCarrier(t, ntfybridge.Options{Topics: []string{url + "/inbox"}}, url)
	send(t, newCarrier(t, ntfybridge.Options{}, server.URL), server.URL+"/inbox", "{}")
	first, second := newBox(), newBox()
	if err := c.Poll(t.Context(), "", first.handle); err != nil {
		t.Fatal(err)
	}
	_, cursor, _ := first.state()
	if err := c.Poll(t.Context(), cursor, second.handle); err != nil {
		t.Fatal(err)
	}
	if got, _, _ := second.state(); len(got) != 1 {
		t.Errorf("%q came", got)
	}
}

func TestFloodOfNonsenseIsCountedAndMovesTheCursorSeldom(t *testing.T) {
	server := ntfytest.Start(t, ntfytest.Unlimited)
	topic := server.URL + "/inbox"
	c := newCarrier(t, ntfybridge.Options{Topics: []string{topic}}, server.URL)
	var moves atomic.Int64
	b := newBox()
	receive(t, c, "", func(ctx context.Context, data []byte, next carrier.Cursor) error {
		if data == nil {
			moves.Add(1)
		}
		return b.handle(ctx, data, next)
	})
	until(t, "the stream", func() bool { return len(server.Queries()) == 2 })
	const n = 1000
	for range n {
		send(t, c, topic, "nothing of use")
	}
	send(t, c, topic, `{"good":1}`)
	b.await(t, "the envelope behind the flood", func(got []string, _ carrier.Cursor) bool { return len(got) == 1 })
	if moves.Load() > n/100 {
		t.Errorf("the cursor moved %d times for %d messages of no use", moves.Load(), n)
	}
}

func TestCredentialsGoToTheirServerAlone(t *testing.T) {
	const token = "tk_0123456789abcdefghijklmnopqrstuv"
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	own := ntfytest.Start(t, ntfytest.Options{DenyAll: true, Tokens: map[string]string{token: "agent"}, Access: []ntfytest.Access{{User: "agent", Topic: "*", Read: true, Write: true}}})
	var leaked atomic.Bool
	other := serve(t, func(rw http.ResponseWriter, r *http.Request) {
		leaked.Store(leaked.Load() || strings.Contains(fmt.Sprint(r.Header, r.URL), token))
		http.Redirect(rw, r, own.URL+"/inbox", http.StatusTemporaryRedirect)
	})
	c := newCarrier(t, ntfybridge.Options{Tokens: map[string]ntfybridge.Credential{own.URL: {TokenFile: file}}})
	send(t, c, own.URL+"/inbox", "{}")
	err := c.Send(t.Context(), address(other+"/inbox"), []byte("{}"))
	if err == nil || leaked.Load() || own.Published() != 1 {
		t.Errorf("Send to another server = %v, the token went there: %v, %d publications at the own", err, leaked.Load(), own.Published())
	}
	for _, bad := range []string{token + "\nx", strings.Repeat("x", 5000), ""} {
		if err := os.WriteFile(file, []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := c.Send(t.Context(), address(own.URL+"/inbox"), []byte("{}")); err == nil || strings.Contains(err.Error(), "tk_") {
			t.Errorf("a file of %d bytes: %v", len(bad), err)
		}
	}
}

func TestWakeUpsAndPointersWake(t *testing.T) {
	server := ntfytest.Start(t, ntfytest.Unlimited)
	topic := server.URL + "/inbox"
	var woken atomic.Int64
	c := newCarrier(t, ntfybridge.Options{Topics: []string{topic}, Woken: func() { woken.Add(1) }}, server.URL)
	b := newBox()
	receive(t, c, "", b.handle)
	until(t, "the stream", func() bool { return len(server.Queries()) == 2 })
	for range 5 {
		if err := c.WakeUp(t.Context(), address(topic)); err != nil {
			t.Fatal(err)
		}
	}
	if server.Published() != 1 {
		t.Errorf("%d wake-ups were sent within 30 s", server.Published())
	}
	for range 100 {
		send(t, c, topic, ntfybridge.Pointer(strings.Repeat("0a", 32)))
	}
	send(t, c, topic, `{"good":1}`)
	b.await(t, "the envelope behind them", func(got []string, _ carrier.Cursor) bool { return len(got) == 1 })
	until(t, "waking", func() bool { return woken.Load() == 1 })
}
