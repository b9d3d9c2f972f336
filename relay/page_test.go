package relay_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"
	"github.com/nbd-wtf/go-nostr/nip19"

	"github.com/parleykit/parley/internal/httpserver"
	"github.com/parleykit/parley/protocol/card"
	"github.com/parleykit/parley/relay"
	"github.com/parleykit/parley/relay/relaytest"
)

// hostile is text that would be markup, or leave an attribute, unescaped.
const hostile = `"><img src=x onerror=alert(1)><script>alert(2)</script>'`

// pageServer is a relay behind the real front.
type pageServer struct {
	*relaytest.Server
	front *httpserver.Server
}

// startPages starts a relay with its front; both end with the test.
func startPages(t *testing.T, policy relay.Policy) *pageServer {
	t.Helper()
	front, err := httpserver.New(httpserver.Options{Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	s := relaytest.Start(t, relay.Options{
		Origin: front.Origin().String(), Policy: policy, Registerer: front.Registry(), ClientIP: front.ClientIP,
	})
	if err := front.Handle(s.Relay.Routes()...); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- front.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("ending the front: %v", err)
		}
	})
	return &pageServer{s, front}
}

// get asks for a page.
func (s *pageServer) get(t *testing.T, path string) (status int, header http.Header, body string) {
	t.Helper()
	answer, err := http.Get(s.front.Origin().String() + path)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, answer.Header, string(data)
}

// publishCard stores a card and returns its event.
func publishCard(t *testing.T, c *client, sk string, content card.Card, ago time.Duration) *nostr.Event {
	t.Helper()
	at := time.Now().Add(-ago)
	content.PubKey, _ = nostr.GetPublicKey(sk)
	content.Expires = at.Add(48 * time.Hour)
	ev, err := content.Event(at)
	if err != nil {
		t.Fatal(err)
	}
	if err := ev.Sign(sk); err != nil {
		t.Fatal(err)
	}
	c.send("EVENT", ev)
	if r := c.next(); r.label != "OK" || !r.ok {
		t.Fatalf("publishing a card: %v", r)
	}
	return &ev
}

func npubOf(t *testing.T, pubkey string) string {
	t.Helper()
	npub, err := nip19.EncodePublicKey(pubkey)
	if err != nil {
		t.Fatal(err)
	}
	return npub
}

func TestPageListsLiveCardsAndCounts(t *testing.T) {
	t.Parallel()
	s := startPages(t, relay.Policy{Name: "Harbour", Description: "Cards of the harbour.", Contact: "operator@harbour.example"})
	c := dialURL(t, s.front.Origin().WebSocket())
	sk := nostr.GeneratePrivateKey()
	ev := publishCard(t, c, sk, card.Card{
		Name: "default", Alt: "Keeps the archive", Capabilities: []string{"archive", "search"},
		Carriers: []card.Carrier{{Scheme: "nostr", Address: "wss://relay.example", Priority: 1}},
	}, 0)
	c.send("REQ", "x", nostr.Filter{Kinds: []int{0}})
	c.next()

	status, header, body := s.get(t, "/relay/")
	if status != http.StatusOK || header.Get("Content-Type") != "text/html; charset=utf-8" {
		t.Fatalf("status %d, type %q", status, header.Get("Content-Type"))
	}
	path := "/relay/card/" + npubOf(t, ev.PubKey) + "/default"
	for _, want := range []string{
		"<title>Harbour</title>", `content="Cards of the harbour."`, "Keeps the archive", `href="` + path + `"`,
		`href="mailto:operator@harbour.example"`, `<dd data-count="cards">1</dd>`, `<dd data-count="connections">1</dd>`,
		`<dd data-count="subscriptions">1</dd>`, `<label for="q">`, ">archive<",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("the list does not hold %s:\n%s", want, body)
		}
	}
	_, _, body = s.get(t, path)
	for _, want := range []string{"wss://relay.example", "priority 1", ">archive<", npubOf(t, ev.PubKey), "&#34;sig&#34;"} {
		if !strings.Contains(body, want) {
			t.Errorf("the card does not hold %s:\n%s", want, body)
		}
	}
	_, header, body = s.get(t, "/relay/counts")
	var counts map[string]int64
	if err := json.Unmarshal([]byte(body), &counts); err != nil || header.Get("Access-Control-Allow-Origin") != "*" {
		t.Fatalf("counts %q: %v", body, err)
	}
	if counts["cards"] != 1 || counts["connections"] != 1 || counts["subscriptions"] != 1 {
		t.Errorf("counts = %v", counts)
	}
}

