package agent_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parleykit/parley/agent"
	"github.com/parleykit/parley/internal/drilltest"
	"github.com/parleykit/parley/internal/keys"
	"github.com/parleykit/parley/internal/networktest"
	"github.com/parleykit/parley/protocol/canonical"
	"github.com/parleykit/parley/protocol/wellknown"
	"github.com/parleykit/parley/relay"
	"github.com/parleykit/parley/relay/relaytest"
)

// remote is a server with a relay, both behind a bad network.
type remote struct {
	web, relay *networktest.Proxy
	origin     string
	direct     *relaytest.Server
}

func newRemote(t *testing.T, o relay.Options) *remote {
	t.Helper()
	r := &remote{web: networktest.NewProxy(t, ""), relay: networktest.NewProxy(t, "")}
	o.Origin = "http://" + r.relay.Addr()
	r.direct = relaytest.Start(t, o)
	r.relay.Point(strings.TrimPrefix(r.direct.URL, "ws://"))
	r.origin = "http://" + r.web.Addr()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	venue, err := keys.GenerateNostr()
	if err != nil {
		t.Fatal(err)
	}
	document, err := wellknown.Sign(wellknown.Document{
		Origin: r.origin, Name: "test server", Relay: "ws://" + r.relay.Addr(),
		Venue: &wellknown.Venue{PubKey: venue.PublicKey(), Profiles: []string{"parley/1"}}, IssuedAt: canonical.At(time.Now()),
	}, key)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(document) }))
	t.Cleanup(server.Close)
	r.web.Point(strings.TrimPrefix(server.URL, "http://"))
	return r
}

func (r *remote) agent(t *testing.T, o agent.Options) *agent.Agent {
	t.Helper()
	o.Home, o.Create = filepath.Join(t.TempDir(), "home"), true
	a, err := agent.New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	r.pin(t, a)
	return a
}

func (r *remote) pin(t *testing.T, a *agent.Agent) {
	t.Helper()
	if _, err := a.PinServer(t.Context(), agent.PinRequest{URL: r.origin}); err != nil {
		t.Fatal(err)
	}
}

// wantUnavailable demands success, or an error that says to try again.
func wantUnavailable(t *testing.T, what string, err error) {
	t.Helper()
	var typed *agent.Error
	if err != nil && (!errors.As(err, &typed) || typed.Code != agent.CodeUnavailable) {
		t.Errorf("%s: %v, want success or %s", what, err, agent.CodeUnavailable)
	}
}

// Commands that talk to a server over a bad network succeed and tell the truth,
// or say that the server is not available. Afterwards they work.
func TestCommandsTellTheTruthOverABadNetwork(t *testing.T) {
	t.Parallel()
	r := newRemote(t, relay.Options{})
	a, finder := r.agent(t, agent.Options{}), r.agent(t, agent.Options{})
	status, err := a.Status(t.Context(), agent.Empty{})
	if err != nil {
		t.Fatal(err)
	}
	me := agent.FindRequest{Who: status.PubKey}
	var published time.Time // created_at of the last card that was answered as published
	for _, point := range networktest.Points() {
		answered := make(chan struct{})
		began := make(chan struct{})
		go func() {
			defer close(answered)
			close(began)
			time.Sleep(time.Duration(point.Rand.IntN(3000)) * time.Microsecond) // where in the exchange it begins
			for _, p := range []*networktest.Proxy{r.relay, r.web} {
				point.Fault.Begin(p)
			}
			time.Sleep(time.Duration(point.Rand.IntN(30)) * time.Millisecond) // the length of the fault
			r.relay.Heal()
			r.web.Heal()
		}()
		<-began
		switch point.Number % 3 {
		case 0:
			_, err := a.PinServer(t.Context(), agent.PinRequest{URL: r.origin})
			wantUnavailable(t, point.String()+": pinning", err)
		case 1:
			response, err := a.PublishCard(t.Context(), agent.PublishCardRequest{})
			wantUnavailable(t, point.String()+": publishing", err)
			if err == nil {
				published = response.Card.CreatedAt.Time
			}
		default:
			response, err := finder.FindCards(t.Context(), me)
			wantUnavailable(t, point.String()+": finding", err)
			if err == nil && !published.IsZero() && (len(response.Cards) != 1 || response.Cards[0].CreatedAt.Before(published)) {
				t.Errorf("%s: found %+v, want the card of %s", point, response.Cards, published)
			}
		}
		<-answered
	}
	r.pin(t, a)
	response, err := a.PublishCard(t.Context(), agent.PublishCardRequest{})
	for tries := 0; err != nil && tries < 3; tries++ {
		response, err = a.PublishCard(t.Context(), agent.PublishCardRequest{})
	}
	if err != nil {
		t.Fatalf("afterwards: %v", err)
	}
	found, err := finder.FindCards(t.Context(), me)
	for tries := 0; err != nil && tries < 3; tries++ {
		found, err = finder.FindCards(t.Context(), me)
	}
	if err != nil || len(found.Cards) != 1 || !found.Cards[0].CreatedAt.Equal(response.Card.CreatedAt.Time) {
		t.Errorf("afterwards: found %+v, %v", found, err)
	}
}

// A relay that takes connections and says nothing, or says it byte by byte,
// ends a command with an error when its time is over.
func TestASilentRelayHoldsUpNoCommand(t *testing.T) {
	t.Parallel()
	r := newRemote(t, relay.Options{})
	a := r.agent(t, agent.Options{})
	if _, err := a.PublishCard(t.Context(), agent.PublishCardRequest{}); err != nil { // makes the connection
		t.Fatal(err)
	}
	for name, fault := range map[string]func(){
		"silence":         func() { r.relay.Stall(true) },
		"a slow trickle":  func() { r.relay.Delay(20*time.Millisecond, 1) },
		"a new silence":   func() { r.relay.Reset(); r.relay.Stall(true) },
		"a dead document": func() { r.web.Stall(true); r.relay.Stall(true) },
	} {
		agent.SetRelayTimeout(a, 300*time.Millisecond)
		fault()
		_, err := a.PublishCard(t.Context(), agent.PublishCardRequest{})
		if err == nil {
			t.Errorf("%s: published", name)
		}
		wantUnavailable(t, name, err)
		if _, err = a.FindCards(t.Context(), agent.FindRequest{Words: []string{"x"}}); err == nil {
			t.Errorf("%s: found", name)
		}
		wantUnavailable(t, name, err)
		r.relay.Heal()
		r.web.Heal()
		r.relay.Reset()
	}
}

// The document of a server that says nothing is waited for as documented.
func TestASilentServerHoldsUpNoPin(t *testing.T) {
	t.Parallel()
	if !drilltest.Long() {
		t.Skip("waits for the whole bound; run with PARLEY_DRILL=1")
	}
	r := newRemote(t, relay.Options{})
	a := r.agent(t, agent.Options{})
	r.web.Stall(true)
	_, err := a.PinServer(t.Context(), agent.PinRequest{URL: r.origin})
	if err == nil {
		t.Error("pinned")
	}
	wantUnavailable(t, "pinning", err)
}
