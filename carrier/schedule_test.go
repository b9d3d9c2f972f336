package carrier_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/protocol/message"
)

// places gives an agent addresses in the order of priority.
func (w *world) places(a *agent, names ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.book[a.PublicKey()] = nil
	for i, name := range names { // the best last, so that the order matters
		w.book[a.PublicKey()] = append([]carrier.Address{{Scheme: "mem", Address: name, Priority: i}}, w.book[a.PublicKey()]...)
	}
}

// log is to which addresses of others than alice was sent, in order.
func (w *world) log() (names []string) {
	for _, e := range w.network.Sends() {
		if e.To.Address != "alice" {
			names = append(names, e.To.Address)
		}
	}
	return names
}

func (w *world) wantLog(t *testing.T, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, w.log()); diff != "" {
		t.Fatalf("sends (-want +got):\n%s", diff)
	}
}

func TestNextAddressIsUsedWhenNoAckComesInTime(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		alice := w.add("alice").start()
		bob := w.add("bob", func(o *carrier.Options) { o.Carriers = []carrier.Carrier{w.network.Carrier("mem", "three")} }).start()
		w.places(bob, "one", "two", "three")
		alice.knows(bob)
		bob.knows(alice)
		m := alice.text(bob, "hello")
		pass(29 * time.Second)
		w.wantLog(t, "one")
		pass(time.Second)
		w.wantLog(t, "one", "two")
		pass(29 * time.Second)
		alice.wantOut(m, carrier.StateSent)
		pass(2 * time.Second)
		alice.wantOut(m, carrier.StateAcked)
		before := len(w.log())
		alice.text(bob, "again") // what worked last comes first
		pass(time.Second)
		if diff := cmp.Diff([]string{"three"}, w.log()[before:]); diff != "" {
			t.Errorf("second message (-want +got):\n%s", diff)
		}
	})
}

func TestAddressThatFailsIsReplacedAtOnceAndLeftToRest(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		alice, bob := w.add("alice").start(), w.add("bob").start()
		w.places(bob, "one", "bob")
		alice.knows(bob)
		bob.knows(alice)
		w.network.Fail(func(to carrier.Address, _ []byte) error {
			if to.Address == "one" {
				return errDown
			}
			return nil
		})
		m := alice.text(bob, "hello")
		pass(0)
		w.wantLog(t, "one", "bob")
		alice.wantOut(m, carrier.StateAcked)
		pass(3 * time.Hour)
		w.wantLog(t, "one", "bob")
	})
}

func TestParallelAddressesGetAMessageTogether(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		alice := w.add("alice", func(o *carrier.Options) { o.Parallel = 2 }).start()
		bob := w.add("bob")
		w.places(bob, "one", "two", "three")
		alice.knows(bob)
		alice.text(bob, "hello")
		pass(time.Second)
		if n := len(w.log()); n != 2 {
			t.Fatalf("%d sends, want 2", n)
		}
		pass(30 * time.Second)
		if n := len(w.log()); n != 3 || w.log()[2] != "three" {
			t.Fatalf("after the fallback: %v", w.log())
		}
		pass(30 * time.Second) // the first round of resending
		if n := len(w.log()); n != 6 {
			t.Errorf("%d sends after a round of resending, want 6: %v", n, w.log())
		}
	})
}

func TestDeadAddressIsProbedByOneMessageAtATime(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		registry := prometheus.NewRegistry()
		alice := w.add("alice", func(o *carrier.Options) { o.Registerer, o.BreakAfter = registry, 2 }).start()
		bob := w.add("bob")
		w.network.Fail(func(carrier.Address, []byte) error { return errDown })
		for range 100 {
			alice.text(bob, "hello")
		}
		pass(time.Second)
		first := w.sendsTo("bob")
		pass(15 * time.Minute)
		if n := w.sendsTo("bob") - first; n > 8 {
			t.Errorf("%d attempts of 100 messages at an open circuit, want one for each rest", n)
		}
		circuits, err := testutil.GatherAndCount(registry, "parley_carrier_open_circuits")
		if err != nil || circuits != 1 {
			t.Errorf("gauge of open circuits: %d series, %v", circuits, err)
		}
	})
}

