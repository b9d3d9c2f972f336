package venuetest

import (
	"context"
	"database/sql"
	"sync"
	"testing"
	"time"

	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/carrier/nostr"
	"github.com/parleykit/parley/internal/database"
	"github.com/parleykit/parley/internal/database/databasetest"
	"github.com/parleykit/parley/internal/egress"
	"github.com/parleykit/parley/internal/keys"
	"github.com/parleykit/parley/protocol/message"
	"github.com/parleykit/parley/venue"
)

// Origin is where the schema ids of agreements stand, unless Options say
// otherwise. Nothing listens there.
const Origin = "http://127.0.0.1:8417"

// Server is a running venue. It ends with the test that started it.
type Server struct {
	Venue  *venue.Venue
	Engine *carrier.Engine
	Key    *keys.Nostr  // the venue's
	DB     *database.DB // with the tables of both
	Origin string

	stop func()
}

// Start starts a venue that is reached at a relay, such as relaytest's
// Server.URL, and looks for everybody there. Options that are empty get a
// database in a folder of the test, a fresh key, Origin, and Hosts that admit
// everyone; Outbox is always the venue's own engine. A venue started again on
// the same DB and Key goes on where it was.
func Start(t testing.TB, relayURL string, o venue.Options) *Server {
	t.Helper()
	s := &Server{Origin: o.Origin}
	if s.Origin == "" {
		s.Origin = Origin
	}
	if o.DB == nil {
		o.DB = databasetest.Open(t)
	}
	if o.Key == nil {
		key, err := keys.GenerateNostr()
		if err != nil {
			t.Fatalf("making the venue's key: %v", err)
		}
		o.Key = key
	}
	key, full := o.Key.(*keys.Nostr)
	if !full {
		t.Fatal("the venue's key must be a *keys.Nostr")
	}
	if o.Hosts == nil {
		o.Hosts = func(context.Context, string) bool { return true }
	}
	o.Origin, s.DB, s.Key = s.Origin, o.DB, key
	s.Engine = s.newEngine(t, relayURL, o)
	o.Outbox = s.Engine
	var err error
	if s.Venue, err = venue.New(t.Context(), o); err != nil {
		t.Fatalf("making the venue: %v", err)
	}
	s.run(t)
	return s
}

// newEngine makes the engine that hands its messages to the venue.
func (s *Server) newEngine(t testing.TB, relayURL string, o venue.Options) *carrier.Engine {
	t.Helper()
	relays, err := nostr.New(nostr.Options{
		Relays: []string{relayURL}, Signer: s.Key, Dialer: egress.New(egress.Options{AllowLoopback: true}),
		Now: o.Now, Logger: o.Logger, Reconnect: carrier.Backoff{Base: 20 * time.Millisecond, Cap: 100 * time.Millisecond},
	})
	if err != nil {
		t.Fatalf("making the venue's carrier: %v", err)
	}
	t.Cleanup(relays.Close)
	engine, err := carrier.New(t.Context(), carrier.Options{
		DB: s.DB, Keyer: s.Key, Carriers: []carrier.Carrier{relays}, Now: o.Now, Logger: o.Logger,
		Resolve: func(context.Context, string) ([]carrier.Address, error) {
			return []carrier.Address{{Scheme: nostr.Scheme, Address: relayURL}}, nil
		},
		Handle: func(ctx context.Context, tx *sql.Tx, in *carrier.Incoming) error {
			return s.Venue.Handle(ctx, tx, in)
		},
		IsMember: func(ctx context.Context, tx *sql.Tx, pubkey string, m *message.Message) bool {
			return s.Venue.IsMember(ctx, tx, pubkey, m)
		},
		Stranger: func(ctx context.Context, in *carrier.Incoming) bool { return s.Venue.Stranger(ctx, in) },
		Retry:    carrier.Backoff{Base: 50 * time.Millisecond, Cap: 200 * time.Millisecond}, // tests do not wait
	})
	if err != nil {
		t.Fatalf("making the venue's engine: %v", err)
	}
	return engine
}

// run starts the engine and the venue.
func (s *Server) run(t testing.TB) {
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	for _, run := range []func(context.Context) error{s.Engine.Run, s.Venue.Run} {
		group.Go(func() {
			if err := run(ctx); err != nil {
				t.Errorf("running the venue: %v", err)
			}
		})
	}
	s.stop = sync.OnceFunc(func() {
		cancel()
		group.Wait()
	})
	t.Cleanup(s.stop)
}

// PublicKey is the venue's key, as agreements name it.
func (s *Server) PublicKey() string { return s.Key.PublicKey() }

// Stop ends the venue and waits for it. A second call does nothing.
func (s *Server) Stop() { s.stop() }
