package carrier_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/protocol/message"
)

func TestStrangerLandsInTheRequestBoxAndCausesNothing(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		resolved := 0
		mallory := w.add("mallory").start()
		bob := w.add("bob", func(o *carrier.Options) {
			o.Resolve = func(context.Context, string) ([]carrier.Address, error) { resolved++; return nil, nil }
		}).start()
		m := mallory.text(bob, "hello")
		unknown := mallory.message(bob, "mystery.type", unknownBody(), time.Hour)
		if err := mallory.Send(t.Context(), unknown); err != nil {
			t.Fatal(err)
		}
		pass(2 * time.Hour)
		if got := bob.ids(); len(got) != 0 {
			t.Errorf("Handle was given %v", got)
		}
		if n := w.sendsTo("mallory"); n != 0 || resolved != 0 || bob.count("carrier_outbox") != 0 {
			t.Errorf("%d sends, %d look-ups, %d outbox rows for a stranger", n, resolved, bob.count("carrier_outbox"))
		}
		rows := bob.inbox(carrier.StateRequest)
		if len(rows) != 2 || rows[0].Message.ID != m.ID || !rows[0].Stranger {
			t.Errorf("request box = %+v", rows)
		}
		mallory.wantOut(m, carrier.StateSent)
	})
}

func TestAcceptAcksAndReleasesWhatWaits(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		alice, bob := w.add("alice").start(), w.add("bob").start()
		first := alice.text(bob, "one")
		pass(time.Second)
		second := alice.text(bob, "two")
		pass(time.Second)
		unknown := alice.message(bob, "mystery.type", unknownBody(), time.Hour)
		if err := alice.Send(t.Context(), unknown); err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		requests, err := bob.Requests(t.Context())
		if err != nil || len(requests) != 1 {
			t.Fatalf("Requests = %+v, %v", requests, err)
		}
		if r := requests[0]; r.PubKey != alice.PublicKey() || r.Messages != 3 || r.Latest.Message.ID != unknown.ID {
			t.Errorf("request = %+v", r)
		}
		if err := bob.Accept(t.Context(), alice.PublicKey()); err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		if diff := cmp.Diff([]string{first.ID, second.ID}, bob.ids()); diff != "" {
			t.Errorf("handled (-want +got):\n%s", diff)
		}
		alice.wantOut(first, carrier.StateAcked)
		alice.wantOut(second, carrier.StateAcked)
		if row := alice.wantOut(unknown, carrier.StateAcked); row.Reason != "recipient answered: unknown_type" {
			t.Errorf("reason of the unknown one = %q", row.Reason)
		}
		if c, err := bob.Contact(t.Context(), alice.PublicKey()); err != nil || c.AddedAt.IsZero() {
			t.Errorf("contact = %+v, %v", c, err)
		}
		if err := bob.Accept(t.Context(), alice.PublicKey()); !errors.Is(err, carrier.ErrNotFound) {
			t.Errorf("Accept with nothing waiting: %v", err)
		}
	})
}

func TestRejectedRequestsStayAwayAndStillCount(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		mallory := w.add("mallory").start()
		bob := w.add("bob", func(o *carrier.Options) { o.Limits.SenderRequests = 2 }).start()
		m := mallory.text(bob, "one")
		mallory.text(bob, "two")
		pass(time.Second)
		if err := bob.Reject(t.Context(), mallory.PublicKey()); err != nil {
			t.Fatal(err)
		}
		mallory.text(bob, "three")
		for _, wrap := range mallory.seal(m) {
			w.network.Put(at("bob"), wrap)
		}
		pass(time.Second)
		if requests, err := bob.Requests(t.Context()); err != nil || len(requests) != 0 {
			t.Errorf("Requests = %+v, %v", requests, err)
		}
		if n := len(bob.inbox(carrier.StateRejected)); n != 2 {
			t.Errorf("%d rejected rows, want 2", n)
		}
		if err := bob.Reject(t.Context(), mallory.PublicKey()); !errors.Is(err, carrier.ErrNotFound) {
			t.Errorf("Reject with nothing waiting: %v", err)
		}
	})
}

func TestRequestBoxIsBoundedBySenderAndInTotal(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		bob := w.add("bob", func(o *carrier.Options) { o.Limits.SenderRequests, o.Limits.Requests = 3, 5 }).start()
		for i := range 3 {
			stranger := w.add(fmt.Sprintf("stranger%d", i)).start()
			for range 5 {
				stranger.text(bob, "spam")
			}
			pass(time.Second)
			if n, want := bob.count("carrier_inbox"), min(3*(i+1), 5); n != want {
				t.Errorf("after %d strangers %d rows, want %d", i+1, n, want)
			}
		}
		if n := bob.count("carrier_wraps"); n != 5 {
			t.Errorf("%d wraps remembered: one that was dropped left a row", n)
		}
	})
}

