package ntfybridge_test

import (
	"context"
	"database/sql"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/internal/database/databasetest"
	"github.com/parleykit/parley/internal/egress"
	"github.com/parleykit/parley/internal/keys"
	"github.com/parleykit/parley/ntfybridge"
	"github.com/parleykit/parley/protocol/message"
)

// patience bounds a wait for something that must happen.
const patience = 60 * time.Second

// generous is the allowance of a server that limits nothing.
var generous = ntfybridge.Allowance{Inline: 64, Rate: ntfybridge.Rate{Burst: 1_000_000, Refill: time.Microsecond}}

func loopback() *egress.Dialer { return egress.New(egress.Options{AllowLoopback: true}) }

func address(url string) carrier.Address {
	return carrier.Address{Scheme: ntfybridge.Scheme, Address: url}
}

// newCarrier makes a carrier that listens to topics; origins limit nothing.
func newCarrier(t testing.TB, opts ntfybridge.Options, origins ...string) *ntfybridge.Carrier {
	t.Helper()
	opts.Dialer = loopback()
	opts.Reconnect = carrier.Backoff{Base: 10 * time.Millisecond, Cap: 100 * time.Millisecond}
	if opts.Allowances == nil {
		opts.Allowances = make(map[string]ntfybridge.Allowance)
		for _, origin := range origins {
			opts.Allowances[origin] = generous
		}
	}
	c, err := ntfybridge.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// box collects what a carrier hands on.
type box struct {
	mu     sync.Mutex
	got    []string
	cursor carrier.Cursor
	change chan struct{}
}

func newBox() *box { return &box{change: make(chan struct{})} }

func (b *box) handle(_ context.Context, data []byte, next carrier.Cursor) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if data != nil {
		b.got = append(b.got, string(data))
	}
	b.cursor = next
	close(b.change)
	b.change = make(chan struct{})
	return nil
}

func (b *box) state() (got []string, cursor carrier.Cursor, change chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string(nil), b.got...), b.cursor, b.change
}

// await waits until the box satisfies ok.
func (b *box) await(t testing.TB, what string, ok func(got []string, cursor carrier.Cursor) bool) []string {
	t.Helper()
	deadline := time.After(patience)
	for {
		got, cursor, change := b.state()
		if ok(got, cursor) {
			return got
		}
		select {
		case <-change:
		case <-deadline:
			t.Fatalf("%s: not in time, %d came, cursor %q", what, len(got), cursor)
		}
	}
}

// receive runs a carrier until stop is called or the test ends.
func receive(t testing.TB, c *ntfybridge.Carrier, from carrier.Cursor, handle carrier.Handler) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = c.Receive(ctx, from, handle) }()
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	return stop
}

// until waits for a condition.
func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not in time", what)
		}
	}
}

// serve starts a server that does what the test says.
func serve(t testing.TB, handler http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	return server.URL
}

// clock is a clock that a test moves.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func newClock() *clock { return &clock{at: time.Now()} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// book maps public keys to addresses.
type book struct {
	mu    sync.Mutex
	pages map[string][]carrier.Address
}

func (b *book) resolve(_ context.Context, pubkey string) ([]carrier.Address, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.pages[pubkey], nil
}

// agent is an engine over ntfy.
type agent struct {
	*carrier.Engine
	t       *testing.T
	key     *keys.Nostr
	handled chan *message.Message
}

// newAgent makes an engine that listens to one topic.
func newAgent(t *testing.T, b *book, c *ntfybridge.Carrier, topic string) *agent {
	t.Helper()
	key, err := keys.GenerateNostr()
	if err != nil {
		t.Fatal(err)
	}
	a := &agent{t: t, key: key, handled: make(chan *message.Message, 1000)}
	a.Engine, err = carrier.New(t.Context(), carrier.Options{
		DB:    databasetest.OpenAt(t, filepath.Join(t.TempDir(), "data", "parley.db")),
		Keyer: key, Carriers: []carrier.Carrier{c}, Resolve: b.resolve,
		Handle: func(_ context.Context, _ *sql.Tx, in *carrier.Incoming) error {
			a.handled <- in.Message
			return nil
		},
		Retry: carrier.Backoff{Base: 50 * time.Millisecond, Cap: 200 * time.Millisecond},
	})
	if err != nil {
		t.Fatal(err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pages[key.PublicKey()] = []carrier.Address{address(topic)}
	return a
}

func (a *agent) start() *agent {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := a.Run(ctx); err != nil {
			a.t.Errorf("Run: %v", err)
		}
	}()
	a.t.Cleanup(func() { cancel(); <-done })
	return a
}

func (a *agent) knows(other *agent) {
	a.t.Helper()
	if err := a.AddContact(a.t.Context(), carrier.Contact{PubKey: other.key.PublicKey()}); err != nil {
		a.t.Fatal(err)
	}
}

func (a *agent) text(to *agent, text string) *message.Message {
	a.t.Helper()
	m, err := message.New(message.TypeText, a.key.PublicKey(), to.key.PublicKey(), message.Text{Text: text}, time.Now(), time.Hour)
	if err != nil {
		a.t.Fatal(err)
	}
	if err := a.Send(a.t.Context(), m); err != nil {
		a.t.Fatal(err)
	}
	return m
}

// artifact sends a message that has a number in its thread.
func (a *agent) artifact(to *agent, thread string) string {
	a.t.Helper()
	body := message.AgreementArtifact{AgreementID: thread, Bundle: "{}"}
	m, err := message.New(message.TypeAgreementArtifact, a.key.PublicKey(), to.key.PublicKey(), body, time.Now(), time.Hour)
	if err != nil {
		a.t.Fatal(err)
	}
	m.Thread = thread
	if err := a.Send(a.t.Context(), m); err != nil {
		a.t.Fatal(err)
	}
	return m.ID
}

// wantHandledOnce waits until all messages were handled, and returns the order
// they came in.
func (a *agent) wantHandledOnce(ids []string) (order []string) {
	a.t.Helper()
	want := make(map[string]bool)
	for _, id := range ids {
		want[id] = true
	}
	for len(want) > 0 {
		select {
		case m := <-a.handled:
			if !want[m.ID] {
				a.t.Fatalf("message %s came twice", m.ID)
			}
			delete(want, m.ID)
			order = append(order, m.ID)
		case <-time.After(patience):
			a.t.Fatalf("%d messages are missing", len(want))
		}
	}
	return order
}

func frames(t testing.TB, size int) (wrap []byte, all [][]byte) {
	t.Helper()
	wrap = []byte("{" + strings.Repeat("x", size-2) + "}")
	all, err := carrier.Split(wrap, ntfybridge.MaxText, true)
	if err != nil {
		t.Fatal(err)
	}
	return wrap, all
}
