package conformance

import (
	"slices"

	"github.com/nbd-wtf/go-nostr"
)

// orderChecks are about the order of answers.
var orderChecks = []Check{
	required("order.newest-first", 1, "stored events come newest first", func(t *trial) {
		c, now := t.dial(), nostr.Now()
		events := make([]string, 6)
		for _, i := range []int{3, 0, 5, 1, 4, 2} {
			ev := t.profile(t.key(), now-nostr.Timestamp(i))
			c.accept(ev)
			events[i] = ev.ID
		}
		t.inOrder("stored", c.stored(t.all()), events...)
	}),
	optional("order.lowest-id-first-in-one-second", 1, "stored events of one second come by their ids, the lowest first", func(t *trial) {
		c, now := t.dial(), nostr.Now()
		var events []string
		for range 6 {
			ev := t.profile(t.key(), now)
			c.accept(ev)
			events = append(events, ev.ID)
		}
		slices.Sort(events)
		t.inOrder("stored", c.stored(t.all()), events...)
	}),
	optional("order.newest-first-over-filters", 1, "the events of several filters come newest first together", func(t *trial) {
		c, now := t.dial(), nostr.Now()
		var keys [2][]string
		var events []string
		for i := range 6 {
			k := t.key()
			ev := t.profile(k, now-nostr.Timestamp(i))
			c.accept(ev)
			events, keys[i%2] = append(events, ev.ID), append(keys[i%2], k.pub)
		}
		t.inOrder("stored", c.stored(t.with("authors", keys[1]), t.with("authors", keys[0])), events...)
	}),
	required("order.every-event-is-answered", 1, "forty EVENTs sent without waiting are each answered once", func(t *trial) {
		c := t.dial()
		c.accept(t.profile(t.key(), nostr.Now()))
		want := t.burst(c, 40)
		c.sync()
		var got []string
		for len(got) < len(want) {
			m := c.wait("OK", func(m *message) bool { return m.label == "OK" })
			if !m.ok {
				t.inconclusivef("one of forty was refused: %s", m.text)
			}
			got = append(got, m.id)
		}
		c.sync()
		for _, m := range c.take(func(m *message) bool { return m.label == "OK" }) {
			got = append(got, m.id)
		}
		t.expect("answers", got, want...)
	}),
	required("order.every-req-is-answered", 1, "fifteen REQs sent without waiting are each answered with EOSE", func(t *trial) {
		c := t.dial()
		c.accept(t.profile(t.key(), nostr.Now()))
		names := make([]string, 15)
		for i := range names {
			names[i] = t.name()
			c.send("REQ", names[i], t.all())
		}
		for _, name := range names {
			if m := c.wait("EOSE", ending(name)); m.label == "CLOSED" && !refusedByPolicy(m.text) {
				t.failf("%s", m)
			}
			if n := len(c.take(labelled("EVENT", name))); n != 1 {
				t.failf("%d events came before EOSE, want 1", n)
			}
		}
	}),
	optional("order.req-sees-the-event-before-it", 1, "a REQ sent right after an EVENT, without waiting, finds that event", func(t *trial) {
		c := t.dial()
		for range 5 {
			k := t.key()
			ev := t.profile(k, nostr.Now())
			c.send("EVENT", ev)
			found := c.stored(filter{"authors": []string{k.pub}})
			c.taken(ev)
			if !slices.Contains(found, ev.ID) {
				t.failf("it was not found")
			}
		}
	}),
	optional("order.close-after-req-is-obeyed", 1, "a CLOSE sent right after its REQ, without waiting, ends it", func(t *trial) {
		c, by := t.dial(), t.dial()
		c.open("witness", t.all())
		for range 5 {
			c.send("REQ", "s", t.all())
			c.send("CLOSE", "s")
			c.sync()
			c.take(labelled("EVENT", "s"))
			c.heard("witness", by)
			if n := len(c.take(labelled("EVENT", "s"))); n > 0 {
				t.failf("%d events came after CLOSE", n)
			}
		}
	}),
	required("order.nothing-is-lost-between-stored-and-live", 1, "events stored while a REQ is answered all come", func(t *trial) {
		want, got := t.seam()
		for _, id := range want {
			if !slices.Contains(got, id) {
				t.failf("an event did not come")
			}
		}
	}),
	optional("order.nothing-comes-twice-between-stored-and-live", 1, "events stored while a REQ is answered come once each", func(t *trial) {
		want, got := t.seam()
		t.expect("came", got, want...)
	}),
	required("order.live-events-keep-the-order-of-one-sender", 1, "versions of one event reach a subscription in the order they were accepted", func(t *trial) {
		c, by, k, now := t.dial(), t.dial(), t.key(), nostr.Now()-20
		c.open("s", t.all())
		var want []string
		for i := range nostr.Timestamp(10) {
			ev := addressable(t, k, now+i)
			by.accept(ev)
			want = append(want, ev.ID)
		}
		t.inOrder("live", c.heard("s", by), want...)
	}),
}

// seam opens a subscription amid a stream of events and returns their ids and
// those that came.
func (t *trial) seam() (want, got []string) {
	c, by := t.dial(), t.dial()
	first := t.profile(t.key(), nostr.Now())
	by.accept(first)
	want = []string{first.ID}
	for round := range 3 {
		want = append(want, t.burst(by, 10)...)
		if round == 1 {
			c.send("REQ", "s", t.all())
		}
	}
	for _, id := range want[1:] {
		if m := by.wait("OK", labelled("OK", id)); !m.ok {
			t.inconclusivef("an event was refused: %s", m.text)
		}
	}
	c.wait("EOSE", labelled("EOSE", "s"))
	return want, c.heard("s", by)
}

// burst sends n profiles of as many keys without waiting.
func (t *trial) burst(c *client, n int) (ids []string) {
	for range n {
		ev := t.profile(t.key(), nostr.Now())
		c.send("EVENT", ev)
		ids = append(ids, ev.ID)
	}
	return ids
}
