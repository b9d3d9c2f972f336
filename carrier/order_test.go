package carrier_test

import (
	"context"
	"database/sql"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/protocol/message"
)

// room makes n artifacts of one thread, which a venue numbers, without sending.
func (a *agent) room(to *agent, n int) (all []*message.Message) {
	thread := a.message(to, message.TypeText, message.Text{Text: "x"}, time.Hour).ID
	for range n {
		m := a.message(to, message.TypeAgreementArtifact, message.AgreementArtifact{AgreementID: thread, Bundle: "{}"}, 24*time.Hour)
		m.Thread = thread
		all = append(all, m)
	}
	return all
}

// deliver puts a numbered message before an agent as if the venue had sent it.
func (w *world) deliver(from *agent, to string, m *message.Message, seq int64) {
	numbered := *m
	numbered.Seq = seq
	for _, wrap := range from.seal(&numbered) {
		w.network.Put(at(to), wrap)
	}
}

func ids(all []*message.Message) (list []string) {
	for _, m := range all {
		list = append(list, m.ID)
	}
	return list
}

func TestMessagesOfAThreadAreHandledInTheOrderOfSeq(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		venue, bob := w.add("venue"), w.add("bob").start()
		bob.knows(venue)
		all := venue.room(bob, 6)
		for _, i := range []int{3, 5, 1, 4, 2, 0} {
			w.deliver(venue, "bob", all[i], int64(i+1))
			pass(time.Second)
		}
		if got := bob.ids(); !slices.Equal(got, ids(all)) {
			t.Errorf("handled %v, want %v", got, ids(all))
		}
	})
}

func TestGapIsGivenUpAfterAMinuteAndTheRestKeepsItsOrder(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		venue, bob := w.add("venue"), w.add("bob").start()
		bob.knows(venue)
		all := venue.room(bob, 6)
		for _, i := range []int{5, 3, 4} {
			w.deliver(venue, "bob", all[i], int64(i+1))
		}
		unordered := venue.room(bob, 1)[0]
		w.deliver(venue, "bob", unordered, 0)
		pass(59 * time.Second)
		if got := bob.ids(); !slices.Equal(got, []string{unordered.ID}) {
			t.Errorf("handled %v before the time was over", got)
		}
		pass(2 * time.Second)
		want := append([]string{unordered.ID}, ids(all[3:])...)
		if got := bob.ids(); !slices.Equal(got, want) {
			t.Errorf("handled %v, want %v", got, want)
		}
		w.deliver(venue, "bob", all[2], 3) // late, not lost
		pass(2 * time.Minute)
		if got := bob.ids(); len(got) != 5 {
			t.Errorf("handled %d messages, want 5", len(got))
		}
	})
}

func TestFailingMessageHoldsUpItsThreadForAMinuteAtMost(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		venue := w.add("venue")
		var bob *agent
		var stuck atomic.Value
		bob = w.add("bob", func(o *carrier.Options) {
			o.Handle = func(ctx context.Context, tx *sql.Tx, in *carrier.Incoming) error {
				if in.Message.ID == stuck.Load() {
					return errDown
				}
				return bob.record(ctx, tx, in)
			}
		}).start()
		bob.knows(venue)
		all := venue.room(bob, 3)
		stuck.Store(all[1].ID)
		for i, m := range all {
			w.deliver(venue, "bob", m, int64(i+1))
		}
		pass(30 * time.Second)
		if got := bob.ids(); !slices.Equal(got, ids(all[:1])) {
			t.Errorf("handled %v, want the first alone", got)
		}
		pass(31 * time.Second)
		if got := bob.ids(); !slices.Equal(got, []string{all[0].ID, all[2].ID}) {
			t.Errorf("handled %v, want the first and the third", got)
		}
	})
}

func TestEngineNumbersWhatAMemberSaysToItsVenue(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		alice, venue := w.add("alice"), w.add("venue")
		for i := range 3 {
			m := alice.message(venue, message.TypeAgreementCommand, message.AgreementCommand{Command: []byte(`{}`), Key: "key-00000001"}, time.Hour)
			m.Thread = "019ad4a2-2c00-7000-8000-00000000000a"
			if err := alice.Send(t.Context(), m); err != nil {
				t.Fatal(err)
			}
			if got := alice.outgoing(m).Message.Seq; got != int64(i+1) {
				t.Errorf("seq = %d, want %d", got, i+1)
			}
		}
	})
}

func TestEngineNumbersWhatAVenueSaysByRecipientAndThread(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		venue, bob, carol := w.add("venue", func(o *carrier.Options) { o.Limits.OutboxOfPeer = 4 }), w.add("bob"), w.add("carol")
		all, other, hers := venue.room(bob, 4), venue.room(bob, 1), venue.room(carol, 1)
		for _, m := range slices.Concat(all[:3], all[:1], other, hers) { // one of them twice
			if err := venue.Send(t.Context(), m); err != nil {
				t.Fatal(err)
			}
		}
		if err := venue.Send(t.Context(), all[3]); err == nil {
			t.Fatal("sent beyond the limit")
		}
		want := map[string]int64{all[0].ID: 1, all[1].ID: 2, all[2].ID: 3, other[0].ID: 1, hers[0].ID: 1}
		rows, err := venue.Outbox(t.Context(), carrier.OutboxFilter{})
		if err != nil || len(rows) != 5 {
			t.Fatalf("%d rows, %v", len(rows), err)
		}
		for _, row := range rows {
			if row.Message.Seq != want[row.Message.ID] {
				t.Errorf("seq = %d, want %d", row.Message.Seq, want[row.Message.ID])
			}
		}
		if err := venue.Sync(t.Context()); err != nil { // what was refused took no number
			t.Fatal(err)
		}
		if err := venue.Send(t.Context(), all[3]); err != nil {
			t.Fatal(err)
		}
		if row := venue.outgoing(all[3]); row.Message.Seq != 4 {
			t.Errorf("seq = %d, want 4", row.Message.Seq)
		}
	})
}
