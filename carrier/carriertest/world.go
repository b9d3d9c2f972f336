package carriertest

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/internal/database"
	"github.com/parleykit/parley/internal/database/databasetest"
	"github.com/parleykit/parley/internal/keys"
	"github.com/parleykit/parley/protocol/message"
)

// Patience is how long a test waits for what must happen.
const Patience = 60 * time.Second

// World is agents that know each other's addresses, over real carriers.
type World struct {
	t    testing.TB
	mu   sync.Mutex
	book map[string][]carrier.Address
}

// NewWorld makes a world without agents.
func NewWorld(t testing.TB) *World { return &World{t: t, book: map[string][]carrier.Address{}} }

// Agent is a running engine with a record of what its Handle was given.
type Agent struct {
	*carrier.Engine
	Key  *keys.Nostr
	DB   *database.DB
	Stop func() // ends Run

	t       testing.TB
	mu      sync.Mutex
	handled []string // message ids
}

// Add makes an agent and runs it until the test ends. listen makes its carriers and
// says where it is reached.
func (w *World) Add(listen func(*keys.Nostr, *database.DB) ([]carrier.Carrier, []carrier.Address), change ...func(*carrier.Options)) *Agent {
	w.t.Helper()
	key, err := keys.GenerateNostr()
	if err != nil {
		w.t.Fatal(err)
	}
	a := &Agent{t: w.t, Key: key, DB: databasetest.OpenAt(w.t, filepath.Join(w.t.TempDir(), "parley.db"))}
	carriers, addresses := listen(key, a.DB)
	opts := carrier.Options{
		DB: a.DB, Keyer: key, Carriers: carriers, Resolve: w.resolve, Handle: a.record, SendTimeout: 5 * time.Second,
		Retry: carrier.Backoff{Base: 20 * time.Millisecond, Cap: 500 * time.Millisecond}, Resend: carrier.Backoff{Base: time.Second, Cap: 3 * time.Second},
		Fallback: 2 * time.Second,
	}
	for _, c := range change {
		c(&opts)
	}
	if a.Engine, err = carrier.New(w.t.Context(), opts); err != nil {
		w.t.Fatal(err)
	}
	w.mu.Lock()
	w.book[key.PublicKey()] = addresses
	w.mu.Unlock()
	a.start()
	return a
}

func (w *World) resolve(_ context.Context, pubkey string) ([]carrier.Address, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.book[pubkey], nil
}

func (a *Agent) start() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	a.Stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			a.t.Errorf("Run: %v", err)
		}
	})
	a.t.Cleanup(a.Stop)
}

func (a *Agent) record(_ context.Context, _ *sql.Tx, in *carrier.Incoming) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.handled = append(a.handled, in.Message.ID)
	return nil
}

// Handled lists the ids of the messages that were processed.
func (a *Agent) Handled() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.handled)
}

// Befriend makes contacts of two agents.
func Befriend(t testing.TB, a, b *Agent) {
	t.Helper()
	for _, pair := range [][2]*Agent{{a, b}, {b, a}} {
		if err := pair[0].AddContact(t.Context(), carrier.Contact{PubKey: pair[1].PublicKey()}); err != nil {
			t.Fatal(err)
		}
	}
}

// Thread is a numbered conversation in one direction.
type Thread struct {
	From, To *Agent
	id       string
	sent     []string
}

// NewThread begins one.
func NewThread(from, to *Agent) *Thread {
	return &Thread{From: from, To: to, id: uuid.Must(uuid.NewV7()).String()}
}

// Say sends n texts.
func (th *Thread) Say(n int, text string) {
	th.From.t.Helper()
	for range n {
		m, err := message.New(message.TypeText, th.From.PublicKey(), th.To.PublicKey(), message.Text{Text: text}, time.Now(), time.Hour)
		if err != nil {
			th.From.t.Fatal(err)
		}
		m.Thread, m.Seq = th.id, int64(len(th.sent)+1)
		if err := th.From.Send(th.From.t.Context(), m); err != nil {
			th.From.t.Fatal(err)
		}
		th.sent = append(th.sent, m.ID)
	}
}

// WantHandled waits until everything said was processed, each once and in order.
func (th *Thread) WantHandled(t testing.TB) {
	t.Helper()
	mine := func() []string {
		return slices.DeleteFunc(th.To.Handled(), func(id string) bool { return !slices.Contains(th.sent, id) })
	}
	Eventually(t, func() string {
		if got := len(mine()); got < len(th.sent) {
			return fmt.Sprintf("%d of %d messages were processed", got, len(th.sent))
		}
		return ""
	})
	if got := mine(); !slices.Equal(got, th.sent) {
		t.Errorf("%d messages were processed, want %d, each once and in order", len(got), len(th.sent))
	}
}

// WantAcked is WantHandled, and the sender knows.
func (th *Thread) WantAcked(t testing.TB) {
	t.Helper()
	th.WantHandled(t)
	Eventually(t, func() string {
		waiting, err := th.From.Outbox(t.Context(), carrier.OutboxFilter{States: []carrier.State{carrier.StateQueued, carrier.StateSent}})
		if err != nil {
			return err.Error()
		}
		if len(waiting) > 0 {
			return fmt.Sprintf("%d messages wait for their ack: %s", len(waiting), waiting[0].Reason)
		}
		return ""
	})
}

// Eventually waits until check says nothing, and fails with what it said last.
func Eventually(t testing.TB, check func() string) {
	t.Helper()
	for deadline := time.Now().Add(Patience); ; time.Sleep(20 * time.Millisecond) {
		problem := check()
		if problem == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(problem)
		}
	}
}
