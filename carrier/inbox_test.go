package carrier_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/protocol/envelope"
	"github.com/parleykit/parley/protocol/message"
)

// boxes are the tables that a received wrap may leave a row in.
var boxes = []string{"carrier_inbox", "carrier_wraps", "carrier_parts", "carrier_cursors"}

func TestForgedAndUselessWrapsLeaveNoRow(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		registry := prometheus.NewRegistry()
		alice, carol := w.add("alice"), w.add("carol")
		bob := w.add("bob", func(o *carrier.Options) { o.Registerer = registry }).start()
		bob.knows(alice)
		good := alice.seal(alice.message(bob, message.TypeText, message.Text{Text: "x"}, time.Hour))[0]
		expired := alice.seal(alice.message(bob, message.TypeText, message.Text{Text: "x"}, time.Minute))[0]
		pass(2 * time.Hour)
		flipped := bytes.Clone(good)
		flipped[len(flipped)-10] ^= 1
		for _, wrap := range [][]byte{
			flipped, good[:len(good)-1], append([]byte(" "), good...), expired, []byte("{}"), []byte("\x00"),
			bytes.Repeat([]byte("x"), envelope.EventLimit+1),
			alice.seal(alice.message(carol, message.TypeText, message.Text{Text: "x"}, time.Hour))[0],
		} {
			w.network.Put(at("bob"), wrap)
		}
		pass(time.Second)
		for _, table := range boxes {
			if n := bob.count(table); n != 0 {
				t.Errorf("%s has %d rows", table, n)
			}
		}
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		counted := 0.0
		for _, f := range families {
			for _, m := range f.Metric {
				if f.GetName() == "parley_carrier_received_total" {
					counted += m.Counter.GetValue()
				}
			}
		}
		if counted != 8 {
			t.Errorf("%v wraps counted, want 8", counted)
		}
	})
}

func TestPartsInAnyOrderMakeOneMessage(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		alice, bob := w.add("alice").start(), w.add("bob").start()
		alice.knows(bob)
		bob.knows(alice)
		for round := range 3 {
			m := alice.long(bob)
			wraps := alice.seal(m)
			if len(wraps) < 3 {
				t.Fatalf("%d wraps, want several", len(wraps))
			}
			order := rand.Perm(len(wraps))
			for i, part := range order {
				w.network.Put(at("bob"), wraps[part])
				w.network.Put(at("bob"), wraps[order[0]]) // and one of them again and again
				pass(time.Second)
				if want := round + (i+1)/len(wraps); len(bob.ids()) != want {
					t.Fatalf("after part %d of %d: %d messages, want %d", i+1, len(wraps), len(bob.ids()), want)
				}
			}
			if got := bob.ids(); got[round] != m.ID {
				t.Errorf("message %s, want %s", got[round], m.ID)
			}
		}
		if n := bob.count("carrier_parts"); n != 0 {
			t.Errorf("%d parts left", n)
		}
		m := alice.long(bob)
		if err := alice.Send(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		alice.wantOut(m, carrier.StateAcked)
	})
}

func TestPartsThatNeverCompleteExpireAndMayComeAgain(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		registry := prometheus.NewRegistry()
		alice := w.add("alice")
		bob := w.add("bob", func(o *carrier.Options) { o.Registerer = registry }).start()
		bob.knows(alice)
		m := alice.long(bob)
		wraps := alice.seal(m)
		for _, wrap := range wraps[1:] {
			w.network.Put(at("bob"), wrap)
		}
		pass(11 * time.Hour)
		if n := bob.count("carrier_parts"); n != len(wraps)-1 {
			t.Fatalf("%d parts after 11 h, want %d", n, len(wraps)-1)
		}
		pass(90 * time.Minute)
		if parts, known := bob.count("carrier_parts"), bob.count("carrier_wraps"); parts != 0 || known != 0 {
			t.Errorf("%d parts and %d wraps after 12.5 h, want none", parts, known)
		}
		want := fmt.Sprintf("# HELP parley_carrier_parts_expired_total Parts dropped because the others did not come.\n"+
			"# TYPE parley_carrier_parts_expired_total counter\nparley_carrier_parts_expired_total %d\n", len(wraps)-1)
		if err := testutil.GatherAndCompare(registry, bytes.NewBufferString(want), "parley_carrier_parts_expired_total"); err != nil {
			t.Error(err)
		}
		for _, wrap := range wraps {
			w.network.Put(at("bob"), wrap)
		}
		pass(time.Second)
		if !slices.Equal(bob.ids(), []string{m.ID}) {
			t.Errorf("handled %v after all parts came", bob.ids())
		}
	})
}

