package conformance

import "github.com/nbd-wtf/go-nostr"

// deletionChecks are about NIP-09.
var deletionChecks = []Check{
	conditional("nip09.author-deletes-by-id", 9, "the author's request deletes an event by its id", func(t *trial) {
		c, k := t.dial(), t.key()
		ev, other := t.profile(k, nostr.Now()-5), t.addressable(k, "a", nostr.Now()-5)
		c.accept(ev, other)
		del := t.deletion(k, nostr.Now(), nostr.Tag{"e", ev.ID})
		c.accept(del)
		t.expect("left", c.stored(t.all()), other.ID, del.ID)
		t.expect("by id", c.stored(filter{"ids": []string{ev.ID}}))
	}),
	conditional("nip09.author-deletes-by-address", 9, "the author's request deletes an addressable event by its address", func(t *trial) {
		c, k := t.dial(), t.key()
		ev, other := t.addressable(k, "a", nostr.Now()-5), t.addressable(k, "b", nostr.Now()-4)
		c.accept(ev, other)
		del := t.deletion(k, nostr.Now(), nostr.Tag{"a", t.address(k, "a")})
		c.accept(del)
		t.expect("left", c.stored(t.all()), other.ID, del.ID)
	}),
	conditional("nip09.one-request-deletes-several", 9, "one request deletes all the events it names", func(t *trial) {
		c, k := t.dial(), t.key()
		a, b, d := t.profile(k, nostr.Now()-5), t.addressable(k, "b", nostr.Now()-5), t.addressable(k, "d", nostr.Now()-4)
		c.accept(a, b, d)
		del := t.deletion(k, nostr.Now(), nostr.Tag{"e", a.ID}, nostr.Tag{"e", b.ID}, nostr.Tag{"a", t.address(k, "d")})
		c.accept(del)
		t.expect("left", c.stored(t.all()), del.ID)
	}),
	conditional("nip09.address-spares-later-versions", 9, "a request by address spares versions newer than itself", func(t *trial) {
		c, k, now := t.dial(), t.key(), nostr.Now()
		ev := t.addressable(k, "a", now-5)
		del := t.deletion(k, now-10, nostr.Tag{"a", t.address(k, "a")})
		c.accept(ev, del)
		t.expect("left", c.stored(t.all()), ev.ID, del.ID)
	}),
	conditional("nip09.new-version-after-deletion", 9, "an address may be used again after its deletion", func(t *trial) {
		c, k, now := t.dial(), t.key(), nostr.Now()
		c.accept(t.addressable(k, "a", now-9))
		del := t.deletion(k, now-5, nostr.Tag{"a", t.address(k, "a")})
		c.accept(del)
		next := t.addressable(k, "a", now)
		c.mustAccept("a version newer than the deletion", next)
		t.expect("left", c.stored(t.all()), next.ID, del.ID)
	}),
	stranger("nip09.stranger-cannot-delete-by-id", "a stranger's request does not delete an event by its id", func(_ *trial, _ *key, ev nostr.Event) nostr.Tag {
		return nostr.Tag{"e", ev.ID}
	}),
	stranger("nip09.stranger-cannot-delete-by-address", "a stranger's request does not delete an event by its address", func(t *trial, k *key, _ nostr.Event) nostr.Tag {
		return nostr.Tag{"a", t.address(k, "a")}
	}),
	conditional("nip09.stranger-cannot-forbid-in-advance", 9, "a stranger's request that comes first does not keep an event out", func(t *trial) {
		c, k, now := t.dial(), t.key(), nostr.Now()
		ev := t.addressable(k, "a", now-5)
		c.accept(t.profile(k, now-5))
		c.publish(t.deletion(t.key(), now, nostr.Tag{"e", ev.ID}, nostr.Tag{"a", t.address(k, "a")}))
		c.mustAccept("an event whose deletion a stranger asked for", ev)
		t.expect("by id", c.stored(filter{"ids": []string{ev.ID}}), ev.ID)
	}),
	returns("nip09.deleted-event-stays-deleted", "an event deleted by its id is not served when it is sent again", func(_ *trial, _ *key, ev nostr.Event) nostr.Tag {
		return nostr.Tag{"e", ev.ID}
	}),
	returns("nip09.deleted-address-stays-deleted", "a version deleted by its address is not served when it is sent again", func(t *trial, k *key, _ nostr.Event) nostr.Tag {
		return nostr.Tag{"a", t.address(k, "a")}
	}),
	conditional("nip09.older-version-stays-deleted", 9, "a version older than the deletion of its address is not taken", func(t *trial) {
		c, k, now := t.dial(), t.key(), nostr.Now()
		c.accept(t.addressable(k, "a", now-5), t.deletion(k, now, nostr.Tag{"a", t.address(k, "a")}))
		older := t.addressable(k, "a", now-3)
		c.publish(older)
		t.expect("by id", c.stored(filter{"ids": []string{older.ID}}))
	}),
	conditional("nip09.deletion-is-remembered-in-advance", 9, "an event that comes after the author's request to delete it is not served", func(t *trial) {
		c, k, now := t.dial(), t.key(), nostr.Now()
		ev := t.addressable(k, "a", now-5)
		c.accept(t.deletion(k, now, nostr.Tag{"e", ev.ID}))
		c.publish(ev)
		t.expect("by id", c.stored(filter{"ids": []string{ev.ID}}))
	}),
	conditional("nip09.request-is-served", 9, "a deletion request is kept and sent to subscriptions", func(t *trial) {
		c, by, k := t.dial(), t.dial(), t.key()
		ev := t.profile(k, nostr.Now()-5)
		by.accept(ev)
		c.open("s", t.all())
		del := t.deletion(k, nostr.Now(), nostr.Tag{"e", ev.ID})
		by.accept(del)
		c.live("s", del)
		t.expect("stored", by.stored(t.with("kinds", []int{nostr.KindDeletion})), del.ID)
	}),
	conditional("nip09.deletion-of-a-deletion-does-nothing", 9, "a request to delete a request does nothing", func(t *trial) {
		c, k, now := t.dial(), t.key(), nostr.Now()
		ev := t.profile(k, now-5)
		first := t.deletion(k, now-1, nostr.Tag{"e", ev.ID})
		c.accept(ev, first)
		c.publish(t.deletion(k, now, nostr.Tag{"e", first.ID}))
		c.publish(ev)
		t.expect("the deleted event", c.stored(filter{"ids": []string{ev.ID}}))
		t.expect("the first request", c.stored(filter{"ids": []string{first.ID}}), first.ID)
	}),
}

