package carrier_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/protocol/message"
)

const twoDays = 48 * time.Hour

// skewed is the bubble's clock with an error that the test sets.
type skewed struct{ by atomic.Int64 }

func (s *skewed) off(d time.Duration)        { s.by.Store(int64(d)) }
func (s *skewed) now() time.Time             { return time.Now().Add(time.Duration(s.by.Load())) }
func (s *skewed) options(o *carrier.Options) { o.Now = s.now }
func down(carrier.Address, []byte) error     { return errDown }
func (a *agent) mail(to *agent, ttl time.Duration) *message.Message {
	a.t.Helper()
	m := a.message(to, message.TypeText, message.Text{Text: "hello"}, ttl)
	if err := a.Send(a.t.Context(), m); err != nil {
		a.t.Fatal(err)
	}
	return m
}

// longest is how long a clock that was put right may stall anything: the pause
// of the purge, and one round of sending.
const longest = 11 * time.Minute

func TestAClockPutBackStallsNoMessage(t *testing.T) {
	for _, rested := range []bool{false, true} { // whether the process stays the same
		bubble(t, func(t *testing.T, w *world) {
			var clock skewed
			alice, bob := w.add("alice", clock.options).start(), w.add("bob").start()
			alice.knows(bob)
			bob.knows(alice)
			w.network.Fail(down)
			m := alice.mail(bob, 7*24*time.Hour)
			pass(time.Second)
			clock.off(twoDays)
			pass(time.Hour) // retries are planned two days ahead
			alice.wantOut(m, carrier.StateQueued)
			if rested {
				alice.stop()
				alice.db.Close()
			}
			clock.off(0)
			w.network.Fail(nil)
			if rested {
				alice.open()
				alice.start()
			}
			pass(longest)
			alice.wantOut(m, carrier.StateAcked)
		})
	}
}

func TestWhatExpiredByAClockThatWasAheadIsSentOnceItIsRight(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		var clock skewed
		alice, bob := w.add("alice", clock.options).start(), w.add("bob").start()
		alice.knows(bob)
		bob.knows(alice)
		w.network.Fail(down)
		m := alice.mail(bob, 24*time.Hour)
		clock.off(twoDays)
		pass(time.Hour)
		alice.wantOut(m, carrier.StateExpired)
		w.network.Fail(nil)
		clock.off(0)
		pass(longest)
		alice.wantOut(m, carrier.StateAcked)
		if got := bob.ids(); len(got) != 1 {
			t.Errorf("handled %d times", len(got))
		}
	})
}

func TestARecipientsWrongClockOnlyDelaysAMessage(t *testing.T) {
	for _, by := range []time.Duration{-twoDays, twoDays} {
		bubble(t, func(t *testing.T, w *world) {
			var clock skewed
			clock.off(by)
			alice, bob := w.add("alice").start(), w.add("bob", clock.options).start()
			alice.knows(bob)
			bob.knows(alice)
			m := alice.mail(bob, 24*time.Hour)
			pass(3 * time.Hour)
			if got := bob.ids(); len(got) != 0 {
				t.Fatalf("handled by a clock that is %s off", by)
			}
			clock.off(0)
			pass(7 * time.Hour) // the longest pause before a message is sent again
			alice.wantOut(m, carrier.StateAcked)
			if got := bob.ids(); len(got) != 1 {
				t.Errorf("handled %d times", len(got))
			}
		})
	}
}

func TestAClockTwoDaysAheadMakesNothingBeProcessedTwice(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		var clock skewed
		alice, bob := w.add("alice").start(), w.add("bob", clock.options).start()
		alice.knows(bob)
		bob.knows(alice)
		m := alice.mail(bob, 23*time.Hour)
		pass(time.Minute)
		alice.wantOut(m, carrier.StateAcked)
		clock.off(twoDays)
		pass(time.Hour) // all that has had its time is deleted
		clock.off(0)
		for _, e := range w.network.Sends() {
			if e.To.Address == "bob" {
				w.network.Put(e.To, e.Wrap)
			}
		}
		pass(time.Hour)
		if got := bob.ids(); len(got) != 1 {
			t.Errorf("handled %d times", len(got))
		}
	})
}
