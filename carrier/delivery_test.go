package carrier_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/carrier/carriertest"
	"github.com/parleykit/parley/protocol/message"
)

func TestMessageOfAContactIsProcessedOnceAndAcked(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		alice, bob := w.add("alice").start(), w.add("bob").start()
		alice.knows(bob)
		bob.knows(alice)
		m := alice.text(bob, "hello")
		pass(time.Second)
		if diff := cmp.Diff([]string{m.ID}, bob.ids()); diff != "" {
			t.Errorf("handled (-want +got):\n%s", diff)
		}
		row := alice.wantOut(m, carrier.StateAcked)
		if row.AckedAt.IsZero() || !row.NextAt.IsZero() {
			t.Errorf("acked row: acked at %v, next at %v", row.AckedAt, row.NextAt)
		}
		if rows := bob.inbox(); len(rows) != 1 || rows[0].State != carrier.StateDone || rows[0].Message.ID != m.ID {
			t.Errorf("inbox = %+v", rows)
		}
		if got := alice.inbox(); len(got) != 0 {
			t.Errorf("the ack is in the inbox: %+v", got)
		}
		pass(3 * time.Hour)
		if n := len(w.network.Sends()); n != 2 {
			t.Errorf("%d sends, want the message and its ack", n)
		}
	})
}

func TestDuplicatesThroughTwoAddressesAreProcessedOnce(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		alice := w.add("alice").start()
		bob := w.add("bob", func(o *carrier.Options) {
			o.Carriers = []carrier.Carrier{w.network.Carrier("mem", "bob", "bob2"), w.network.Carrier("other", "bob")}
		}).start()
		w.book[bob.PublicKey()] = []carrier.Address{at("bob"), at("bob2"), {Scheme: "other", Address: "bob"}, {Scheme: "smoke", Address: "x"}}
		alice.opts.Carriers = append(alice.opts.Carriers, w.network.Carrier("other"))
		alice.opts.Parallel = 3
		alice.stop()
		alice.db.Close()
		alice.open()
		alice.start().knows(bob)
		bob.knows(alice)
		m := alice.text(bob, "hello")
		pass(time.Second)
		if got := bob.ids(); len(got) != 1 {
			t.Errorf("handled %d times", len(got))
		}
		row := alice.wantOut(m, carrier.StateAcked)
		if len(row.Deliveries) != 3 {
			t.Errorf("deliveries = %+v, want 3", row.Deliveries)
		}
		// The same message in a fresh envelope is the same message.
		for _, wrap := range alice.seal(m) {
			w.network.Put(at("bob"), wrap)
		}
		pass(time.Second)
		if got := bob.ids(); len(got) != 1 {
			t.Errorf("handled %d times after another envelope", len(got))
		}
	})
}

func TestUnackedMessageToAContactIsResentUnchangedWithBackoffUntilAcked(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		alice, bob := w.add("alice").start(), w.add("bob").start()
		alice.knows(bob)
		bob.knows(alice)
		w.network.Lose(func(to carrier.Address, _ []byte) bool { return to.Address == "bob" })
		began := time.Now()
		var times []time.Duration
		w.network.Fail(func(to carrier.Address, _ []byte) error {
			if to.Address == "bob" {
				times = append(times, time.Since(began))
			}
			return nil
		})
		m := alice.message(bob, message.TypeText, message.Text{Text: "x"}, 24*time.Hour)
		if err := alice.Send(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		pass(10 * time.Minute)
		alice.wantOut(m, carrier.StateSent)
		want := []time.Duration{0, time.Minute, 3 * time.Minute, 7 * time.Minute}
		if diff := cmp.Diff(want, times); diff != "" {
			t.Errorf("times of sending (-want +got):\n%s", diff)
		}
		w.network.Lose(nil)
		pass(10 * time.Minute)
		alice.wantOut(m, carrier.StateAcked)
		sends := w.network.Sends()
		for _, e := range sends {
			if e.To.Address == "bob" && !bytes.Equal(e.Wrap, sends[0].Wrap) {
				t.Error("a repetition has other bytes")
			}
		}
	})
}