// mustAccept publishes an event of a kind that was accepted before, so that
// any refusal is a finding.
func (c *client) mustAccept(what string, ev nostr.Event) {
	if ok := c.publish(ev); !ok.ok {
		c.t.failf("%s was refused: %s", what, ok.text)
	}
}

func stranger(name, property string, target func(t *trial, k *key, ev nostr.Event) nostr.Tag) Check {
	return conditional(name, 9, property, func(t *trial) {
		c, k := t.dial(), t.key()
		ev := t.addressable(k, "a", nostr.Now()-5)
		c.accept(ev)
		c.publish(t.deletion(t.key(), nostr.Now(), target(t, k, ev)))
		t.expect("by id", c.stored(filter{"ids": []string{ev.ID}}), ev.ID)
	})
}

func returns(name, property string, target func(t *trial, k *key, ev nostr.Event) nostr.Tag) Check {
	return conditional(name, 9, property, func(t *trial) {
		c, by, k := t.dial(), t.dial(), t.key()
		ev := t.addressable(k, "a", nostr.Now()-5)
		by.accept(ev, t.deletion(k, nostr.Now(), target(t, k, ev)))
		c.open("first", t.all()) // what is on its way is over
		c.heard("first", by)
		c.send("CLOSE", "first")
		c.open("s", t.all())
		by.publish(ev)
		c.silent("the deleted event", "s", by)
		t.expect("by id", by.stored(filter{"ids": []string{ev.ID}}))
	})
}
