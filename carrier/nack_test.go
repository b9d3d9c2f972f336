package carrier_test

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/protocol/message"
)

func TestMissingPartsAreAskedForAndExactlyThoseSentAgain(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		slow := func(o *carrier.Options) { o.Resend = exact(2*time.Hour, 6*time.Hour) }
		alice, bob := w.add("alice", slow).start(), w.add("bob").start()
		alice.knows(bob)
		bob.knows(alice)
		m := alice.long(bob)
		var lost [][]byte
		n := 0
		w.network.Lose(func(to carrier.Address, data []byte) bool {
			if to.Address != "bob" {
				return false
			}
			if n++; n == 1 || n == 3 {
				lost = append(lost, data)
				return true
			}
			return false
		})
		if err := alice.Send(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		pass(30 * time.Second)
		sent := w.sendsTo("bob")
		if alice.wantOut(m, carrier.StateSent); sent < 4 {
			t.Fatalf("%d wraps are too few for this test", sent)
		}
		pass(5 * time.Minute)
		alice.wantOut(m, carrier.StateAcked)
		if got := bob.ids(); !slices.Equal(got, []string{m.ID}) {
			t.Errorf("handled %v", got)
		}
		var again [][]byte
		for _, e := range w.network.Sends() {
			if e.To.Address == "bob" {
				again = append(again, e.Wrap)
			}
		}
		again = again[sent:]
		if len(again) != 2 || !bytes.Equal(again[0], lost[0]) || !bytes.Equal(again[1], lost[1]) {
			t.Errorf("%d wraps sent again, want the two that were lost", len(again))
		}
	})
}

func TestNacksAreFewAndOnlyToContacts(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		bob, friend, stranger := w.add("bob").start(), w.add("alice"), w.add("carol")
		bob.knows(friend)
		for _, a := range []*agent{friend, stranger} {
			w.network.Put(at("bob"), a.seal(a.long(bob))[0])
		}
		pass(11 * time.Hour)
		if n := w.sendsTo("alice"); n != 5 {
			t.Errorf("%d nacks to a contact that never answers, want 5", n)
		}
		if n := w.sendsTo("carol"); n != 0 {
			t.Errorf("%d nacks to a stranger", n)
		}
	})
}

func TestHostileNacksCauseFewRepetitionsOfTheOwnMessagesAlone(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		alice, bob, carol := w.add("alice").start(), w.add("bob"), w.add("carol")
		m := alice.long(bob) // nobody acks
		if err := alice.Send(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		digest := digestOf(t, m)
		before := w.sendsTo("bob")
		nack := func(from *agent, missing ...message.Range) {
			body := message.Nack{Digest: digest, Missing: missing}
			for _, wrap := range from.seal(from.message(alice, message.TypeNack, body, time.Hour)) {
				w.network.Put(at("alice"), wrap)
			}
			pass(time.Second)
		}
		nack(carol, message.Range{From: 1, To: 1}) // not the recipient
		if n := w.sendsTo("bob"); n != before {
			t.Fatalf("%d sends for somebody else's nack", n-before)
		}
		nack(bob, message.Range{From: 60, To: 64}) // there are none
		for range 20 {
			nack(bob, message.Range{From: 1, To: 1})
		}
		if n := w.sendsTo("bob") - before; n > 5 {
			t.Errorf("%d wraps sent again for 21 nacks, want at most 5", n)
		}
	})
}
