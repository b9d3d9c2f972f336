package carrier_test

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/carrier/carriertest"
	"github.com/parleykit/parley/internal/database/databasetest"
	"github.com/parleykit/parley/internal/networktest"
	"github.com/parleykit/parley/protocol/message"
)

// gate is a carrier of which Sends can be held up.
type gate struct {
	*carriertest.Carrier
	mu     sync.Mutex
	sent   int
	closed bool
	held   chan struct{} // told of each Send that is held up
}

func (g *gate) Send(ctx context.Context, to carrier.Address, wrap []byte) error {
	g.mu.Lock()
	closed := g.closed
	if !closed {
		g.sent++
	}
	g.mu.Unlock()
	if closed {
		g.held <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	}
	return g.Carrier.Send(ctx, to, wrap)
}

func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = false
}

func (g *gate) count() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.sent
}

// process is one of several processes of an agent.
type process struct {
	*agent
	gate  *gate
	ahead atomic.Int64 // of its clock
}

// processes makes agents of one key on the databases at addresses, which are
// ways to one. They listen at one address too.
//
// Each sends one message at a time, so that what waits is there for the other.
func (w *world) processes(name string, addresses ...string) []*process {
	w.t.Helper()
	var all []*process
	for _, address := range addresses {
		p := &process{gate: &gate{Carrier: w.network.Carrier("mem", name), held: make(chan struct{}, 16)}}
		p.agent = w.add(name, func(o *carrier.Options) {
			if len(all) > 0 {
				o.Keyer = all[0].key
			}
			o.Carriers, o.Instance, o.Senders = []carrier.Carrier{p.gate}, fmt.Sprint(len(all)), 1
			o.Now = func() time.Time { return time.Now().Add(time.Duration(p.ahead.Load())) }
		}).onPostgres(address)
		if len(all) > 0 {
			p.key = all[0].key
		}
		all = append(all, p)
	}
	return all
}

// await waits until a message of the outbox has a state, by whatever process.
func (p *process) await(m *message.Message, want carrier.State) {
	p.t.Helper()
	waitFor(p.t, "a message is "+string(want), func() bool { return p.outgoing(m).State == want })
}

