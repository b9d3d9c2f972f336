package mqttbridge_test

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/internal/database/databasetest"
	"github.com/parleykit/parley/internal/egress"
	"github.com/parleykit/parley/internal/keys"
	"github.com/parleykit/parley/mqttbridge"
	"github.com/parleykit/parley/protocol/message"
)

// patience is how long a test waits for what must happen.
const patience = 60 * time.Second

// agent is an engine that listens on an inbox of a broker.
type agent struct {
	*carrier.Engine
	t       testing.TB
	key     *keys.Nostr
	carrier *mqttbridge.Carrier
	stop    func()

	mu      sync.Mutex
	handled []*message.Message
}

// world is agents that know each other's addresses.
type world struct {
	t    testing.TB
	mu   sync.Mutex
	book map[string][]carrier.Address
}

func newWorld(t testing.TB) *world { return &world{t: t, book: map[string][]carrier.Address{}} }

// add makes an agent at a broker and runs it until the test ends.
func (w *world) add(broker string, change ...func(*mqttbridge.Options)) *agent {
	w.t.Helper()
	key := newKey(w.t)
	at := broker + "/" + mqttbridge.InboxTopic(key.PublicKey())
	opts := mqttbridge.Options{
		Inboxes: []mqttbridge.Inbox{{Address: at}}, Signer: key, Dialer: egress.New(egress.Options{AllowLoopback: true}),
		Reconnect: carrier.Backoff{Base: 20 * time.Millisecond, Cap: 500 * time.Millisecond},
	}
	for _, c := range change {
		c(&opts)
	}
	c, err := mqttbridge.New(opts)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(c.Close)
	a := &agent{t: w.t, key: key, carrier: c}
	a.Engine, err = carrier.New(w.t.Context(), carrier.Options{
		DB: databasetest.OpenAt(w.t, filepath.Join(w.t.TempDir(), "parley.db")), Keyer: key, Carriers: []carrier.Carrier{c},
		Resolve: w.resolve, Handle: a.record,
		Retry: carrier.Backoff{Base: 20 * time.Millisecond, Cap: 500 * time.Millisecond}, Resend: carrier.Backoff{Base: time.Second, Cap: 3 * time.Second},
		SendTimeout: 5 * time.Second,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.mu.Lock()
	w.book[key.PublicKey()] = []carrier.Address{{Scheme: mqttbridge.Scheme, Address: at}}
	w.mu.Unlock()
	a.start()
	return a
}

func (a *agent) start() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	a.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			a.t.Errorf("Run: %v", err)
		}
	})
	a.t.Cleanup(a.stop)
}

func (w *world) resolve(_ context.Context, pubkey string) ([]carrier.Address, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.book[pubkey], nil
}

func (a *agent) record(_ context.Context, _ *sql.Tx, in *carrier.Incoming) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.handled = append(a.handled, in.Message)
	return nil
}

// befriend makes contacts of two agents.
func befriend(t testing.TB, a, b *agent) {
	t.Helper()
	for _, pair := range [][2]*agent{{a, b}, {b, a}} {
		if err := pair[0].AddContact(t.Context(), carrier.Contact{PubKey: pair[1].PublicKey()}); err != nil {
			t.Fatal(err)
		}
	}
}

// send sends the n-th text of a thread.
func (a *agent) send(to *agent, thread string, n int, text string) string {
	a.t.Helper()
	m, err := message.New(message.TypeText, a.PublicKey(), to.PublicKey(), message.Text{Text: text}, time.Now(), time.Hour)
	if err != nil {
		a.t.Fatal(err)
	}
	if thread != "" {
		m.Thread, m.Seq = thread, int64(n)
	}
	if err := a.Send(a.t.Context(), m); err != nil {
		a.t.Fatal(err)
	}
	return m.ID
}

func (a *agent) ids() (ids []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, m := range a.handled {
		ids = append(ids, m.ID)
	}
	return ids
}

// wantAll waits until exactly these messages were handled, each once and in this
// order, and until their sender knows.
func wantAll(t testing.TB, from, to *agent, want []string) {
	t.Helper()
	wantHandled(t, to, want)
	eventually(t, func() string {
		waiting, err := from.Outbox(t.Context(), carrier.OutboxFilter{States: []carrier.State{carrier.StateQueued, carrier.StateSent}})
		if err != nil {
			return err.Error()
		}
		if len(waiting) > 0 {
			return fmt.Sprintf("%d wait for their ack: %s", len(waiting), waiting[0].Reason)
		}
		return ""
	})
}

// wantHandled is wantAll without the sender: an ack that was lost is repeated after a
// minute at the earliest.
func wantHandled(t testing.TB, to *agent, want []string) {
	t.Helper()
	eventually(t, func() string {
		if got := len(to.ids()); got < len(want) {
			return fmt.Sprintf("%d of %d messages were handled", got, len(want))
		}
		return ""
	})
	if got := to.ids(); !slices.Equal(got, want) {
		t.Errorf("%d messages were handled, want %d, each once and in order", len(got), len(want))
	}
}

// eventually waits until check says nothing.
func eventually(t testing.TB, check func() string) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		problem := check()
		if problem == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(problem)
		}
	}
}

func newKey(t testing.TB) *keys.Nostr {
	t.Helper()
	key, err := keys.GenerateNostr()
	if err != nil {
		t.Fatal(err)
	}
	return key
}
