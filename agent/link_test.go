package agent

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/internal/egress"
	"github.com/parleykit/parley/protocol/card"
)

func TestOnlyAddressesTheOwnerChoseMayLieOnThisMachine(t *testing.T) {
	t.Parallel()
	a := &Agent{}
	for _, c := range []struct {
		name    string
		own     []string
		address string
		card    bool // the address came from a card
		refused bool
	}{
		{"own loopback server", []string{"http://127.0.0.1:1"}, "127.0.0.1:1", false, false},
		{"a card's loopback address, own server on loopback", []string{"http://127.0.0.1:1"}, "127.0.0.1:2", true, false},
		{"a card's loopback address, own server public", []string{"https://parley.example"}, "127.0.0.1:2", true, true},
		{"own loopback relay named by a card, another server public", []string{"https://parley.example", "http://127.0.0.1:1"}, "127.0.0.1:1", true, true},
		{"loopback without a server", nil, "127.0.0.1:1", false, true},
		{"a card's private address", []string{"https://parley.example"}, "10.0.0.1:80", true, true},
		{"own private server", []string{"https://127.0.0.9"}, "127.0.0.9:443", false, false},
	} {
		dialer, err := a.dial(c.own)
		if err != nil {
			t.Fatal(err)
		}
		if c.card {
			dialer = dialer.FromCard()
		}
		conn, err := dialer.DialContext(t.Context(), "tcp", c.address)
		if err == nil {
			conn.Close()
		}
		if errors.Is(err, egress.ErrRefusedAddress) != c.refused {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestARelayOnTheServersOwnMachineIsItsOwnersChoice(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		origin, relay string
		own           int
	}{
		{"http://127.0.0.1:1", "ws://127.0.0.1:2", 2},
		{"http://127.0.0.1:1", "ws://localhost:2", 2},
		{"https://parley.example", "wss://parley.example", 1},
		{"https://parley.example", "wss://parley.example:8443", 2},
		{"https://parley.example", "wss://relay.example", 1},
		{"https://parley.example", "ws://127.0.0.1:2", 1},
		{"https://parley.example", "", 1},
	} {
		if got := ownAddresses([]Server{{Origin: c.origin, Relay: c.relay}}); len(got) != c.own {
			t.Errorf("%s with %s: %q", c.origin, c.relay, got)
		}
	}
}

func TestOriginsAreReadAsPeopleTypeThem(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"parley.example":              "https://parley.example",
		"https://Parley.Example/":     "https://parley.example",
		"https://parley.example:443":  "https://parley.example",
		"http://127.0.0.1:80":         "http://127.0.0.1",
		"http://127.0.0.1:8417":       "http://127.0.0.1:8417",
		"https://parley.example:8443": "https://parley.example:8443",
	} {
		if got, err := parseOrigin(text); err != nil || got != want {
			t.Errorf("%q = %q, %v, want %q", text, got, err, want)
		}
	}
}

func TestAKeyIsReachedByItsCardElseByTheOwnRelay(t *testing.T) {
	t.Parallel()
	o := newOfflineAgent(t)
	err := o.storeServer(t.Context(), Server{Origin: o.origin, Relay: "ws://127.0.0.1:1", Venue: o.venue.PublicKey()})
	if err != nil {
		t.Fatal(err)
	}
	if err := o.relink(t.Context()); err != nil {
		t.Fatal(err)
	}
	peer := generate(t)
	address := func(pubkey string) string {
		t.Helper()
		list, err := o.resolve(t.Context(), pubkey)
		if err != nil || len(list) != 1 || list[0].Scheme != "nostr" {
			t.Fatalf("addresses %+v, %v", list, err)
		}
		return list[0].Address
	}
	if got := address(peer.PublicKey()); got != "ws://127.0.0.1:1" {
		t.Errorf("without a card: %s", got)
	}
	publish := func(key interface{ Sign(*nostr.Event) error }) {
		t.Helper()
		c := card.Card{
			Name: card.DefaultName, Alt: "x", Expires: time.Now().Add(time.Hour),
			Carriers: []card.Carrier{{Scheme: card.SchemeNostr, Address: "wss://elsewhere.example"}},
		}
		ev, err := c.Event(time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if err := key.Sign(&ev); err != nil {
			t.Fatal(err)
		}
		if _, err := o.rememberCard(t.Context(), &ev); err != nil {
			t.Fatal(err)
		}
	}
	publish(peer)
	if got := address(peer.PublicKey()); got != "wss://elsewhere.example" {
		t.Errorf("with a card: %s", got)
	}
	publish(o.venue) // the pinned document decides, not a card
	if got := address(o.venue.PublicKey()); got != "ws://127.0.0.1:1" {
		t.Errorf("the venue: %s", got)
	}
	o.now = func() time.Time { return time.Now().Add(2 * time.Hour) }
	if got := address(peer.PublicKey()); got != "ws://127.0.0.1:1" {
		t.Errorf("with an expired card: %s", got)
	}
}

func TestAnUnreachableServerLeavesTheTextQueued(t *testing.T) {
	t.Parallel()
	o := newOfflineAgent(t)
	if _, err := o.SendText(t.Context(), SendRequest{To: generate(t).PublicKey(), Text: "x"}); asError(err).Code != CodeUnavailable {
		t.Errorf("without a relay: %v", err)
	}
	if err := o.storeServer(t.Context(), Server{Origin: o.origin, Relay: "ws://127.0.0.1:1"}); err != nil {
		t.Fatal(err)
	}
	if err := o.relink(t.Context()); err != nil {
		t.Fatal(err)
	}
	d, err := o.SendText(t.Context(), SendRequest{To: generate(t).PublicKey(), Text: "x"})
	if err != nil || d.State != string(carrier.StateQueued) || d.Tried != 1 || d.Reason == "" {
		t.Errorf("delivery = %+v, %v", d, err)
	}
	if _, err := o.FindCards(t.Context(), FindRequest{}); asError(err).Code != CodeUnavailable {
		t.Errorf("finding: %v", err)
	}
	if _, err := o.PublishCard(t.Context(), PublishCardRequest{}); asError(err).Code != CodeUnavailable {
		t.Errorf("publishing: %v", err)
	}
}

func TestAWaitEndsWithTheTimeTheCallerOrTheAgent(t *testing.T) {
	t.Parallel()
	o := newOfflineAgent(t)
	never := func(context.Context) (bool, error) { return false, nil }
	if done, err := o.await(t.Context(), time.Millisecond, never); done || err != nil {
		t.Errorf("in time: %v, %v", done, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if done, err := o.await(ctx, time.Hour, never); done || !errors.Is(err, context.Canceled) {
		t.Errorf("by the caller: %v, %v", done, err)
	}
	looks := 0
	third := func(context.Context) (bool, error) { looks++; o.feed.poke(); return looks == 3, nil }
	if done, err := o.await(t.Context(), time.Hour, third); !done || err != nil {
		t.Errorf("when it happens: %v, %v", done, err)
	}
	o.feed.close()
	if done, err := o.await(t.Context(), time.Hour, never); done || err != nil {
		t.Errorf("by the agent: %v, %v", done, err)
	}
}

func TestMetricsTakenBackCanBeRegisteredAgain(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	for range 2 {
		r := newRetractable(registry)
		r.MustRegister(prometheus.NewCounter(prometheus.CounterOpts{Name: "parley_x_total", Help: "x"}))
		if families, err := registry.Gather(); err != nil || len(families) != 1 {
			t.Errorf("%d families, %v", len(families), err)
		}
		r.retract()
	}
	none := newRetractable(nil)
	none.MustRegister(prometheus.NewCounter(prometheus.CounterOpts{Name: "parley_x_total", Help: "x"}))
	none.retract()
}

func TestALocalCallIsStrictLikeTheSocket(t *testing.T) {
	t.Parallel()
	l, err := OpenLocal(t.Context(), Options{Home: filepath.Join(t.TempDir(), "home"), Create: true})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var status Status
	if err := l.Call(t.Context(), "agent.status", Empty{}, &status); err != nil || status.PubKey == "" {
		t.Errorf("status %+v, %v", status, err)
	}
	for operation, request := range map[string]any{
		"no.such": Empty{}, "agent.status": map[string]int{"x": 1}, "card.show": map[string]int{"who": 1},
	} {
		if err := l.Call(t.Context(), operation, request, nil); err == nil {
			t.Errorf("%s with %v passed", operation, request)
		}
	}
	if _, err := Dial(t.Context(), l.agent.Home()); !errors.Is(err, ErrNoDaemon) {
		t.Errorf("a daemon in a process that does not stay: %v", err)
	}
}