// waitFor polls until the condition holds.
func waitFor(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for range 2000 { // less than a lease
		if holds() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("waited in vain: %s", what)
}

func TestShared_everyMessageIsSentAndHandledOnce(t *testing.T) {
	w := newWorld(t)
	address := databasetest.NewPostgres(t)
	both := w.processes("alice", address, address)
	bob := w.add("bob").start()
	for _, p := range both {
		p.opts.Handle = func(ctx context.Context, tx *sql.Tx, in *carrier.Incoming) error {
			_, err := tx.ExecContext(ctx, "INSERT INTO handled (id) VALUES ($1)", in.Message.ID)
			return err
		}
		p.onPostgres(address)
		p.SetPoll(5 * time.Millisecond) // the processes fight for every row
	}
	err := both[0].db.Tx(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "CREATE TABLE handled (id TEXT NOT NULL)")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	both[0].knows(bob)
	bob.knows(both[0].agent)
	const messages = 20
	var out []*message.Message
	for i := range messages {
		out = append(out, both[i%2].text(bob, fmt.Sprint(i)))
	}
	for _, p := range both {
		p.start()
	}
	for i := range messages {
		bob.text(both[0].agent, fmt.Sprint(i))
	}
	for _, m := range out {
		both[0].await(m, carrier.StateAcked)
	}
	waitFor(t, "all is handled", func() bool { return len(both[0].inbox(carrier.StateDone)) == messages })
	if n := both[0].count("handled"); n != messages {
		t.Errorf("%d were handled, want %d", n, messages)
	}
	waitFor(t, "all acks are sent", func() bool {
		rows, err := both[0].Outbox(t.Context(), carrier.OutboxFilter{States: []carrier.State{carrier.StateQueued}, Acks: true})
		return err == nil && len(rows) == 0
	})
	times := make(map[string]int)
	for _, e := range w.network.Sends() {
		if e.To.Address == "bob" {
			times[string(e.Wrap)]++
		}
	}
	if len(times) != 2*messages { // the texts, and an ack for each of bob's
		t.Errorf("%d wraps were sent, want %d", len(times), 2*messages)
	}
	for _, n := range times {
		if n != 1 {
			t.Errorf("a wrap was sent %d times", n)
		}
	}
	t.Logf("the processes sent %d and %d", both[0].gate.count(), both[1].gate.count())
}

// A process that hangs in the middle of a Send and then is cut off from the
// database, as when its machine dies, holds its message for the lease only.
func TestShared_messageOfADeadProcessIsTakenOverAfterItsLease(t *testing.T) {
	w := newWorld(t)
	address := databasetest.NewPostgres(t)
	direct, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	proxy := networktest.NewProxy(t, direct.Host)
	direct.Host = proxy.Addr()
	both := w.processes("alice", direct.String(), address)
	dying, living := both[0], both[1]
	bob := w.add("bob").start()
	living.knows(bob)
	bob.knows(living.agent)
	dying.gate.close()
	dying.start()
	taken := dying.text(bob, "taken")
	<-dying.gate.held
	living.SetPoll(5 * time.Millisecond)
	living.start()
	living.await(living.text(bob, "other"), carrier.StateAcked)
	living.ahead.Store(int64(carrier.LeaseTime / 2))
	living.await(living.text(bob, "another"), carrier.StateAcked)
	living.wantOut(taken, carrier.StateQueued)
	if n := living.gate.count(); n != 2 {
		t.Errorf("the living process has sent %d messages, want 2", n)
	}
	proxy.Refuse(true)
	proxy.Reset()
	living.ahead.Store(int64(carrier.LeaseTime) + int64(time.Second))
	living.await(taken, carrier.StateAcked)
}

func TestShared_messageOfAProcessThatEndsIsFreeAtOnce(t *testing.T) {
	w := newWorld(t)
	address := databasetest.NewPostgres(t)
	both := w.processes("alice", address, address)
	bob := w.add("bob").start()
	both[0].knows(bob)
	bob.knows(both[0].agent)
	both[0].gate.close()
	both[0].start()
	var taken []*message.Message
	for range 3 {
		taken = append(taken, both[0].text(bob, "taken"))
	}
	<-both[0].gate.held
	both[0].stop()
	both[1].start()
	for _, m := range taken {
		both[1].await(m, carrier.StateAcked)
	}
}

// A process that died finds its messages due when it runs again, and leaves
// those of the others alone.
func TestShared_messageOfAnEarlierLifeIsDueAtOnce(t *testing.T) {
	w := newWorld(t)
	address := databasetest.NewPostgres(t)
	direct, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	proxy := networktest.NewProxy(t, direct.Host)
	direct.Host = proxy.Addr()
	both := w.processes("alice", direct.String(), address)
	dying, living := both[0], both[1]
	bob := w.add("bob").start()
	living.knows(bob)
	bob.knows(living.agent)
	dying.ahead.Store(int64(30 * time.Minute)) // its leases last, as other clocks have it
	var taken []*message.Message
	for _, p := range both {
		p.gate.close()
		p.start()
		taken = append(taken, p.text(bob, "taken"))
		<-p.gate.held
	}
	proxy.Refuse(true)
	proxy.Reset()
	dying.stop() // it can tell nobody
	dying.gate.open()
	dying.ahead.Store(0)
	dying.onPostgres(address).start()
	dying.await(taken[0], carrier.StateAcked)
	dying.await(dying.text(bob, "other"), carrier.StateAcked)
	dying.wantOut(taken[1], carrier.StateQueued)
}

func TestShared_leaseIsRenewedWhileItsMessageIsSent(t *testing.T) {
	w := newWorld(t)
	address := databasetest.NewPostgres(t)
	both := w.processes("alice", address, address)
	slow, other := both[0], both[1]
	bob := w.add("bob").start()
	slow.knows(bob)
	bob.knows(slow.agent)
	slow.gate.close()
	slow.start()
	taken := slow.text(bob, "taken")
	<-slow.gate.held
	for i := range 3 { // lets the time of two leases pass
		slow.ahead.Store(int64(i) * int64(carrier.LeaseTime*2/3))
		if err := slow.RenewLeases(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	other.ahead.Store(int64(carrier.LeaseTime * 2))
	other.SetPoll(5 * time.Millisecond)
	other.start()
	other.await(other.text(bob, "other"), carrier.StateAcked)
	if row := other.wantOut(taken, carrier.StateQueued); other.gate.count() != 1 {
		t.Errorf("the other process has sent %d messages, want 1; the leased one is %s", other.gate.count(), row.State)
	}
}

// A message that was concluded or asked for while it was sent is no longer
// leased, and renewing does not bring that back.
func TestShared_leaseThatIsOverIsNotRenewed(t *testing.T) {
	w := newWorld(t)
	p := w.processes("alice", databasetest.NewPostgres(t))[0]
	bob := w.add("bob")
	p.knows(bob)
	p.gate.close()
	p.start()
	m := p.text(bob, "hello")
	<-p.gate.held
	err := p.db.Write(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "UPDATE carrier_outbox SET due_ms = NULL")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.RenewLeases(t.Context()); err != nil {
		t.Fatal(err)
	}
	if due := p.outgoing(m).NextAt; !due.IsZero() {
		t.Errorf("the message is due again at %s", due)
	}
}

func TestShared_wakeReachesTheOtherProcess(t *testing.T) {
	w := newWorld(t)
	address := databasetest.NewPostgres(t)
	both := w.processes("alice", address, address)
	bob := w.add("bob").start()
	both[0].knows(bob)
	bob.knows(both[0].agent)
	both[1].SetPoll(time.Hour)
	both[1].start()
	for range 3 {
		both[1].await(both[0].text(bob, "by a process that does not run"), carrier.StateAcked)
	}
}

func TestShared_messageOfAProcessThatDiedBeforeItsWakeLeaves(t *testing.T) {
	w := newWorld(t)
	address := databasetest.NewPostgres(t)
	both := w.processes("alice", address, address)
	bob := w.add("bob").start()
	both[0].knows(bob)
	bob.knows(both[0].agent)
	both[1].SetPoll(5 * time.Millisecond)
	both[1].start()
	for range 3 {
		m := both[0].message(bob, message.TypeText, message.Text{Text: "hello"}, time.Hour)
		err := both[0].db.Write(t.Context(), func(ctx context.Context, tx *sql.Tx) error { return both[0].SendTx(ctx, tx, m) })
		if err != nil {
			t.Fatal(err)
		}
		both[1].await(m, carrier.StateAcked)
	}
}

// Two processes that find a message at the same time count one failure of
// Handle as one.
func TestShared_failureOfHandleCountsOnce(t *testing.T) {
	w := newWorld(t)
	address := databasetest.NewPostgres(t)
	both := w.processes("alice", address, address)
	bob := w.add("bob").start()
	var calls atomic.Int64
	for _, p := range both {
		p.opts.Retry = exact(time.Hour, time.Hour)
		p.opts.Handle = func(_ context.Context, _ *sql.Tx, in *carrier.Incoming) error {
			if calls.Add(1); in.Message.Type == message.TypeText {
				return carrier.ErrTransient
			}
			return nil
		}
		p.onPostgres(address)
		p.SetPoll(time.Millisecond)
		p.start()
	}
	both[0].knows(bob)
	bob.knows(both[0].agent)
	const messages = 20
	for i := range messages {
		bob.text(both[0].agent, fmt.Sprint(i))
	}
	attempts := func() (rows, most, all int) {
		err := both[0].db.View(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
			return tx.QueryRowContext(ctx, "SELECT count(*), coalesce(max(attempts), 0), coalesce(sum(attempts), 0) FROM carrier_inbox").Scan(&rows, &most, &all)
		})
		if err != nil {
			t.Fatal(err)
		}
		return rows, most, all
	}
	waitFor(t, "every message was tried", func() bool { rows, _, all := attempts(); return rows == messages && all >= messages })
	if _, most, _ := attempts(); most != 1 {
		t.Errorf("a message counts %d failures after one", most)
	}
	t.Logf("Handle was called %d times for %d messages", calls.Load(), messages)
}