func TestMessageToAStrangerIsSentOncePerAddress(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		alice, bob := w.add("alice").start(), w.add("bob")
		w.book[bob.PublicKey()] = []carrier.Address{at("bob"), at("bob2")}
		m := alice.text(bob, "hello")
		pass(3 * time.Hour)
		if row := alice.wantOut(m, carrier.StateSent); !row.NextAt.IsZero() {
			t.Errorf("next attempt at %v, want none", row.NextAt)
		}
		if one, two := w.sendsTo("bob"), w.sendsTo("bob2"); one != 1 || two != 1 {
			t.Errorf("sent %d and %d times, want once each", one, two)
		}
	})
}

func TestTransientFailureIsRetriedUntilItWorks(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		alice, bob := w.add("alice").start(), w.add("bob").start()
		bob.knows(alice)
		began := time.Now()
		var times []time.Duration
		w.network.Fail(func(to carrier.Address, _ []byte) error {
			if to.Address != "bob" {
				return nil
			}
			if times = append(times, time.Since(began)); len(times) < 4 {
				return fmt.Errorf("%w: %w", carrier.ErrTransient, errDown)
			}
			return nil
		})
		m := alice.text(bob, "hello")
		pass(time.Second)
		row := alice.wantOut(m, carrier.StateQueued)
		if row.Reason == "" || row.NextAt.IsZero() || row.Deliveries[0].Attempts != 1 {
			t.Errorf("waiting row = %+v", row)
		}
		pass(time.Minute)
		alice.wantOut(m, carrier.StateAcked) // bob knows alice, so bob acks
		want := []time.Duration{0, 2 * time.Second, 6 * time.Second, 14 * time.Second}
		if diff := cmp.Diff(want, times); diff != "" {
			t.Errorf("times of sending (-want +got):\n%s", diff)
		}
	})
}

func TestAddressThatTookOrRefusedTheMessageIsLeftAloneWhileAnotherIsTried(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		alice, bob := w.add("alice").start(), w.add("bob")
		w.book[bob.PublicKey()] = []carrier.Address{at("good"), at("gone"), at("busy")}
		w.network.Fail(func(to carrier.Address, _ []byte) error {
			return map[string]error{"gone": carrier.ErrPermanent, "busy": errDown}[to.Address]
		})
		m := alice.text(bob, "hello")
		pass(50 * time.Minute)
		if good, gone, busy := w.sendsTo("good"), w.sendsTo("gone"), w.sendsTo("busy"); good != 1 || gone != 1 || busy != 5 {
			t.Errorf("sent %d, %d and %d times; want 1, 1 and 5", good, gone, busy)
		}
		alice.wantOut(m, carrier.StateSent)
	})
}

func TestManyMessagesToADeadAddressCauseFewAttempts(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		alice, bob := w.add("alice").start(), w.add("bob")
		w.network.Fail(func(carrier.Address, []byte) error { return errDown })
		for range 50 {
			alice.text(bob, "hello")
		}
		pass(30 * time.Second)
		// Up to Senders attempts may start before the first has failed; from
		// then on the address is left alone for 2, 4, 8 and 16 s.
		if n := w.sendsTo("bob"); n > 50 {
			t.Errorf("%d attempts for 50 messages", n)
		}
		w.network.Fail(nil)
		pass(20 * time.Minute)
		rows, err := alice.Outbox(t.Context(), carrier.OutboxFilter{States: []carrier.State{carrier.StateSent}})
		if err != nil || len(rows) != 50 {
			t.Errorf("%d messages sent after recovery, want 50 (%v)", len(rows), err)
		}
	})
}

func TestRateLimitIsObeyedForEveryMessageToTheAddress(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		alice, bob := w.add("alice").start(), w.add("bob")
		w.network.Fail(func(carrier.Address, []byte) error { return &carrier.RateLimited{After: 10 * time.Minute} })
		first := alice.text(bob, "one")
		pass(time.Second)
		w.network.Fail(nil)
		second := alice.text(bob, "two")
		pass(9 * time.Minute)
		alice.wantOut(first, carrier.StateQueued)
		alice.wantOut(second, carrier.StateQueued)
		if n := w.sendsTo("bob"); n != 1 {
			t.Errorf("%d sends during the pause", n)
		}
		pass(2 * time.Minute)
		alice.wantOut(first, carrier.StateSent)
		alice.wantOut(second, carrier.StateSent)
	})
}

