package carrier_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/carrier/carriertest"
	"github.com/parleykit/parley/internal/database"
	"github.com/parleykit/parley/internal/database/databasetest"
	"github.com/parleykit/parley/internal/keys"
	"github.com/parleykit/parley/protocol/canonical"
	"github.com/parleykit/parley/protocol/envelope"
	"github.com/parleykit/parley/protocol/message"
)

// world is a network with agents on it. Everything in it runs in one bubble.
type world struct {
	t       *testing.T
	network *carriertest.Network
	mu      sync.Mutex
	book    map[string][]carrier.Address // by public key
}

func newWorld(t *testing.T) *world {
	return &world{t: t, network: carriertest.NewNetwork(), book: make(map[string][]carrier.Address)}
}

func (w *world) resolve(_ context.Context, pubkey string) ([]carrier.Address, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.book[pubkey], nil
}

// agent is an engine with a record of what its Handle was given.
type agent struct {
	*carrier.Engine
	t    *testing.T
	key  *keys.Nostr
	db   *database.DB
	path string
	opts carrier.Options
	stop func()

	mu      sync.Mutex
	handled []*carrier.Incoming
}

// exact is a backoff without chance.
func exact(base, limit time.Duration) carrier.Backoff {
	return carrier.Backoff{Base: base, Cap: limit, Jitter: func(bound time.Duration) time.Duration { return bound }}
}

// add makes an agent that listens at mem:<name>.
func (w *world) add(name string, change ...func(*carrier.Options)) *agent {
	w.t.Helper()
	key, err := keys.GenerateNostr()
	if err != nil {
		w.t.Fatal(err)
	}
	a := &agent{t: w.t, key: key, path: filepath.Join(w.t.TempDir(), "data", "parley.db"), stop: func() {}}
	a.opts = carrier.Options{
		Keyer: key, Carriers: []carrier.Carrier{w.network.Carrier("mem", name)}, Resolve: w.resolve, Handle: a.record,
		Retry: exact(2*time.Second, 15*time.Minute), Resend: exact(time.Minute, 6*time.Hour),
	}
	for _, c := range change {
		c(&a.opts)
	}
	w.mu.Lock()
	w.book[key.PublicKey()] = []carrier.Address{{Scheme: "mem", Address: name}}
	w.mu.Unlock()
	a.open()
	return a
}

// open opens the agent's database and makes its engine, also again.
func (a *agent) open() {
	a.t.Helper()
	a.db = databasetest.OpenAt(a.t, a.path)
	a.opts.DB = a.db
	var err error
	if a.Engine, err = carrier.New(a.t.Context(), a.opts); err != nil {
		a.t.Fatal(err)
	}
}

func (a *agent) record(_ context.Context, _ *sql.Tx, in *carrier.Incoming) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.handled = append(a.handled, in)
	return nil
}

// texts lists the ids that Handle was given.
func (a *agent) ids() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var ids []string
	for _, in := range a.handled {
		ids = append(ids, in.Message.ID)
	}
	return ids
}

// start runs the engine until the test ends or stop is called.
func (a *agent) start() *agent {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	var once sync.Once
	a.stop = func() {
		once.Do(func() {
			cancel()
			if err := <-done; err != nil {
				a.t.Errorf("Run: %v", err)
			}
		})
	}
	a.t.Cleanup(a.stop)
	return a
}

// knows makes contacts of others.
func (a *agent) knows(others ...*agent) *agent {
	a.t.Helper()
	for _, other := range others {
		if err := a.AddContact(a.t.Context(), carrier.Contact{PubKey: other.PublicKey()}); err != nil {
			a.t.Fatal(err)
		}
	}
	return a
}

func (a *agent) message(to *agent, typ string, body any, ttl time.Duration) *message.Message {
	a.t.Helper()
	m, err := message.New(typ, a.PublicKey(), to.PublicKey(), body, time.Now(), ttl)
	if err != nil {
		a.t.Fatal(err)
	}
	return m
}

// text sends a text that lives an hour.
func (a *agent) text(to *agent, text string) *message.Message {
	a.t.Helper()
	m := a.message(to, message.TypeText, message.Text{Text: text}, time.Hour)
	if err := a.Send(a.t.Context(), m); err != nil {
		a.t.Fatal(err)
	}
	return m
}

// long is a message of several wraps.
func (a *agent) long(to *agent) *message.Message {
	a.t.Helper()
	random := make([]byte, 75_000)
	_, _ = rand.Read(random)
	return a.message(to, message.TypeAgreementArtifact, message.AgreementArtifact{
		AgreementID: a.message(to, message.TypeText, message.Text{Text: "x"}, time.Hour).ID, Bundle: hex.EncodeToString(random),
	}, 24*time.Hour)
}

func (a *agent) seal(m *message.Message) [][]byte {
	a.t.Helper()
	wraps, err := envelope.Seal(m, a.key, time.Now())
	if err != nil {
		a.t.Fatal(err)
	}
	var all [][]byte
	for _, wrap := range wraps {
		all = append(all, wrap.Bytes)
	}
	return all
}

func (a *agent) outgoing(m *message.Message) *carrier.Outgoing {
	a.t.Helper()
	rows, err := a.Outbox(a.t.Context(), carrier.OutboxFilter{MessageID: m.ID, Acks: true})
	if err != nil || len(rows) != 1 {
		a.t.Fatalf("Outbox of one message: %d rows, %v", len(rows), err)
	}
	return rows[0]
}

func (a *agent) wantOut(m *message.Message, want carrier.State) *carrier.Outgoing {
	a.t.Helper()
	row := a.outgoing(m)
	if row.State != want {
		a.t.Fatalf("outbox state = %q (%s), want %q", row.State, row.Reason, want)
	}
	return row
}

func (a *agent) inbox(states ...carrier.State) []*carrier.Message {
	a.t.Helper()
	rows, err := a.Inbox(a.t.Context(), carrier.InboxFilter{States: states})
	if err != nil {
		a.t.Fatal(err)
	}
	return rows
}

// count counts the rows of a table.
func (a *agent) count(table string) (n int) {
	a.t.Helper()
	err := a.db.View(a.t.Context(), func(ctx context.Context, tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, "SELECT count(*) FROM "+table).Scan(&n)
	})
	if err != nil {
		a.t.Fatal(err)
	}
	return n
}

// sendsTo counts the Sends to an agent's address.
func (w *world) sendsTo(name string) (n int) {
	for _, e := range w.network.Sends() {
		if e.To.Address == name {
			n++
		}
	}
	return n
}

func at(name string) carrier.Address { return carrier.Address{Scheme: "mem", Address: name} }

// pass lets time go by and everything that is due then happen.
func pass(d time.Duration) {
	time.Sleep(d) // the bubble's clock
	synctest.Wait()
}

var errDown = errors.New("down")

// bubble runs a test with a clock of its own; it fails if a goroutine is left.
func bubble(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newWorld(t)) })
}

func unknownBody() jsontext.Value { return jsontext.Value(`{"anything":1}`) }

// digestOf is what parts of a message name it by.
func digestOf(t *testing.T, m *message.Message) string {
	t.Helper()
	data, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return canonical.Digest(data)
}
