package conformance

import "github.com/nbd-wtf/go-nostr"

const kindVanish = 62

// vanishing is a request to vanish (NIP-62) from the relay.
func (t *trial) vanishing(k *key, at nostr.Timestamp, relay string) nostr.Event {
	return k.sign(kindVanish, at, "", append(t.marks(at), nostr.Tag{"relay", relay}))
}

// life is what one key stored.
type life struct {
	c   *client
	k   *key
	now nostr.Timestamp
}

// live stores a profile, an addressable event and a deletion request.
func (t *trial) live() *life {
	l := &life{t.dial(), t.key(), nostr.Now()}
	l.c.accept(t.profile(l.k, l.now-20), t.addressable(l.k, "a", l.now-20),
		t.deletion(l.k, l.now-20, nostr.Tag{"e", randomHex(32)}))
	return l
}

// own is the filter of everything of the key but requests to vanish.
func (l *life) own() filter {
	kinds := l.c.t.options.Kinds
	return filter{"authors": []string{l.k.pub}, "kinds": []int{kinds.Replaceable, kinds.Second, kinds.Addressable, nostr.KindDeletion}}
}

// vanishChecks are about NIP-62.
var vanishChecks = []Check{
	conditional("nip62.request-removes-everything", 62, "a request that names the relay removes all events of its key, deletion requests too", func(t *trial) {
		l := t.live()
		l.c.accept(t.vanishing(l.k, l.now, t.url))
		t.expect("left", l.c.stored(l.own()))
	}),
	conditional("nip62.all-relays-means-this-one", 62, "a request for ALL_RELAYS removes all events of its key", func(t *trial) {
		l := t.live()
		l.c.accept(t.vanishing(l.k, l.now, "ALL_RELAYS"))
		t.expect("left", l.c.stored(l.own()))
	}),
	conditional("nip62.request-for-another-relay-removes-nothing", 62, "a request that names another relay removes nothing", func(t *trial) {
		l := t.live()
		l.c.publish(t.vanishing(l.k, l.now, "wss://relay.example/"))
		if n := len(l.c.stored(l.own())); n != 3 {
			t.failf("%d of 3 events are left", n)
		}
	}),
	conditional("nip62.request-is-of-its-author-alone", 62, "a request removes nothing of other keys", func(t *trial) {
		l := t.live()
		l.c.accept(t.vanishing(t.key(), l.now, "ALL_RELAYS"))
		if n := len(l.c.stored(l.own())); n != 3 {
			t.failf("%d of 3 events are left", n)
		}
	}),
	conditional("nip62.newer-events-stay", 62, "a request leaves events newer than itself", func(t *trial) {
		l := t.live()
		newer := t.addressable(l.k, "new", l.now)
		l.c.accept(newer, t.vanishing(l.k, l.now-5, t.url))
		t.expect("left", l.c.stored(l.own()), newer.ID)
	}),
	conditional("nip62.old-events-do-not-come-back", 62, "an event from before the request is not served when it is sent again", func(t *trial) {
		c, k, now := t.dial(), t.key(), nostr.Now()
		ev := t.addressable(k, "a", now-20)
		c.accept(ev, t.vanishing(k, now, t.url))
		c.publish(ev)
		c.publish(t.profile(k, now-10))
		t.expect("left", c.stored(filter{"authors": []string{k.pub}, "kinds": []int{t.options.Kinds.Replaceable, ev.Kind}}))
	}),
	conditional("nip62.the-key-may-begin-again", 62, "an event from after the request is taken", func(t *trial) {
		l := t.live()
		l.c.accept(t.vanishing(l.k, l.now-5, t.url))
		ev := t.profile(l.k, l.now)
		l.c.mustAccept("an event from after the request", ev)
		t.expect("left", l.c.stored(l.own()), ev.ID)
	}),
	conditional("nip62.request-without-relay-is-refused", 62, "a request that names no relay is refused and removes nothing", func(t *trial) {
		l := t.live()
		l.c.refuse("it", l.k.sign(kindVanish, l.now, "", t.marks(l.now)))
		if n := len(l.c.stored(l.own())); n != 3 {
			t.failf("%d of 3 events are left", n)
		}
	}),
	conditional("nip62.deletion-of-the-request-does-nothing", 62, "a deletion request for the request brings nothing back", func(t *trial) {
		c, k, now := t.dial(), t.key(), nostr.Now()
		ev := t.profile(k, now-20)
		gone := t.vanishing(k, now-5, t.url)
		c.accept(ev, gone)
		c.publish(t.deletion(k, now, nostr.Tag{"e", gone.ID}))
		c.publish(ev)
		t.expect("left", c.stored(filter{"ids": []string{ev.ID}}))
	}),
	needing(62, "nip62.wraps-for-the-key-go-too", 62, "wraps for the key that vanishes are removed", func(t *trial) {
		h, c := t.hide(), t.dial()
		c.authenticate(h.to)
		c.accept(t.vanishing(h.to, nostr.Now(), t.url))
		t.expect("left", c.stored(h.named()))
	}),
}