func TestRequestBoxIsBoundedInBytes(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		bob := w.add("bob", func(o *carrier.Options) { o.Limits.SenderBytes, o.Limits.RequestBytes = 9_000, 14_000 }).start()
		for i, want := range []int{2, 3} {
			stranger := w.add(fmt.Sprintf("stranger%d", i)).start()
			for range 3 {
				stranger.text(bob, strings.Repeat("x", 4_000))
			}
			pass(time.Second)
			if n := bob.count("carrier_inbox"); n != want {
				t.Errorf("after stranger %d: %d rows, want %d", i, n, want)
			}
		}
	})
}

func TestApplicationMayTakeCertainTypesFromStrangers(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		alice := w.add("alice").start()
		venue := w.add("venue", func(o *carrier.Options) {
			o.Limits.SenderRequests = 3
			o.Stranger = func(_ context.Context, in *carrier.Incoming) bool {
				return in.Stranger && in.Message.Type == "agreement.query"
			}
		}).start()
		var queries []string
		for range 5 {
			q := alice.message(venue, message.TypeAgreementQuery, message.AgreementQuery{AgreementID: alice.text(alice, "x").ID}, time.Hour)
			if err := alice.Send(t.Context(), q); err != nil {
				t.Fatal(err)
			}
			queries = append(queries, q.ID)
			pass(time.Second)
		}
		alice.text(venue, "hello")
		pass(time.Second)
		if diff := cmp.Diff(queries[:3], venue.ids()); diff != "" {
			t.Errorf("handled, at most 3 a day (-want +got):\n%s", diff)
		}
		if n := len(venue.inbox(carrier.StateRequest)); n != 1 {
			t.Errorf("%d requests, want the text", n)
		}
		if venue.count("carrier_outbox") != 0 {
			t.Error("a stranger was answered")
		}
	})
}

func TestAResultSettlesTheRequestItAnswers(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		alice, other := w.add("alice").start(), w.add("other").start()
		venue := w.add("venue", func(o *carrier.Options) {
			o.Stranger = func(context.Context, *carrier.Incoming) bool { return true }
		}).start()
		alice.knows(venue, other)
		query := alice.message(venue, message.TypeAgreementQuery, message.AgreementQuery{AgreementID: alice.text(alice, "x").ID}, time.Hour)
		if err := alice.Send(t.Context(), query); err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		alice.wantOut(query, carrier.StateSent) // a stranger is not acked
		refusal := message.AgreementResult{InReplyTo: query.ID, Refusal: &message.Refusal{Code: "unknown_agreement"}}
		for _, c := range []struct {
			from *agent
			want carrier.State
		}{{other, carrier.StateSent}, {venue, carrier.StateAcked}} { // of a contact who was not asked it settles nothing
			if err := c.from.Send(t.Context(), c.from.message(alice, message.TypeAgreementResult, refusal, time.Hour)); err != nil {
				t.Fatal(err)
			}
			pass(time.Second)
			alice.wantOut(query, c.want)
		}
	})
}

func TestMembersAreAckedAndProcessedLikeContacts(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		member, other := w.add("member").start(), w.add("other").start()
		venue := w.add("venue", func(o *carrier.Options) {
			o.IsMember = func(_ context.Context, _ *sql.Tx, pubkey string, m *message.Message) bool {
				return pubkey == member.PublicKey() && m.From == pubkey
			}
		}).start()
		m, n := member.text(venue, "hello"), other.text(venue, "hello")
		pass(time.Second)
		member.wantOut(m, carrier.StateAcked)
		other.wantOut(n, carrier.StateSent)
		if diff := cmp.Diff([]string{m.ID}, venue.ids()); diff != "" {
			t.Errorf("handled (-want +got):\n%s", diff)
		}
	})
}

func TestAcksNacksAndErrorsAreNeverAnswered(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		alice, bob := w.add("alice"), w.add("bob").start()
		alice.knows(bob)
		bob.knows(alice)
		m := bob.text(alice, "hello")
		for _, body := range []message.Body{
			message.Nack{ID: m.ID, Reason: "no"},
			message.Error{ID: m.ID, Code: "no"},
			message.Ack{ID: m.ID},
			message.Ack{ID: alice.text(bob, "unsent").ID}, // names no message of bob's
		} {
			answer := alice.message(bob, body.Type(), body, time.Hour)
			for _, wrap := range alice.seal(answer) {
				w.network.Put(at("bob"), wrap)
			}
		}
		pass(50 * time.Minute)
		if n := w.sendsTo("alice"); n != 1 {
			t.Errorf("%d sends to alice, want the one message", n)
		}
		if row := bob.wantOut(m, carrier.StateAcked); row.Reason != "recipient answered: no" {
			t.Errorf("reason = %q", row.Reason)
		}
		if n := bob.count("carrier_inbox"); n != 1 {
			t.Errorf("%d inbox rows, want the error for the application", n)
		}
		if n := bob.count("carrier_wraps"); n != 3 {
			t.Errorf("%d wraps remembered, want 3: an answer to nothing leaves no row", n)
		}
	})
}