func TestPagesEscapeEverythingAndLoadNothingOfOthers(t *testing.T) {
	t.Parallel()
	s := startPages(t, relay.Policy{Name: hostile, Description: hostile, Contact: "javascript:alert(3)"})
	c := dialURL(t, s.front.Origin().WebSocket())
	ev := publishCard(t, c, nostr.GeneratePrivateKey(), card.Card{Name: "default", Alt: hostile}, 0)
	for _, path := range []string{
		"/relay/", "/relay/?q=" + url.QueryEscape(hostile), "/relay/card/" + ev.PubKey + "/default",
		"/relay/card/" + url.PathEscape(hostile) + "/x", "/relay/?page=" + url.QueryEscape(hostile),
	} {
		_, header, body := s.get(t, path)
		for _, bad := range []string{"<img", "<script>", "onerror=alert(1)>", `href="javascript:`, "style=", "http-equiv"} {
			if strings.Contains(strings.ReplaceAll(body, "&lt;", "&"), bad) {
				t.Errorf("%s holds %s:\n%s", path, bad, body)
			}
		}
		policy := header.Get("Content-Security-Policy")
		if !strings.HasPrefix(policy, "default-src 'none'; ") || strings.Contains(policy, "unsafe") || strings.Contains(policy, "*") {
			t.Errorf("%s has the policy %q", path, policy)
		}
		if header.Get("X-Content-Type-Options") != "nosniff" || header.Get("Referrer-Policy") != "no-referrer" {
			t.Errorf("%s has the headers %v", path, header)
		}
	}
}

func TestPageSearchFindsWhatTheRelayFinds(t *testing.T) {
	t.Parallel()
	s := startPages(t, relay.Policy{})
	c := dialURL(t, s.front.Origin().WebSocket())
	publishCard(t, c, nostr.GeneratePrivateKey(), card.Card{Name: "default", Alt: "Übersetzt Briefe", Capabilities: []string{"translate"}}, 0)
	publishCard(t, c, nostr.GeneratePrivateKey(), card.Card{Name: "default", Alt: "Bakes bread"}, time.Minute)
	for query, want := range map[string][]string{
		"":                 {"Übersetzt", "Bakes"},
		"bread":            {"Bakes"},
		"ÜBERSETZT":        {"Übersetzt"},
		"translate briefe": {"Übersetzt"},
		"translate bread":  nil,
	} {
		status, _, body := s.get(t, "/relay/?q="+url.QueryEscape(query))
		for _, alt := range []string{"Übersetzt", "Bakes"} {
			shown := strings.Contains(body, ">"+alt)
			if wanted := strings.Contains(strings.Join(want, " "), alt); shown != wanted || status != http.StatusOK {
				t.Errorf("search for %q: %s shown %v, want %v (status %d)", query, alt, shown, wanted, status)
			}
		}
	}
	if status, _, body := s.get(t, "/relay/?q="+url.QueryEscape("a b c d e f g h i j k l m n o p q r s t u v w x y z")); status != http.StatusBadRequest || !strings.Contains(body, "This search cannot be read") {
		t.Errorf("a search of too many words: status %d", status)
	}
}

func TestPagesOfTheListShowEachCardOnce(t *testing.T) {
	t.Parallel()
	s := startPages(t, relay.Policy{})
	c := dialURL(t, s.front.Origin().WebSocket())
	sk := nostr.GeneratePrivateKey()
	const n = 60
	for i := range n {
		publishCard(t, c, sk, card.Card{Name: fmt.Sprint("c", i), Alt: fmt.Sprintf("Number %d.", i)}, time.Duration(i)*time.Second)
	}
	shown := map[string]int{}
	path := "/relay/"
	for pages := 0; path != ""; pages++ {
		if pages > n {
			t.Fatal("the list has no end")
		}
		_, _, body := s.get(t, path)
		for i := range n {
			shown[fmt.Sprint(i)] += strings.Count(body, fmt.Sprintf(">Number %d.<", i))
		}
		path = ""
		if _, rest, found := strings.Cut(body, `<a href="/relay/?page=`); found && strings.Contains(body, `rel="next"`) {
			before, _, _ := strings.Cut(body, `" rel="next"`)
			path = before[strings.LastIndex(before, `"`)+1:]
			_ = rest
		}
	}
	for i := range n {
		if shown[fmt.Sprint(i)] != 1 {
			t.Errorf("card %d is shown %d times", i, shown[fmt.Sprint(i)])
		}
	}
}

func TestPageOfACardThatIsNotThereIs404(t *testing.T) {
	t.Parallel()
	s := startPages(t, relay.Policy{})
	c := dialURL(t, s.front.Origin().WebSocket())
	ev := publishCard(t, c, nostr.GeneratePrivateKey(), card.Card{Name: "default", Alt: "A card"}, 0)
	for path, want := range map[string]int{
		"/relay/card/" + ev.PubKey + "/default":               http.StatusOK,
		"/relay/card/" + npubOf(t, ev.PubKey) + "/default":    http.StatusOK,
		"/relay/card/" + ev.PubKey + "/other":                 http.StatusNotFound,
		"/relay/card/" + strings.Repeat("0", 64) + "/default": http.StatusNotFound,
		"/relay/card/nobody/default":                          http.StatusNotFound,
		"/relay/page.css":                                     http.StatusOK,
		"/relay/page.js":                                      http.StatusOK,
		"/relay/page/list.html":                               http.StatusNotFound,
	} {
		if status, _, _ := s.get(t, path); status != want {
			t.Errorf("%s: status %d, want %d", path, status, want)
		}
	}
}
