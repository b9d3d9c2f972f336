package carrier_test

import (
	"testing"
	"time"

	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/internal/database"
	"github.com/parleykit/parley/internal/database/databasetest"
	"github.com/parleykit/parley/protocol/message"
)

// onPostgres opens an agent's engine on a PostgreSQL database, also again.
func (a *agent) onPostgres(address string) *agent {
	a.t.Helper()
	if err := a.db.Close(); err != nil {
		a.t.Fatal(err)
	}
	a.db = databasetest.OpenURL(a.t, address, database.Options{})
	a.opts.DB = a.db
	var err error
	if a.Engine, err = carrier.New(a.t.Context(), a.opts); err != nil {
		a.t.Fatal(err)
	}
	return a
}

// waitOut waits until a message of the outbox has a state.
func (a *agent) waitOut(m *message.Message, want carrier.State) {
	a.t.Helper()
	changes := a.Subscribe(a.t.Context())
	limit := time.After(time.Minute)
	for a.outgoing(m).State != want {
		select {
		case <-changes:
		case <-limit:
			a.t.Fatalf("the message is still %s", a.outgoing(m).State)
		}
	}
}

// TestPostgres_carriesMessagesBothWaysAndOverARestart runs the main path with
// the real clock: a text, a message of several wraps, a contact's answer, and
// one that waited while both engines were closed.
func TestPostgres_carriesMessagesBothWaysAndOverARestart(t *testing.T) {
	w := newWorld(t)
	addresses := []string{databasetest.NewPostgres(t), databasetest.NewPostgres(t)}
	alice, bob := w.add("alice").onPostgres(addresses[0]), w.add("bob").onPostgres(addresses[1])
	alice.knows(bob)
	bob.knows(alice)
	alice.start()
	bob.start()
	var sent []*message.Message
	for range 10 {
		sent = append(sent, alice.text(bob, "hello"))
	}
	long := alice.long(bob)
	if err := alice.Send(t.Context(), long); err != nil {
		t.Fatal(err)
	}
	for _, m := range append(sent, long) {
		alice.waitOut(m, carrier.StateAcked)
	}
	bob.waitOut(bob.text(alice, "and back"), carrier.StateAcked)
	alice.stop()
	bob.stop()
	later := alice.text(bob, "later")
	alice.onPostgres(addresses[0]).start()
	bob.onPostgres(addresses[1]).start()
	alice.waitOut(later, carrier.StateAcked)
	if n := bob.count("carrier_inbox"); n != 12 {
		t.Errorf("bob has %d messages, want 12", n)
	}
	if n := bob.count("carrier_parts"); n != 0 {
		t.Errorf("%d parts are left", n)
	}
	for _, row := range bob.inbox() {
		if row.State != carrier.StateDone {
			t.Errorf("message %s is %s: %s", row.Message.ID, row.State, row.Reason)
		}
	}
}