func TestAcksAndAgreementsOvertakeBulk(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		alice := w.add("alice", func(o *carrier.Options) { o.Senders = 1 })
		bob := w.add("bob")
		alice.knows(bob)
		for range 20 {
			alice.text(bob, "bulk")
		}
		query := alice.message(bob, message.TypeAgreementQuery, message.AgreementQuery{AgreementID: alice.text(bob, "x").ID}, time.Hour)
		if err := alice.Send(t.Context(), query); err != nil {
			t.Fatal(err)
		}
		var wrap []byte
		err := alice.db.View(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
			return tx.QueryRowContext(ctx, `SELECT wrap FROM carrier_outbox_wraps
				WHERE outbox_seq = (SELECT seq FROM carrier_outbox WHERE message_id = $1)`, query.ID).Scan(&wrap)
		})
		if err != nil {
			t.Fatal(err)
		}
		alice.start()
		pass(time.Second)
		alice.wantOut(query, carrier.StateSent)
		if sends := w.network.Sends(); !bytes.Equal(sends[0].Wrap, wrap) {
			t.Error("something left before the query")
		}
		if n := w.sendsTo("bob"); n != 22 {
			t.Errorf("%d sends, want 22", n)
		}
	})
}

func TestOutboxIsBoundedByBytes(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		alice := w.add("alice", func(o *carrier.Options) { o.Limits.OutboxBytes = 5000 })
		bob := w.add("bob")
		alice.text(bob, "one")
		m := alice.message(bob, message.TypeText, message.Text{Text: "two"}, time.Hour)
		err := alice.Send(t.Context(), m)
		for err == nil {
			m = alice.message(bob, message.TypeText, message.Text{Text: "more"}, time.Hour)
			err = alice.Send(t.Context(), m)
		}
		if !errors.Is(err, carrier.ErrOutboxFull) || alice.count("carrier_outbox") > 5 {
			t.Errorf("after %d messages: %v", alice.count("carrier_outbox"), err)
		}
		if err := alice.Sync(t.Context()); err != nil { // what has left makes room
			t.Fatal(err)
		}
		if err := alice.Send(t.Context(), m); err != nil {
			t.Error(err)
		}
	})
}

func TestInviteToAMemberIsSentAgainUntilAckedWithABound(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		venue := w.add("venue").start()
		member := w.add("bob", func(o *carrier.Options) { o.Now = time.Now }).start()
		member.knows(venue) // the venue does not know the member
		losses := 3
		w.network.Lose(func(to carrier.Address, _ []byte) bool {
			losses--
			return to.Address == "bob" && losses >= 0
		})
		id := venue.text(w.add("carol"), "x").ID
		artifact := func(to *agent) *message.Message {
			m := venue.message(to, message.TypeAgreementArtifact, message.AgreementArtifact{AgreementID: id, Bundle: "{}"}, 7*24*time.Hour)
			if err := venue.Send(t.Context(), m); err != nil {
				t.Fatal(err)
			}
			return m
		}
		m := artifact(member)
		pass(time.Hour)
		venue.wantOut(m, carrier.StateAcked)
		silent := w.add("dave")
		lost := artifact(silent)
		pass(8 * 24 * time.Hour)
		if n := w.sendsTo("dave"); n != 12 {
			t.Errorf("%d sends to a silent member, want 12", n)
		}
		venue.wantOut(lost, carrier.StateSent)
	})
}

func ExampleRateLimited() {
	fmt.Println(&carrier.RateLimited{After: time.Minute})
	// Output: carrier: rate limited, try again after 1m0s
}

func TestNextMessageLeavesWhileTheOutcomeOfTheLastWaitsForTheDisk(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		alice, bob := w.add("alice", func(o *carrier.Options) { o.Senders = 1 }), w.add("bob")
		alice.text(bob, "one")
		alice.text(bob, "two")
		busy, written := make(chan struct{}), make(chan error)
		go func() {
			written <- alice.db.Tx(t.Context(), func(context.Context, *sql.Tx) error { <-busy; return nil })
		}()
		synctest.Wait()
		alice.start()
		pass(time.Second)
		if n := w.sendsTo("bob"); n != 2 {
			t.Errorf("%d messages were sent while the database was busy, want both", n)
		}
		close(busy)
		if err := <-written; err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
	})
}