func TestPartsOfStrangersAreBounded(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		bob := w.add("bob", func(o *carrier.Options) { o.Limits.StrangerParts, o.Limits.Parts = 4, 12 }).start()
		contact := w.add("contact")
		bob.knows(contact)
		for _, name := range []string{"one", "two", "three"} {
			stranger := w.add(name)
			for range 3 {
				for _, wrap := range stranger.seal(stranger.long(bob))[1:3] {
					w.network.Put(at("bob"), wrap)
				}
			}
		}
		pass(time.Second)
		if n := bob.count("carrier_parts"); n != 6 {
			t.Errorf("%d parts of strangers, want 6: at most 4 of one and half of 12", n)
		}
		m := contact.long(bob)
		for _, wrap := range contact.seal(m) {
			w.network.Put(at("bob"), wrap)
		}
		pass(time.Second)
		if !slices.Equal(bob.ids(), []string{m.ID}) {
			t.Errorf("a contact found no room: %v", bob.ids())
		}
	})
}

func TestHandleFailsForGoodOrIsTriedAgain(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		alice := w.add("alice").start()
		var bob *agent
		tries := make(map[string]int)
		answers := make(map[string]*message.Message)
		bob = w.add("bob", func(o *carrier.Options) {
			o.Handle = func(ctx context.Context, tx *sql.Tx, in *carrier.Incoming) error {
				var body message.Text
				if err := message.DecodeBody(in.Message, &body); err != nil {
					return err
				}
				tries[body.Text]++
				reply := bob.message(alice, message.TypeText, message.Text{Text: "re: " + body.Text}, time.Hour)
				answers[body.Text] = reply
				if err := bob.SendTx(ctx, tx, reply); err != nil {
					return err
				}
				switch {
				case body.Text == "bad":
					return fmt.Errorf("%w: bad text", carrier.ErrPermanent)
				case body.Text == "panic":
					panic("a bug")
				case body.Text == "later" && tries["later"] < 3, body.Text == "never":
					return errDown
				}
				return nil
			}
		}).start()
		alice.knows(bob)
		bob.knows(alice)
		sent := make(map[string]*message.Message)
		for _, text := range []string{"bad", "panic", "later", "never", "good"} {
			sent[text] = alice.text(bob, text)
		}
		pass(2 * time.Hour)
		if tries["bad"] != 1 || tries["panic"] != 1 || tries["later"] != 3 || tries["good"] != 1 || tries["never"] < 5 {
			t.Errorf("tries = %v", tries)
		}
		states := make(map[string]carrier.State)
		for _, row := range bob.inbox() {
			for text, m := range sent {
				if m.ID == row.Message.ID {
					states[text] = row.State
				}
			}
		}
		want := map[string]carrier.State{
			"bad": carrier.StateFailed, "panic": carrier.StateFailed, "later": carrier.StateDone,
			"never": carrier.StateFailed, "good": carrier.StateDone,
		}
		if diff := cmp.Diff(want, states); diff != "" {
			t.Errorf("states (-want +got):\n%s", diff)
		}
		rows, err := bob.Outbox(t.Context(), carrier.OutboxFilter{Type: message.TypeText})
		if err != nil || len(rows) != 2 {
			t.Errorf("%d replies, want those of the two that worked (%v)", len(rows), err)
		}
		bob.wantOut(answers["good"], carrier.StateAcked)
	})
}

func TestKeysOfAMessageLiveUntilThreeDaysAfterItsExpiry(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		alice, bob := w.add("alice").start(), w.add("bob").start()
		bob.knows(alice)
		alice.text(bob, "hello")
		pass(72*time.Hour + 50*time.Minute)
		if inbox, wraps := bob.count("carrier_inbox"), bob.count("carrier_wraps"); inbox != 1 || wraps != 1 {
			t.Errorf("before the days are over: %d messages, %d wraps", inbox, wraps)
		}
		pass(2 * time.Hour)
		for _, table := range []string{"carrier_inbox", "carrier_wraps", "carrier_outbox", "carrier_outbox_wraps", "carrier_deliveries"} {
			if n := bob.count(table); n != 0 {
				t.Errorf("%s has %d rows after it", table, n)
			}
		}
		if n := alice.count("carrier_outbox"); n != 1 {
			t.Errorf("%d rows in the sender's history, want 1", n)
		}
	})
}

func TestSubscribersSeeEveryChangeOrAreCutOff(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		alice, bob := w.add("alice").start(), w.add("bob").start()
		ctx, cancel := context.WithCancel(t.Context())
		changes, slow := alice.Subscribe(ctx), alice.Subscribe(t.Context())
		alice.knows(bob)
		bob.knows(alice)
		m := alice.text(bob, "hello")
		pass(time.Second)
		var got []carrier.Change
		for len(changes) > 0 {
			c := <-changes
			c.Seq = 0
			got = append(got, c)
		}
		row := carrier.Change{Box: carrier.BoxOutbox, Peer: bob.PublicKey(), MessageID: m.ID, Type: message.TypeText}
		want := []carrier.Change{{Box: carrier.BoxContacts, Peer: bob.PublicKey()}, row, row, row}
		want[1].State, want[2].State, want[3].State = carrier.StateQueued, carrier.StateSent, carrier.StateAcked
		if len(got) == 3 { // the ack may overtake the note that it was sent
			want = slices.Delete(want, 2, 3)
		}
		byState := cmpopts.SortSlices(func(a, b carrier.Change) bool { return a.State < b.State })
		if diff := cmp.Diff(want, got, byState); diff != "" {
			t.Errorf("changes (-want +got):\n%s", diff)
		}
		cancel()
		pass(0)
		if _, open := <-changes; open {
			t.Error("the channel is open after its context ended")
		}
		for range 300 {
			alice.knows(bob)
		}
		n := 0
		for range slow {
			n++
		}
		if n != 256 {
			t.Errorf("a slow reader got %d changes before it was cut off, want 256", n)
		}
	})
}

