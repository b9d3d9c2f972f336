package conformance

import (
	"strings"

	"github.com/nbd-wtf/go-nostr"
)

// subscriptionChecks are about REQ, CLOSE and live events (NIP-01).
var subscriptionChecks = []Check{
	required("nip01.stored-events-end-with-eose", 1, "EOSE follows the stored events", func(t *trial) {
		c, ev := t.dial(), t.profile(t.key(), nostr.Now())
		c.accept(ev)
		events, end := c.request("s", t.all())
		if end.label != "EOSE" {
			t.failf("the answer ended with %s", end)
		}
		t.expect("before EOSE", ids(events), ev.ID)
	}),
	required("nip01.subscription-stays-open", 1, "an event that comes after EOSE is sent to the subscription", func(t *trial) {
		c, by, ev := t.dial(), t.dial(), t.profile(t.key(), nostr.Now())
		c.open("s", t.all())
		by.accept(ev)
		c.live("s", ev)
	}),
	required("nip01.own-events-are-live-too", 1, "an event reaches the subscriptions of the connection that sent it", func(t *trial) {
		c, ev := t.dial(), t.profile(t.key(), nostr.Now())
		c.open("s", t.all())
		c.accept(ev)
		c.live("s", ev)
	}),
	required("nip01.live-event-is-unchanged", 1, "a live event comes with all its members as they were", func(t *trial) {
		c, by, ev := t.dial(), t.dial(), t.profile(t.key(), nostr.Now(), nostr.Tag{"x", "\n\"", "🜁"})
		c.open("s", t.all())
		by.accept(ev)
		m := c.wait("live event", func(m *message) bool { return m.label == "EVENT" && m.event.ID == ev.ID })
		if m.event.String() != ev.String() || m.id != "s" {
			t.failf("it came as %s", m)
		}
	}),
	required("nip01.live-events-are-filtered", 1, "an event that no filter matches is not sent", func(t *trial) {
		c, by, k := t.dial(), t.dial(), t.key()
		c.open("s", t.with("kinds", []int{t.options.Kinds.Replaceable}))
		by.accept(t.addressable(k, "a", nostr.Now()))
		c.silent("an event of another kind", "s", by)
	}),
	required("nip01.live-events-match-since", 1, "since and until hold for live events too", func(t *trial) {
		c, by, now := t.dial(), t.dial(), nostr.Now()
		c.open("s", t.with("since", now-5))
		by.accept(t.profile(t.key(), now-6))
		c.silent("an event from before since", "s", by)
	}),
	optional("nip01.live-event-of-two-filters-comes-once", 1, "a live event that two filters of a REQ match comes once", func(t *trial) {
		c, by, k := t.dial(), t.dial(), t.key()
		ev := t.profile(k, nostr.Now())
		c.open("s", t.all(), t.with("authors", []string{k.pub}), filter{"ids": []string{ev.ID}})
		by.accept(ev)
		t.expect("copies", c.heard("s", by), ev.ID)
	}),
	required("nip01.close-ends-the-subscription", 1, "nothing is sent to a subscription after its CLOSE", func(t *trial) {
		c, by := t.dial(), t.dial()
		c.open("s", t.all())
		c.open("witness", t.all())
		c.send("CLOSE", "s")
		c.sync()
		by.accept(t.profile(t.key(), nostr.Now()))
		c.heard("witness", by)
		if n := len(c.take(labelled("EVENT", "s"))); n > 0 {
			t.failf("%d events came", n)
		}
	}),
	required("nip01.second-req-delivers-once", 1, "after a second REQ of the same id a live event comes once", func(t *trial) {
		c, by, ev := t.dial(), t.dial(), t.profile(t.key(), nostr.Now())
		c.open("s", t.all())
		c.open("s", t.all())
		by.accept(ev)
		t.expect("copies", c.heard("s", by), ev.ID)
	}),
	required("nip01.second-req-replaces-the-filter", 1, "after a second REQ of the same id the first filter is gone", func(t *trial) {
		c, by := t.dial(), t.dial()
		c.open("s", t.all())
		c.open("s", t.with("kinds", []int{t.options.Kinds.Replaceable}))
		by.accept(t.addressable(t.key(), "a", nostr.Now()))
		c.silent("an event that only the first filter matches", "s", by)
	}),
	required("nip01.ids-belong-to-their-connection", 1, "two connections may use one subscription id", func(t *trial) {
		a, b, by := t.dial(), t.dial(), t.dial()
		a.open("s", t.all())
		b.open("s", t.all())
		a.send("CLOSE", "s")
		a.sync()
		ev := t.profile(t.key(), nostr.Now())
		by.accept(ev)
		b.live("s", ev)
		a.sync()
		if n := len(a.take(labelled("EVENT", "s"))); n > 0 {
			t.failf("the closed one got %d events", n)
		}
	}),
	required("nip01.subscription-id-of-64-characters", 1, "a subscription id of 64 characters is taken", func(t *trial) {
		t.dial().open(strings.Repeat("s", 64), t.all())
	}),
	refusedID("nip01.long-subscription-id-is-refused", "a subscription id of more than 64 characters is refused", strings.Repeat("s", 65)),
	refusedID("nip01.empty-subscription-id-is-refused", "an empty subscription id is refused", ""),
	required("nip01.any-subscription-id-comes-back", 1, "a subscription id with quotes, backslashes and Unicode comes back as it was", func(t *trial) {
		c, ev := t.dial(), t.profile(t.key(), nostr.Now())
		c.accept(ev)
		t.expect("under that id", ids(c.open("\"\\ \n🜁</script>", t.all())), ev.ID)
	}),
	required("nip01.subscriptions-run-beside-each-other", 1, "ten subscriptions of one connection each get a live event", func(t *trial) {
		c, by := t.dial(), t.dial()
		names := make([]string, 10)
		for i := range names {
			names[i] = t.name()
			c.open(names[i], t.all())
		}
		ev := t.profile(t.key(), nostr.Now())
		by.accept(ev)
		for _, name := range names {
			c.live(name, ev)
		}
	}),
	required("nip01.duplicate-is-not-sent-again", 1, "an event sent again is not sent to subscriptions again", func(t *trial) {
		c, by, ev := t.dial(), t.dial(), t.profile(t.key(), nostr.Now())
		c.open("s", t.all())
		by.accept(ev)
		by.publish(ev)
		t.expect("copies", c.heard("s", by), ev.ID)
	}),
	required("nip01.every-subscriber-is-served", 1, "a live event reaches each of eight connections", func(t *trial) {
		by, ev := t.dial(), t.profile(t.key(), nostr.Now())
		readers := make([]*client, 8)
		for i := range readers {
			readers[i] = t.dial()
			readers[i].open("s", t.all())
		}
		by.accept(ev)
		for _, c := range readers {
			c.live("s", ev)
		}
	}),
}

func refusedID(name, property, id string) Check {
	return optional(name, 1, property, func(t *trial) {
		c := t.dial()
		c.send("REQ", id, t.all())
		m := c.answer(func(m *message) bool { return m.label == "EOSE" || m.label == "CLOSED" || m.label == "NOTICE" })
		if m != nil && m.label == "EOSE" {
			t.failf("it was served")
		}
	})
}