func TestPermanentFailureEverywhereIsDeadWithAReasonAndCanBeRequeued(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		alice, bob := w.add("alice").start(), w.add("bob")
		w.network.Fail(func(carrier.Address, []byte) error { return fmt.Errorf("%w: no such box", carrier.ErrPermanent) })
		m := alice.text(bob, "hello")
		pass(10 * time.Minute)
		row := alice.wantOut(m, carrier.StateDead)
		if row.Reason != "carrier: permanent failure: no such box" || w.sendsTo("bob") != 1 {
			t.Errorf("reason %q after %d sends", row.Reason, w.sendsTo("bob"))
		}
		w.network.Fail(nil)
		if err := alice.Requeue(t.Context(), row.Seq); err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		alice.wantOut(m, carrier.StateSent)
		if err := alice.Requeue(t.Context(), row.Seq); !errors.Is(err, carrier.ErrNotFound) {
			t.Errorf("Requeue of a live message: %v", err)
		}
		if err := alice.Purge(t.Context(), row.Seq); !errors.Is(err, carrier.ErrNotFound) {
			t.Errorf("Purge of a live message: %v", err)
		}
		w.network.Fail(func(carrier.Address, []byte) error { return carrier.ErrPermanent })
		dead := alice.outgoing(alice.text(bob, "again"))
		pass(time.Second)
		if err := alice.Purge(t.Context(), dead.Seq); err != nil || alice.count("carrier_outbox") != 1 {
			t.Errorf("Purge of a dead message: %v, %d rows left", err, alice.count("carrier_outbox"))
		}
	})
}

func TestMessageThatCannotBeDeliveredInTimeExpires(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		alice, bob := w.add("alice").start(), w.add("bob")
		alice.knows(bob)
		w.network.Fail(func(carrier.Address, []byte) error { return errDown })
		down := alice.text(bob, "never leaves")
		pass(time.Second)
		w.network.Fail(nil)
		w.network.Lose(func(carrier.Address, []byte) bool { return true })
		pass(20 * time.Minute)
		unacked := alice.text(bob, "is never acked")
		nowhere := alice.message(w.add("carol"), message.TypeText, message.Text{Text: "x"}, time.Hour)
		w.mu.Lock()
		delete(w.book, nowhere.To)
		w.mu.Unlock()
		if err := alice.Send(t.Context(), nowhere); err != nil {
			t.Fatal(err)
		}
		pass(2 * time.Hour)
		for _, m := range []*message.Message{down, unacked, nowhere} {
			if row := alice.wantOut(m, carrier.StateExpired); row.Reason == "" || !row.NextAt.IsZero() {
				t.Errorf("expired row = %+v", row)
			}
		}
		sends := len(w.network.Sends())
		pass(3 * time.Hour)
		if n := len(w.network.Sends()); n != sends {
			t.Errorf("%d sends after expiry", n-sends)
		}
	})
}

func TestAddressFoundLaterIsUsed(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		var fail atomic.Bool
		fail.Store(true)
		alice := w.add("alice", func(o *carrier.Options) {
			o.Resolve = func(ctx context.Context, pubkey string) ([]carrier.Address, error) {
				if fail.Load() {
					return nil, errDown
				}
				return w.resolve(ctx, pubkey)
			}
		}).start()
		bob := w.add("bob")
		m := alice.text(bob, "hello")
		pass(time.Minute)
		if row := alice.wantOut(m, carrier.StateQueued); row.Reason != "finding an address: down" {
			t.Errorf("reason = %q", row.Reason)
		}
		fail.Store(false)
		pass(5 * time.Minute)
		alice.wantOut(m, carrier.StateSent)
	})
}

func TestCarrierWithTooSmallFramesIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		alice := w.add("alice", func(o *carrier.Options) {
			small := w.network.Carrier("mem", "alice")
			small.Frame = 90
			o.Carriers = []carrier.Carrier{small}
		}).start()
		m := alice.text(w.add("bob"), "hello")
		pass(time.Second)
		alice.wantOut(m, carrier.StateDead)
	})
}

func TestSendRefusesWhatItCannotKeep(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		alice := w.add("alice", func(o *carrier.Options) { o.Limits.Outbox = 2 })
		bob := w.add("bob")
		m := alice.text(bob, "one")
		if err := alice.Send(t.Context(), m); err != nil {
			t.Errorf("the same message again: %v", err)
		}
		other := *m
		other.Type, other.Body = "text", []byte(`{"text":"two"}`)
		if err := alice.Send(t.Context(), &other); !errors.Is(err, carrier.ErrExists) {
			t.Errorf("another message under a used id: %v", err)
		}
		if err := bob.Send(t.Context(), m); !errors.Is(err, carrier.ErrSender) {
			t.Errorf("a message of another key: %v", err)
		}
		alice.text(bob, "two")
		third := alice.message(bob, message.TypeText, message.Text{Text: "three"}, time.Hour)
		if err := alice.Send(t.Context(), third); !errors.Is(err, carrier.ErrOutboxFull) {
			t.Errorf("beyond the limit: %v", err)
		}
		if n := alice.count("carrier_outbox"); n != 2 {
			t.Errorf("%d outbox rows, want 2", n)
		}
	})
}