func TestAckOfAThirdPartyChangesNothing(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		alice, bob, mallory := w.add("alice").start(), w.add("bob"), w.add("mallory")
		alice.knows(bob, mallory)
		m := alice.text(bob, "hello")
		pass(time.Second)
		for _, wrap := range mallory.seal(mallory.message(alice, message.TypeAck, message.Ack{ID: m.ID}, time.Hour)) {
			w.network.Put(at("alice"), wrap)
		}
		pass(time.Second)
		alice.wantOut(m, carrier.StateSent)
	})
}

func TestAckGoesByTheCarrierOfTheMessage(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		both := func(name string) func(*carrier.Options) {
			return func(o *carrier.Options) {
				o.Carriers = []carrier.Carrier{w.network.Carrier("mem", name), w.network.Carrier("post", name)}
			}
		}
		alice, bob := w.add("alice", both("alice")).start(), w.add("bob", both("bob")).start()
		w.book[alice.PublicKey()] = []carrier.Address{{Scheme: "mem", Address: "alice"}, {Scheme: "post", Address: "alice"}}
		w.book[bob.PublicKey()] = []carrier.Address{{Scheme: "post", Address: "bob"}}
		bob.knows(alice)
		alice.wantOut(alice.text(bob, "hello"), carrier.StateQueued)
		pass(time.Minute)
		var schemes []string
		for _, e := range w.network.Sends() {
			if e.To.Address == "alice" {
				schemes = append(schemes, e.To.Scheme)
			}
		}
		if !slices.Equal(schemes, []string{"post"}) {
			t.Errorf("ack went by %v, want post", schemes)
		}
	})
}

func TestLostAckIsRepeatedWhenTheMessageComesAgainButNotForEver(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		alice, bob := w.add("alice").start(), w.add("bob").start()
		alice.knows(bob)
		bob.knows(alice)
		w.network.Lose(func(to carrier.Address, _ []byte) bool { return to.Address == "alice" })
		m := alice.message(bob, message.TypeText, message.Text{Text: "x"}, 10*time.Hour)
		if err := alice.Send(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		pass(9 * time.Hour)
		alice.wantOut(m, carrier.StateSent)
		if n := w.sendsTo("alice"); n != 5 {
			t.Errorf("%d acks for a message that came %d times, want 5", n, w.sendsTo("bob"))
		}
		if got := bob.ids(); len(got) != 1 {
			t.Errorf("handled %d times", len(got))
		}
	})
}

func TestContactsAreKeptUntilRemoved(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		alice, bob := w.add("alice").start(), w.add("bob").start()
		for _, bad := range []carrier.Contact{
			{PubKey: "ABC"}, {PubKey: bob.PublicKey(), Name: strings.Repeat("n", 101)}, {PubKey: bob.PublicKey(), Note: "\xff"},
		} {
			if err := alice.AddContact(t.Context(), bad); err == nil {
				t.Errorf("AddContact(%+v) was accepted", bad)
			}
		}
		for _, name := range []string{"Bob", "Robert"} {
			if err := alice.AddContact(t.Context(), carrier.Contact{PubKey: bob.PublicKey(), Name: name}); err != nil {
				t.Fatal(err)
			}
		}
		if all, err := alice.Contacts(t.Context()); err != nil || len(all) != 1 || all[0].Name != "Robert" {
			t.Errorf("Contacts = %+v, %v", all, err)
		}
		if err := alice.RemoveContact(t.Context(), bob.PublicKey()); err != nil {
			t.Fatal(err)
		}
		if _, err := alice.Contact(t.Context(), bob.PublicKey()); !errors.Is(err, carrier.ErrNotFound) {
			t.Errorf("Contact after removal: %v", err)
		}
		if err := alice.RemoveContact(t.Context(), bob.PublicKey()); !errors.Is(err, carrier.ErrNotFound) {
			t.Errorf("second removal: %v", err)
		}
		bob.text(alice, "hello")
		pass(time.Second)
		if n := len(alice.inbox(carrier.StateRequest)); n != 1 {
			t.Errorf("%d requests of a former contact, want 1", n)
		}
	})
}
