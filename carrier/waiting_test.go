package carrier_test

import (
	"context"
	"database/sql"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/internal/database/databasetest"
	"github.com/parleykit/parley/internal/retention"
	"github.com/parleykit/parley/protocol/message"
)

// waiting is how much waits in an outbox.
type waiting struct{ Messages, Bytes int64 }

func (a *agent) waiting(from string) (n waiting) {
	a.t.Helper()
	err := a.db.View(a.t.Context(), func(ctx context.Context, tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, from).Scan(&n.Messages, &n.Bytes)
	})
	if err != nil {
		a.t.Fatal(err)
	}
	return n
}

// wantTotals holds the totals against a count of the rows.
func (a *agent) wantTotals(after string) (counted waiting) {
	a.t.Helper()
	counted = a.waiting("SELECT count(*), coalesce(sum(size), 0) FROM carrier_outbox WHERE state = 'queued'")
	kept := a.waiting("SELECT sum(messages), sum(bytes) FROM carrier_waiting")
	if diff := cmp.Diff(counted, kept); diff != "" {
		a.t.Fatalf("totals after %s (-counted +kept): %s", after, diff)
	}
	return counted
}

func TestOutboxTotalsEqualACountWhateverHappens(t *testing.T) {
	for name, reopen := range map[string]func(*agent) func(){
		"sqlite": func(a *agent) func() { return a.open },
		"postgres": func(a *agent) func() {
			address := databasetest.NewPostgres(a.t)
			a.onPostgres(address)
			return func() { a.onPostgres(address) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			start, ahead := time.Now(), time.Duration(0)
			alice := w.add("alice", func(o *carrier.Options) { o.Now = func() time.Time { return start.Add(ahead) } })
			reopen := reopen(alice)
			others := []*agent{w.add("bob"), w.add("carol")}
			alice.knows(others...)
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			history := &history{alice: alice, others: others, world: w, random: rand.New(rand.NewPCG(seed, 0)), ahead: &ahead, reopen: reopen}
			most := int64(0)
			for range 150 {
				step := history.steps()[history.random.IntN(len(history.steps()))]
				step.do(t)
				most = max(most, alice.wantTotals(step.name).Messages)
			}
			if most < 2 {
				t.Errorf("never more than %d messages waited: this shows nothing", most)
			}
		})
	}
}

// history is a random sequence of what can happen to an outbox.
type history struct {
	alice  *agent
	others []*agent
	world  *world
	random *rand.Rand
	ahead  *time.Duration
	reopen func()
}

type step struct {
	name string
	do   func(t *testing.T)
}

func (h *history) steps() []step {
	send := step{"a send", func(t *testing.T) { h.must(t, h.alice.Send(t.Context(), h.message(t))) }}
	sync := step{"a round of sending", func(t *testing.T) { h.must(t, h.alice.Sync(t.Context())) }}
	return []step{
		send, send, send, sync, sync,
		{"an ack", func(t *testing.T) {
			for _, other := range h.others {
				h.must(t, other.AddContact(t.Context(), carrier.Contact{PubKey: h.alice.PublicKey()}))
				h.must(t, other.Sync(t.Context()))
			}
			h.must(t, h.alice.Sync(t.Context()))
		}},
		{"a send that was undone", h.undone},
		{"another network", func(*testing.T) {
			fault := []error{nil, errDown, errDown, carrier.ErrPermanent}[h.random.IntN(4)]
			h.world.network.Fail(func(carrier.Address, []byte) error { return fault })
		}},
		{"a requeue", func(t *testing.T) { h.each(t, carrier.StateDead, h.alice.Requeue) }},
		{"a purge by hand", func(t *testing.T) { h.each(t, carrier.StateExpired, h.alice.Purge) }},
		{"time", func(*testing.T) { *h.ahead += time.Duration(h.random.IntN(40)) * time.Minute }},
		{"a clock that was set back", func(*testing.T) { *h.ahead = max(0, *h.ahead-time.Hour) }},
		{"a purge", func(t *testing.T) {
			away := time.Duration(0)
			if h.random.IntN(4) == 0 {
				away = 60 * 24 * time.Hour
			}
			*h.ahead += away
			h.must(t, h.alice.PurgeNow(t.Context()))
			*h.ahead -= away
		}},
		{"an erase", func(t *testing.T) {
			h.must(t, h.alice.db.Tx(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
				_, err := retention.Erase(ctx, tx, carrier.Retention(), h.other().PublicKey())
				return err
			}))
			h.alice.knows(h.others...)
		}},
		{"a restart", func(t *testing.T) { h.must(t, h.alice.db.Close()); h.reopen() }},
	}
}

func (h *history) must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (h *history) other() *agent { return h.others[h.random.IntN(len(h.others))] }

func (h *history) message(t *testing.T) *message.Message {
	t.Helper()
	text := message.Text{Text: strings.Repeat("x", 1+h.random.IntN(16_000))}
	m, err := message.New(message.TypeText, h.alice.PublicKey(), h.other().PublicKey(), text, h.alice.opts.Now(), time.Hour)
	h.must(t, err)
	return m
}

// undone sends in a transaction that does not commit.
func (h *history) undone(t *testing.T) {
	err := h.alice.db.Tx(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
		return errors.Join(h.alice.SendTx(ctx, tx, h.message(t)), errDown)
	})
	if !errors.Is(err, errDown) {
		t.Fatal(err)
	}
}

// each changes the messages that have a state.
func (h *history) each(t *testing.T, state carrier.State, change func(context.Context, int64) error) {
	rows, err := h.alice.Outbox(t.Context(), carrier.OutboxFilter{States: []carrier.State{state}})
	h.must(t, err)
	for _, row := range slices.Backward(rows) {
		if err := change(t.Context(), row.Seq); err != nil && !errors.Is(err, carrier.ErrNotFound) {
			t.Fatal(err)
		}
	}
}
