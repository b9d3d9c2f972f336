package relay_test

import (
	"errors"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/nbd-wtf/go-nostr"

	"github.com/parleykit/parley/relay"
	"github.com/parleykit/parley/relay/relaytest"
)

func TestEventsAreRateLimitedPerConnection(t *testing.T) {
	clock := newClock()
	s := relaytest.Start(t, relay.Options{Now: clock.Now, Limits: relay.Limits{EventRate: 1, EventBurst: 3}})
	c := dial(t, s)
	for range 3 {
		c.accept(newKey(t).note(nostr.Now(), ""))
	}
	ev := newKey(t).note(nostr.Now(), "")
	c.refuse(ev, "rate-limited: ")
	dial(t, s).accept(newKey(t).note(nostr.Now(), "another connection"))
	clock.advance(time.Second)
	c.accept(ev)
}

func TestEventsAreRateLimitedPerAddress(t *testing.T) {
	clock := newClock()
	address := netip.MustParseAddr("2001:db8::1")
	s := relaytest.Start(t, relay.Options{
		Now:      clock.Now,
		Limits:   relay.Limits{AddressEventRate: 1, AddressEventBurst: 2},
		ClientIP: func(*http.Request) netip.Addr { return address },
	})
	a := dial(t, s)
	address = netip.MustParseAddr("2001:db8::2") // same /64
	b := dial(t, s)
	address = netip.MustParseAddr("2001:db8:0:1::2")
	c := dial(t, s)
	a.accept(newKey(t).note(nostr.Now(), ""))
	b.accept(newKey(t).note(nostr.Now(), ""))
	a.refuse(newKey(t).note(nostr.Now(), ""), "rate-limited: ")
	c.accept(newKey(t).note(nostr.Now(), ""))
}

func TestRequestsAreRateLimited(t *testing.T) {
	clock := newClock()
	s := relaytest.Start(t, relay.Options{Now: clock.Now, Limits: relay.Limits{RequestRate: 1, RequestBurst: 2}})
	c := dial(t, s)
	c.stored(nostr.Filter{})
	c.stored(nostr.Filter{})
	if _, end := c.request("q", nostr.Filter{}); end.label != "CLOSED" || !strings.HasPrefix(end.text, "rate-limited: ") {
		t.Errorf("got %v, want CLOSED rate-limited", end)
	}
	c.accept(newKey(t).note(nostr.Now(), "events have a budget of their own"))
}

// refusal dials and returns the HTTP status of the refusal.
func refusal(t *testing.T, url string, header http.Header) int {
	t.Helper()
	conn, resp, err := websocket.Dial(t.Context(), url, &websocket.DialOptions{HTTPHeader: header})
	if err == nil {
		conn.CloseNow()
		return http.StatusSwitchingProtocols
	}
	if resp == nil {
		t.Fatal(err)
	}
	return resp.StatusCode
}

func TestConnectionsAreLimited(t *testing.T) {
	for name, l := range map[string]relay.Limits{
		"in all":      {Connections: 2},
		"per address": {ConnectionsPerAddress: 2},
	} {
		t.Run(name, func(t *testing.T) {
			s := relaytest.Start(t, relay.Options{Limits: l})
			dial(t, s)
			second := dial(t, s)
			if got := refusal(t, s.URL, nil); got != http.StatusServiceUnavailable {
				t.Errorf("third connection: status %d, want 503", got)
			}
			second.conn.CloseNow()
			eventually(t, func() bool { return refusal(t, s.URL, nil) == http.StatusSwitchingProtocols })
		})
	}
}

func TestOriginIsChecked(t *testing.T) {
	s := relaytest.Start(t, relay.Options{CheckOrigin: func(r *http.Request) error {
		if r.Header.Get("Origin") == "https://evil.example" {
			return errors.New("no")
		}
		return nil
	}})
	if got := refusal(t, s.URL, http.Header{"Origin": {"https://evil.example"}}); got != http.StatusForbidden {
		t.Errorf("status %d, want 403", got)
	}
	if got := refusal(t, s.URL, http.Header{"Origin": {"https://good.example"}}); got != http.StatusSwitchingProtocols {
		t.Errorf("status %d, want 101", got)
	}
}

func TestForwardedHeadersAreNotBelieved(t *testing.T) {
	s := relaytest.Start(t, relay.Options{Limits: relay.Limits{ConnectionsPerAddress: 1}})
	header := http.Header{"X-Forwarded-For": {"192.0.2.1"}, "X-Forwarded-Host": {"evil.example"}, "X-Forwarded-Proto": {"https"}}
	conn, _, err := websocket.Dial(t.Context(), s.URL, &websocket.DialOptions{HTTPHeader: header})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.CloseNow()
	header.Set("X-Forwarded-For", "192.0.2.2")
	if got := refusal(t, s.URL, header); got != http.StatusServiceUnavailable {
		t.Errorf("a second connection under another name: status %d, want 503", got)
	}
	c := &client{t: t, conn: conn, url: s.URL}
	c.challenge = c.next().text
	k := newKey(t)
	if r := c.auth(k, c.challenge, "wss://evil.example", nostr.Now()); r.ok {
		t.Error("AUTH for the forwarded host was accepted")
	}
	c.authenticate(k)
}

func TestRequestsToVanishOfAnAddressAreRateLimited(t *testing.T) {
	clock := newClock()
	c := dial(t, relaytest.Start(t, relay.Options{Now: clock.Now}))
	request := func() nostr.Event {
		return newKey(t).event(62, nostr.Now(), "", nostr.Tags{{"relay", "ALL_RELAYS"}})
	}
	for range 100 {
		c.accept(request())
	}
	c.refuse(request(), "rate-limited: too many requests to vanish")
	c.accept(newKey(t).note(nostr.Now(), "other events are not meant"))
	clock.advance(6 * time.Second)
	c.accept(request())
	c.refuse(request(), "rate-limited: ")
}
