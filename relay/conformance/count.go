package conformance

import (
	"strings"

	"github.com/nbd-wtf/go-nostr"
)

// count sends a COUNT and returns its answer, COUNT or CLOSED.
func (c *client) count(filters ...filter) *message {
	id := c.t.name()
	parts := []any{"COUNT", id}
	for _, f := range filters {
		parts = append(parts, f)
	}
	for attempt := 0; ; attempt++ {
		c.send(parts...)
		m := c.wait("answer to COUNT", func(m *message) bool {
			return (m.label == "COUNT" || m.label == "CLOSED") && m.id == id
		})
		if m.label != "CLOSED" || !strings.HasPrefix(m.text, "rate-limited:") {
			return m
		}
		c.t.pause(attempt, m.text)
	}
}

// counts demands this number.
func (c *client) counts(what string, want int, filters ...filter) {
	if m := c.count(filters...); m.count == nil || *m.count != want {
		c.t.failf("%s: the answer is %s, want %d", what, m, want)
	}
}

// countChecks are about NIP-45.
var countChecks = []Check{
	conditional("nip45.count-is-what-is-found", 45, "a COUNT answers the number of events that a REQ finds", func(t *trial) {
		s := t.shelve(xy)
		s.c.counts("all", 3, t.all())
		s.c.counts("by tag", 2, t.with("#z", []string{"Two"}))
		s.c.counts("by author", 1, t.with("authors", []string{s.keys[1].pub}))
		s.c.counts("since", 2, t.with("since", s.ev[1].CreatedAt))
	}),
	conditional("nip45.count-of-nothing-is-zero", 45, "a COUNT that finds nothing answers 0", func(t *trial) {
		t.dial().counts("nothing", 0, t.all())
	}),
	conditional("nip45.filters-are-counted-together", 45, "a COUNT of two filters counts an event that both match once", func(t *trial) {
		s := t.shelve(noTags)
		s.c.counts("two filters", 3, t.all(), filter{"ids": []string{s.ev[0].ID}})
	}),
	conditional("nip45.replaced-and-deleted-events-do-not-count", 45, "replaced and deleted events are not counted", func(t *trial) {
		c, k, now := t.dial(), t.key(), nostr.Now()
		gone := t.addressable(k, "a", now-5)
		c.accept(t.profile(k, now-9), t.profile(k, now), gone)
		c.counts("replaced", 2, t.all())
		c.accept(t.deletion(k, now, nostr.Tag{"e", gone.ID}))
		c.counts("deleted", 1, t.with("kinds", []int{t.options.Kinds.Replaceable, t.options.Kinds.Addressable}))
	}),
	conditional("nip45.count-opens-no-subscription", 45, "no events follow a COUNT", func(t *trial) {
		c, by := t.dial(), t.dial()
		c.open("witness", t.all())
		c.send("COUNT", "c", t.all())
		c.wait("COUNT", labelled("COUNT", "c"))
		by.accept(t.profile(t.key(), nostr.Now()))
		c.heard("witness", by)
		if len(c.take(labelled("EVENT", "c"))) > 0 {
			t.failf("an event came")
		}
	}),
	conditional("nip45.refused-count-is-closed", 45, "a COUNT that is refused is answered CLOSED", func(t *trial) {
		c := t.dial()
		c.sendRaw(`["COUNT","c",{"ids":["x"]}]`)
		if m := c.wait("answer to COUNT", func(m *message) bool { return m.id == "c" || m.label == "NOTICE" }); m.label != "CLOSED" && (m.count == nil || *m.count != 0) {
			t.failf("the answer is %s", m)
		}
	}),
	needing(45, "nip45.wraps-are-not-counted-for-others", 59, "a COUNT reveals the number of a recipient's wraps to nobody else", func(t *trial) {
		h := t.hide()
		none, other := t.dial(), t.dial()
		other.authenticate(t.key())
		for _, c := range []*client{none, other} {
			for name, f := range h.views() {
				if m := c.count(f); name != "time" && m.count != nil && *m.count > 0 {
					t.failf("by %s: %s", name, m)
				}
			}
			if m := c.count(h.named()); m.count != nil && *m.count > 0 {
				t.failf("by kind and recipient: %s", m)
			}
		}
	}),
	needing(45, "nip45.counting-wraps-needs-a-key", 59, "a COUNT that names wraps without a key is closed with \"auth-required:\"", func(t *trial) {
		h := t.hide()
		if m := t.dial().count(h.named()); m.label != "CLOSED" || !strings.HasPrefix(m.text, "auth-required:") {
			t.failf("the answer is %s", m)
		}
	}),
	needing(45, "nip45.recipient-counts-own-wraps", 59, "the authenticated recipient counts own wraps, not those of others", func(t *trial) {
		a, b := t.hide(), t.hide()
		c := t.dial()
		c.authenticate(a.to)
		c.counts("own", 1, filter{"kinds": []int{kindWrap}})
		c.counts("own and another's", 1, filter{"kinds": []int{kindWrap}, "#p": []string{a.to.pub, b.to.pub}})
	}),
}
