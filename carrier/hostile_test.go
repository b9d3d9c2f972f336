package carrier_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/protocol/canonical"
	"github.com/parleykit/parley/protocol/message"
)

func TestNoNumberOfWrapsOfOnePartMakesAStrangerMoreRows(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		bob, stranger := w.add("bob").start(), w.add("stranger")
		m := stranger.long(bob)
		for range 20 { // the same part, each time in a new wrap
			w.network.Put(at("bob"), stranger.seal(m)[0])
		}
		pass(time.Second)
		if parts, wraps := bob.count("carrier_parts"), bob.count("carrier_wraps"); parts != 1 || wraps != 1 {
			t.Errorf("%d parts and %d wraps remembered, want 1 each", parts, wraps)
		}
	})
}

func TestPartsThatDoNotJoinLeaveNothingOfAStranger(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		bob, stranger := w.add("bob").start(), w.add("stranger")
		time.Sleep(10 * time.Minute) // off the full hour
		for range 10 {
			m := stranger.long(bob)
			m.ExpiresAt = canonical.At(m.SentAt.Add(time.Hour))
			wraps := stranger.seal(m)
			for _, wrap := range wraps[:len(wraps)-1] {
				w.network.Put(at("bob"), wrap)
			}
			pass(time.Second)
			stranger.expire(m) // the last part comes when the message is over
			w.network.Put(at("bob"), wraps[len(wraps)-1])
			pass(time.Second)
		}
		for _, table := range []string{"carrier_parts", "carrier_wraps", "carrier_inbox"} {
			if n := bob.count(table); n != 0 {
				t.Errorf("%s has %d rows, want none", table, n)
			}
		}
	})
}

// expire lets time go by until a message is over and its wraps, which live to
// the next full hour, are not.
func (a *agent) expire(m *message.Message) {
	a.t.Helper()
	time.Sleep(time.Until(m.ExpiresAt.Add(time.Second)))
}

func TestAnswersOfAStrangerLeaveOneRow(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		alice, stranger := w.add("alice").start(), w.add("stranger")
		m := alice.text(stranger, "hello")
		pass(time.Second)
		for range 10 {
			for _, body := range []message.Body{message.Ack{ID: m.ID}, message.Nack{ID: m.ID, Reason: "no"}} {
				for _, wrap := range stranger.seal(stranger.message(alice, body.Type(), body, time.Hour)) {
					w.network.Put(at("alice"), wrap)
				}
			}
		}
		pass(time.Second)
		alice.wantOut(m, carrier.StateAcked)
		if n := alice.count("carrier_wraps"); n != 1 {
			t.Errorf("%d wraps remembered, want that of the one ack that counted", n)
		}
	})
}

func TestWhoCannotBeReachedFillsNoMoreThanItsShareOfTheOutbox(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		alice := w.add("alice", func(o *carrier.Options) {
			o.Limits.OutboxOfPeer = 10
			o.Resolve = func(ctx context.Context, pubkey string) ([]carrier.Address, error) { return nil, errDown }
		})
		gone, bob := w.add("gone"), w.add("bob")
		send := func(to *agent) error {
			return alice.Send(t.Context(), alice.message(to, message.TypeText, message.Text{Text: "x"}, time.Hour))
		}
		for i := range 10 {
			if err := send(gone); err != nil {
				t.Fatalf("message %d: %v", i+1, err)
			}
		}
		if err := send(gone); !errors.Is(err, carrier.ErrPeerFull) || !strings.Contains(err.Error(), "10 ") {
			t.Errorf("over its share: %v", err)
		}
		if err := send(bob); err != nil {
			t.Errorf("to somebody else: %v", err)
		}
	})
}
