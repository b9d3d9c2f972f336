package conformance

import (
	"encoding/hex"
	"strings"

	"github.com/nbd-wtf/go-nostr"
	"github.com/nbd-wtf/go-nostr/nip77/negentropy"
	"github.com/nbd-wtf/go-nostr/nip77/negentropy/storage/vector"
)

// maxRounds bounds the messages of one reconciliation.
const maxRounds = 20

// difference is what a reconciliation finds: ids of the relay's and of the
// client's events that the other side lacks.
type difference struct{ need, have []string }

// own are the client's events.
func own(events ...nostr.Event) *vector.Vector {
	v := vector.New()
	for _, ev := range events {
		v.Insert(ev.CreatedAt, ev.ID)
	}
	v.Seal()
	return v
}

// negOpen opens a reconciliation and returns the answer to it.
func (c *client) negOpen(id string, f filter, first string) *message {
	for attempt := 0; ; attempt++ {
		c.send("NEG-OPEN", id, f, first)
		m := c.negAnswer(id)
		if !strings.HasPrefix(m.text, "rate-limited:") {
			return m
		}
		c.t.pause(attempt, m.text)
	}
}

// negAnswer waits for NEG-MSG or NEG-ERR. Some relays close instead.
func (c *client) negAnswer(id string) *message {
	return c.wait("NEG-MSG or NEG-ERR", func(m *message) bool {
		return m.id == id && (m.label == "NEG-MSG" || m.label == "NEG-ERR" || m.label == "CLOSED")
	})
}

// reconcile runs a whole reconciliation of the client's events with what the
// filter finds.
func (c *client) reconcile(f filter, events ...nostr.Event) difference {
	id := c.t.name()
	neg := negentropy.New(own(events...), 0)
	// All ids of one message of the relay find room, so that nobody must read
	// while it is handled.
	neg.Haves, neg.HaveNots = make(chan string, maxMessage/32), make(chan string, maxMessage/32)
	m := c.negOpen(id, f, neg.Start())
	for range maxRounds {
		if m.label != "NEG-MSG" {
			c.t.failf("the reconciliation ended with %s", m)
		}
		next, err := neg.Reconcile(m.text)
		if err != nil {
			c.t.failf("a message of the reconciliation cannot be read: %v", err)
		}
		if next == "" {
			c.send("NEG-CLOSE", id)
			return difference{need: drain(neg.HaveNots), have: drain(neg.Haves)}
		}
		c.send("NEG-MSG", id, next)
		m = c.negAnswer(id)
	}
	c.t.failf("%d rounds were not enough", maxRounds)
	return difference{}
}

func drain(ids <-chan string) (out []string) {
	for id := range ids { // closed by Reconcile
		out = append(out, id)
	}
	return out
}