func TestSendTxLeavesWithItsTransactionOnly(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		alice, bob := w.add("alice").start(), w.add("bob")
		m := alice.message(bob, message.TypeText, message.Text{Text: "x"}, time.Hour)
		send := func(ctx context.Context, tx *sql.Tx) error { return alice.SendTx(ctx, tx, m) }
		err := alice.db.Tx(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
			return errors.Join(send(ctx, tx), errDown)
		})
		if !errors.Is(err, errDown) {
			t.Fatal(err)
		}
		pass(time.Minute)
		if n := len(w.network.Sends()); n != 0 {
			t.Errorf("%d sends of a message that was rolled back", n)
		}
		if err := alice.db.Tx(t.Context(), send); err != nil {
			t.Fatal(err)
		}
		alice.Wake()
		pass(0)
		alice.wantOut(m, carrier.StateSent)
	})
}

func TestRestartedEngineGoesOnWhereItStopped(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		alice, bob := w.add("alice").start(), w.add("bob").start()
		alice.knows(bob)
		bob.knows(alice)
		first := alice.text(bob, "one")
		pass(time.Second)
		alice.stop()
		bob.stop()
		second := alice.text(bob, "two") // stored, not sent
		for _, a := range []*agent{alice, bob} {
			if err := a.db.Close(); err != nil {
				t.Fatal(err)
			}
			a.open()
			a.start()
		}
		pass(time.Second)
		alice.wantOut(first, carrier.StateAcked)
		alice.wantOut(second, carrier.StateAcked)
		if diff := cmp.Diff([]string{first.ID, second.ID}, bob.ids()); diff != "" {
			t.Errorf("handled (-want +got):\n%s", diff)
		}
	})
}

func TestSyncMakesOnePassWithoutRun(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		alice, bob := w.add("alice"), w.add("bob")
		alice.knows(bob)
		bob.knows(alice)
		m := alice.text(bob, "hello")
		for _, a := range []*agent{alice, bob, alice} {
			if err := a.Sync(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		alice.wantOut(m, carrier.StateAcked)
		if diff := cmp.Diff([]string{m.ID}, bob.ids()); diff != "" {
			t.Errorf("handled (-want +got):\n%s", diff)
		}
		w.network.Fail(func(carrier.Address, []byte) error { return errDown })
		failing := alice.text(bob, "again")
		for range 3 {
			if err := alice.Sync(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		alice.wantOut(failing, carrier.StateQueued)
	})
}

func TestASecondRunIsRefusedAndTheFirstEndsWithItsContext(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		alice := w.add("alice").start()
		pass(time.Second)
		if err := alice.Run(t.Context()); !errors.Is(err, carrier.ErrRunning) {
			t.Errorf("second Run: %v", err)
		}
		alice.stop()
		alice.start() // and after its end it may run again
		pass(time.Second)
	})
}

func TestCarrierThatStopsReceivingIsStartedAgain(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		broken := &brokenCarrier{Carrier: w.network.Carrier("mem", "bob"), failures: 3}
		alice := w.add("alice").start()
		bob := w.add("bob", func(o *carrier.Options) { o.Carriers = []carrier.Carrier{broken} }).start()
		bob.knows(alice)
		m := alice.text(bob, "hello")
		pass(time.Minute)
		if !slices.Equal(bob.ids(), []string{m.ID}) {
			t.Errorf("handled %v, want %v", bob.ids(), m.ID)
		}
	})
}

// brokenCarrier fails to receive a few times.
type brokenCarrier struct {
	*carriertest.Carrier
	failures int
}

func (c *brokenCarrier) Receive(ctx context.Context, from carrier.Cursor, handle carrier.Handler) error {
	if c.failures--; c.failures >= 0 {
		return errDown
	}
	return c.Carrier.Receive(ctx, from, handle)
}
