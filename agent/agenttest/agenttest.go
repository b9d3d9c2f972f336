package agenttest

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"database/sql"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/parleykit/parley/agent"
	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/carrier/nostr"
	"github.com/parleykit/parley/internal/database"
	"github.com/parleykit/parley/internal/egress"
	"github.com/parleykit/parley/internal/keys"
	"github.com/parleykit/parley/protocol/canonical"
	"github.com/parleykit/parley/protocol/message"
	"github.com/parleykit/parley/protocol/wellknown"
	"github.com/parleykit/parley/relay"
	"github.com/parleykit/parley/relay/relaytest"
	"github.com/parleykit/parley/venue"
)

// Server is a relay, a venue and the document that names both.
type Server struct {
	URL      string // origin of the document
	Relay    *relaytest.Server
	VenueKey *keys.Nostr
	Engine   *carrier.Engine // of the venue's key

	t        testing.TB
	mu       sync.Mutex
	document []byte
	key      ed25519.PrivateKey
	carriers []wellknown.Carrier
}

// Carry names carriers beside the relay in the server's document. An agent learns of
// them when it pins the server again.
func (s *Server) Carry(t testing.TB, carriers ...wellknown.Carrier) {
	t.Helper()
	s.mu.Lock()
	s.carriers = carriers
	s.mu.Unlock()
	s.Reissue(t, time.Now())
}

// Start starts a server with a venue that hosts rooms for everybody.
func Start(t testing.TB) *Server {
	t.Helper()
	s := start(t)
	db := open(t)
	var v *venue.Venue
	s.Engine = s.engine(t, db, carrier.Options{
		Handle: func(ctx context.Context, tx *sql.Tx, in *carrier.Incoming) error { return v.Handle(ctx, tx, in) },
		IsMember: func(ctx context.Context, tx *sql.Tx, pubkey string, m *message.Message) bool {
			return v.IsMember(ctx, tx, pubkey, m)
		},
		Stranger: func(ctx context.Context, in *carrier.Incoming) bool { return v.Stranger(ctx, in) },
	})
	v, err := venue.New(t.Context(), venue.Options{
		DB: db, Outbox: s.Engine, Key: s.VenueKey, Origin: s.URL,
		Hosts: func(context.Context, string) bool { return true },
	})
	if err != nil {
		t.Fatalf("making the venue: %v", err)
	}
	run(t, v.Run)
	run(t, s.Engine.Run)
	return s
}

// HostileVenue starts a server whose venue key obeys the test: handle gets
// everything that agents send it, and Engine sends what the test likes.
func HostileVenue(t testing.TB, handle func(ctx context.Context, tx *sql.Tx, in *carrier.Incoming) error) *Server {
	t.Helper()
	s := start(t)
	s.Engine = s.engine(t, open(t), carrier.Options{
		Handle:   handle,
		Stranger: func(context.Context, *carrier.Incoming) bool { return true },
	})
	run(t, s.Engine.Run)
	return s
}

func start(t testing.TB) *Server {
	t.Helper()
	venueKey, err := keys.GenerateNostr()
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{VenueKey: venueKey, t: t}
	s.Relay = relaytest.Start(t, relay.Options{})
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != wellknown.Path {
			http.NotFound(w, r)
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		_, _ = w.Write(s.document)
	}))
	t.Cleanup(web.Close)
	s.URL = web.URL
	s.NewKey(t)
	return s
}

// Refuse makes the relay refuse messages to everybody for good, or ends it.
func (s *Server) Refuse(yes bool) {
	var policy relay.Policy
	if yes {
		policy.Recipients = []string{}
	}
	s.Relay.SetPolicy(s.t, policy)
}

// NewKey gives the server another key, as after a take-over.
func (s *Server) NewKey(t testing.TB) {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	s.key = key
	s.mu.Unlock()
	s.Reissue(t, time.Now())
}

// Reissue signs the document again with another time.
func (s *Server) Reissue(t testing.TB, at time.Time) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	data, err := wellknown.Sign(wellknown.Document{
		Origin: s.URL, Name: "test server", Relay: s.Relay.URL,
		Venue:    &wellknown.Venue{PubKey: s.VenueKey.PublicKey(), Profiles: []string{"parley/1"}},
		IssuedAt: canonical.At(at), Carriers: s.carriers,
	}, s.key)
	if err != nil {
		t.Fatal(err)
	}
	s.document = data
}

// Replace serves other bytes as the document.
func (s *Server) Replace(document []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.document = document
}

// Document is what the server serves now.
func Document(s *Server) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return string(s.document)
}

// engine delivers for the venue's key over the server's relay.
func (s *Server) engine(t testing.TB, db *database.DB, opts carrier.Options) *carrier.Engine {
	t.Helper()
	relays, err := nostr.New(nostr.Options{
		Relays: []string{s.Relay.URL}, Signer: s.VenueKey, Dialer: egress.New(egress.Options{AllowLoopback: true}),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(relays.Close)
	opts.DB, opts.Keyer, opts.Carriers = db, s.VenueKey, []carrier.Carrier{relays}
	opts.Resolve = func(context.Context, string) ([]carrier.Address, error) {
		return []carrier.Address{{Scheme: nostr.Scheme, Address: s.Relay.URL}}, nil
	}
	engine, err := carrier.New(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	return engine
}

func open(t testing.TB) *database.DB {
	t.Helper()
	db, err := database.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "venue.db"), database.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// run runs a service until the test ends.
func run(t testing.TB, service func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- service(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("ending a service: %v", err)
		}
	})
}

// Agent is a new agent that has pinned the server; it is not running.
func (s *Server) Agent(t testing.TB, opts agent.Options) *agent.Agent {
	t.Helper()
	if opts.Home == "" {
		opts.Home = filepath.Join(t.TempDir(), "home")
	}
	opts.Create = true
	a, err := agent.New(t.Context(), opts)
	if err != nil {
		t.Fatalf("making an agent: %v", err)
	}
	t.Cleanup(func() { a.Close() })
	if _, err := a.PinServer(t.Context(), agent.PinRequest{URL: s.URL}); err != nil {
		t.Fatalf("pinning the server: %v", err)
	}
	return a
}

// Running is a new agent whose daemon is up.
func (s *Server) Running(t testing.TB, opts agent.Options) *agent.Agent {
	t.Helper()
	a := s.Agent(t, opts)
	run(t, a.Run)
	return a
}