// reconciliationChecks are about NIP-77.
var reconciliationChecks = []Check{
	conditional("nip77.equal-sets-need-nothing", 77, "a client that has all events needs none and has none too many", func(t *trial) {
		s := t.shelve(noTags)
		d := s.c.reconcile(t.all(), s.ev[:]...)
		t.expect("needed", d.need)
		t.expect("too many", d.have)
	}),
	conditional("nip77.empty-client-needs-all", 77, "a client without events learns the ids of all that the filter finds", func(t *trial) {
		s := t.shelve(noTags)
		t.expect("needed", s.c.reconcile(t.all()).need, s.ev[0].ID, s.ev[1].ID, s.ev[2].ID)
	}),
	conditional("nip77.differences-are-found", 77, "a client learns what it lacks and what the relay lacks", func(t *trial) {
		s := t.shelve(noTags)
		extra := t.profile(t.key(), s.at+5)
		d := s.c.reconcile(t.all(), s.ev[0], s.ev[2], extra)
		t.expect("needed", d.need, s.ev[1].ID)
		t.expect("only here", d.have, extra.ID)
	}),
	conditional("nip77.sixty-events-reconcile", 77, "sixty events, of which five differ on each side, reconcile", func(t *trial) {
		c := t.dial()
		now := nostr.Now()
		c.accept(t.profile(t.key(), now-200))
		var all []nostr.Event
		for i := range 60 {
			ev := t.profile(t.key(), now-nostr.Timestamp(i/2))
			all = append(all, ev)
			if i >= 5 {
				c.accept(ev)
			}
		}
		f := t.with("since", all[59].CreatedAt)
		d := c.reconcile(f, all[:55]...)
		t.expect("only here", d.have, idsOf(all[:5])...)
		t.expect("needed", d.need, idsOf(all[55:])...)
	}),
	conditional("nip77.filter-is-kept", 77, "only events that the filter finds take part", func(t *trial) {
		s := t.shelve(xy)
		t.expect("needed", s.c.reconcile(t.with("#z", []string{"Two"})).need, s.ev[0].ID, s.ev[1].ID)
		t.expect("needed since", s.c.reconcile(t.with("since", s.ev[2].CreatedAt)).need, s.ev[2].ID)
	}),
	conditional("nip77.second-open-replaces", 77, "a NEG-OPEN of the same id begins anew", func(t *trial) {
		s := t.shelve(noTags)
		s.c.negOpen("n", t.all(), negentropy.New(own(), 0).Start())
		m := s.c.negOpen("n", t.with("limit", 100), negentropy.New(own(s.ev[:]...), 0).Start())
		if m.label != "NEG-MSG" {
			t.failf("the answer is %s", m)
		}
	}),
	badNeg("nip77.text-that-is-not-hex-is-refused", "a message that is not hex is answered NEG-ERR", "not hex"),
	badNeg("nip77.other-version-is-answered", "a message of another protocol version is answered", "7f00"),
	badNeg("nip77.half-a-message-is-refused", "a message that ends early is answered NEG-ERR", "6100000202ffff"),
	badNeg("nip77.boundless-count-does-no-harm", "a message that claims a boundless number of ids does no harm", "61000002"+strings.Repeat("ff", 9)+"7f"),
	conditional("nip77.message-without-open-is-answered", 77, "a NEG-MSG for an id that is not open is answered NEG-ERR, NOTICE or CLOSED", func(t *trial) {
		c := t.dial()
		c.send("NEG-MSG", "never", "6100")
		c.wait("answer", func(m *message) bool {
			return m.label == "NOTICE" || m.id == "never" && (m.label == "NEG-ERR" || m.label == "CLOSED")
		})
	}),
	conditional("nip77.close-is-obeyed", 77, "a NEG-MSG after NEG-CLOSE is not reconciled", func(t *trial) {
		s := t.shelve(noTags)
		s.c.negOpen("n", t.all(), negentropy.New(own(), 0).Start())
		s.c.send("NEG-CLOSE", "n")
		s.c.send("NEG-MSG", "n", negentropy.New(own(), 0).Start())
		s.c.sync()
		if m := s.c.take(labelled("NEG-MSG", "n")); len(m) > 0 {
			t.failf("it was answered")
		}
	}),
	conditional("nip77.live-events-do-not-follow", 77, "a reconciliation opens no subscription", func(t *trial) {
		c, by := t.dial(), t.dial()
		c.open("witness", t.all())
		c.negOpen("n", t.all(), negentropy.New(own(), 0).Start())
		by.accept(t.profile(t.key(), nostr.Now()))
		c.heard("witness", by)
		if len(c.take(labelled("EVENT", "n"))) > 0 {
			t.failf("an event came")
		}
	}),
	needing(77, "nip77.wraps-are-hidden", 59, "a reconciliation reveals the id of a wrap to nobody but its recipient", func(t *trial) {
		h := t.hide()
		none, other := t.dial(), t.dial()
		other.authenticate(t.key())
		for _, c := range []*client{none, other} {
			for name, f := range h.views() {
				t.unnamed(name, h, c, f)
			}
			t.unnamed("kind and recipient", h, c, h.named())
		}
	}),
	needing(77, "nip77.naming-wraps-needs-a-key", 59, "a NEG-OPEN that names wraps without a key is answered NEG-ERR with \"auth-required:\"", func(t *trial) {
		h := t.hide()
		m := t.dial().negOpen("n", h.named(), negentropy.New(own(), 0).Start())
		if m.label == "NEG-MSG" || !strings.HasPrefix(m.text, "auth-required:") {
			t.failf("the answer is %s", m)
		}
	}),
	needing(77, "nip77.recipient-reconciles-own-wraps", 59, "the authenticated recipient reconciles own wraps, not those of others", func(t *trial) {
		a, b := t.hide(), t.hide()
		c := t.dial()
		c.authenticate(a.to)
		t.expect("needed", c.reconcile(filter{"kinds": []int{kindWrap}, "#p": []string{a.to.pub, b.to.pub}}).need, a.wrap.ID)
	}),
}

func idsOf(events []nostr.Event) (ids []string) {
	for _, ev := range events {
		ids = append(ids, ev.ID)
	}
	return ids
}

// badNeg is a check that a first message that cannot be read is answered, not
// reconciled where the name says refused, and that others go on.
func badNeg(name, property, text string) Check {
	return conditional(name, 77, property, func(t *trial) {
		c := t.dial()
		m := c.negOpen("n", t.all(), text)
		if strings.Contains(name, "refused") && m.label == "NEG-MSG" {
			t.failf("the answer is %s", m)
		}
		t.dial().sync()
	})
}

// unnamed demands that the first answer of a reconciliation without own events
// does not hold the id of the wrap. A refusal is as good.
func (t *trial) unnamed(what string, h *hidden, c *client, f filter) {
	m := c.negOpen(t.name(), f, negentropy.New(own(), 0).Start())
	if _, err := hex.DecodeString(m.text); m.label == "NEG-MSG" && (err != nil || strings.Contains(m.text, h.wrap.ID)) {
		t.failf("by %s it is revealed", what)
	}
}