func TestListingsFilterAndLimit(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		alice, bob := w.add("alice").start(), w.add("bob").start()
		bob.knows(alice)
		var sent []string
		for i := range 5 {
			sent = append(sent, alice.text(bob, fmt.Sprint(i)).ID)
			pass(time.Second)
		}
		ids := func(f carrier.InboxFilter) (ids []string) {
			rows, err := bob.Inbox(t.Context(), f)
			if err != nil {
				t.Fatal(err)
			}
			for _, row := range rows {
				ids = append(ids, row.Message.ID)
			}
			return ids
		}
		all := ids(carrier.InboxFilter{Sender: alice.PublicKey(), Type: "text", States: []carrier.State{carrier.StateDone, carrier.StateFailed}})
		if diff := cmp.Diff(sent, all); diff != "" {
			t.Errorf("all (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{sent[4], sent[3]}, ids(carrier.InboxFilter{Newest: true, Limit: 2})); diff != "" {
			t.Errorf("newest two (-want +got):\n%s", diff)
		}
		after := bob.inbox()[2].Seq
		if diff := cmp.Diff(sent[3:], ids(carrier.InboxFilter{After: after})); diff != "" {
			t.Errorf("after (-want +got):\n%s", diff)
		}
		if got := ids(carrier.InboxFilter{Thread: sent[1], MessageID: sent[1]}); !slices.Equal(got, sent[1:2]) {
			t.Errorf("one thread = %v", got)
		}
		rows, err := bob.Outbox(t.Context(), carrier.OutboxFilter{Acks: true, Recipient: alice.PublicKey()})
		if err != nil || len(rows) != 5 {
			t.Errorf("%d acks listed, want 5 (%v)", len(rows), err)
		}
	})
}

func TestMetricsAreWellFormed(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		registry := prometheus.NewPedanticRegistry()
		alice := w.add("alice", func(o *carrier.Options) { o.Registerer = registry }).start()
		alice.text(w.add("bob"), "hello")
		pass(time.Minute)
		problems, err := testutil.GatherAndLint(registry)
		if err != nil || len(problems) > 0 {
			t.Errorf("lint: %v %v", problems, err)
		}
		if n, err := testutil.GatherAndCount(registry); err != nil || n < 40 {
			t.Errorf("%d series from the start, want all (%v)", n, err)
		}
	})
}

func TestNewRefusesIncompleteOptions(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		full := w.add("alice").opts
		for name, change := range map[string]func(*carrier.Options){
			"no database": func(o *carrier.Options) { o.DB = nil },
			"no key":      func(o *carrier.Options) { o.Keyer = nil },
			"no resolver": func(o *carrier.Options) { o.Resolve = nil },
			"one scheme twice": func(o *carrier.Options) {
				o.Carriers = append(o.Carriers, w.network.Carrier("mem"))
			},
		} {
			opts := full
			opts.Carriers = slices.Clone(full.Carriers)
			change(&opts)
			if _, err := carrier.New(t.Context(), opts); err == nil {
				t.Errorf("%s: accepted", name)
			}
		}
	})
}

func TestHandlerRefusesALongCursor(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		var got error
		probe := &probeCarrier{probe: func(ctx context.Context, handle carrier.Handler) {
			got = handle(ctx, []byte("x"), carrier.Cursor(bytes.Repeat([]byte("c"), carrier.MaxCursor+1)))
			if err := handle(ctx, nil, "just the cursor"); err != nil {
				t.Error(err)
			}
		}}
		alice := w.add("alice", func(o *carrier.Options) { o.Carriers = []carrier.Carrier{probe} }).start()
		pass(time.Second)
		if !errors.Is(got, carrier.ErrPermanent) {
			t.Errorf("long cursor: %v", got)
		}
		if alice.count("carrier_cursors") != 1 {
			t.Error("a cursor without a wrap was not stored")
		}
	})
}

// probeCarrier receives nothing and hands its handler to a test.
type probeCarrier struct {
	probe func(context.Context, carrier.Handler)
}

func (*probeCarrier) Scheme() string                                      { return "probe" }
func (*probeCarrier) MaxFrame(carrier.Address) int                        { return 0 }
func (*probeCarrier) Send(context.Context, carrier.Address, []byte) error { return nil }

func (p *probeCarrier) Receive(ctx context.Context, _ carrier.Cursor, handle carrier.Handler) error {
	p.probe(ctx, handle)
	<-ctx.Done()
	return ctx.Err()
}
