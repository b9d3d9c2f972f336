package conformance

import "github.com/nbd-wtf/go-nostr"

// maker makes one version of a replaceable or an addressable event.
type maker func(t *trial, k *key, at nostr.Timestamp, more ...nostr.Tag) nostr.Event

func replaceable(t *trial, k *key, at nostr.Timestamp, more ...nostr.Tag) nostr.Event {
	return t.profile(k, at, more...)
}

func addressable(t *trial, k *key, at nostr.Timestamp, more ...nostr.Tag) nostr.Event {
	return t.addressable(k, "default", at, more...)
}

// versionChecks are about replaceable and addressable events (NIP-01).
var versionChecks = []Check{
	newerReplaces("nip01.replaceable-newer-replaces", "a newer replaceable event replaces the older one, also by its id", replaceable),
	newerReplaces("nip01.addressable-newer-replaces", "a newer addressable event replaces the older one, also by its id", addressable),
	olderIsStale("nip01.replaceable-older-is-not-stored", "an older replaceable event does not come back", replaceable),
	olderIsStale("nip01.addressable-older-is-not-stored", "an older addressable event does not come back", addressable),
	staleIsSilent("nip01.replaceable-older-is-not-sent", "an older replaceable event is not sent to subscriptions", replaceable),
	staleIsSilent("nip01.addressable-older-is-not-sent", "an older addressable event is not sent to subscriptions", addressable),
	tie("nip01.replaceable-tie-goes-to-lowest-id", "of two replaceable events of one second the lower id stays, in either order", replaceable),
	tie("nip01.addressable-tie-goes-to-lowest-id", "of two addressable events of one second the lower id stays, in either order", addressable),
	required("nip01.replaceable-kinds-are-apart", 1, "replaceable events of two kinds do not replace each other", func(t *trial) {
		c, k, now := t.dial(), t.key(), nostr.Now()
		a, b := t.profile(k, now-1), t.relayList(k, now)
		c.accept(a, b)
		t.expect("both kinds", c.stored(t.all()), a.ID, b.ID)
	}),
	required("nip01.authors-are-apart", 1, "events of two authors do not replace each other", func(t *trial) {
		c, a, b, now := t.dial(), t.key(), t.key(), nostr.Now()
		events := []nostr.Event{t.profile(a, now-1), t.profile(b, now), addressable(t, a, now-1), addressable(t, b, now)}
		c.accept(events...)
		t.expect("all", c.stored(t.all()), events[0].ID, events[1].ID, events[2].ID, events[3].ID)
	}),
	required("nip01.addressable-names-are-apart", 1, "addressable events of two d tags do not replace each other", func(t *trial) {
		c, k, now := t.dial(), t.key(), nostr.Now()
		a, b := t.addressable(k, "a", now-1), t.addressable(k, "b", now)
		c.accept(a, b)
		t.expect("both names", c.stored(t.all()), a.ID, b.ID)
	}),
	required("nip01.addressable-is-found-by-address", 1, "author, kind and d tag find the one event", func(t *trial) {
		c, k, now := t.dial(), t.key(), nostr.Now()
		a, b := t.addressable(k, "a", now-1), t.addressable(k, "b", now)
		c.accept(a, b, t.addressable(t.key(), "a", now))
		t.expect("by address", c.stored(filter{"authors": []string{k.pub}, "kinds": []int{a.Kind}, "#d": []string{"a"}}), a.ID)
	}),
	required("nip01.newer-version-is-live", 1, "a newer version reaches open subscriptions", func(t *trial) {
		c, by, k, now := t.dial(), t.dial(), t.key(), nostr.Now()
		by.accept(addressable(t, k, now-2))
		c.open("s", t.all())
		next := addressable(t, k, now)
		by.accept(next)
		c.live("s", next)
	}),
	required("nip01.racing-versions-leave-the-newest", 1, "of 24 versions sent at once over four connections only the newest is found", func(t *trial) {
		k, now := t.key(), nostr.Now()
		var clients [4]*client
		for i := range clients {
			clients[i] = t.dial()
		}
		clients[0].accept(addressable(t, k, now-500))
		var newest nostr.Event
		var sent [4][]string
		for i := range 24 {
			ev := addressable(t, k, now-nostr.Timestamp(7*(i+5)%24))
			if newest.ID == "" || ev.CreatedAt > newest.CreatedAt {
				newest = ev
			}
			clients[i%4].send("EVENT", ev)
			sent[i%4] = append(sent[i%4], ev.ID)
		}
		for i, c := range clients {
			for _, id := range sent[i] {
				c.wait("OK", labelled("OK", id))
			}
		}
		t.expect("left", clients[0].stored(t.all()), newest.ID)
	}),
}

func newerReplaces(name, property string, version maker) Check {
	return required(name, 1, property, func(t *trial) {
		c, k, now := t.dial(), t.key(), nostr.Now()
		old, next := version(t, k, now-10), version(t, k, now)
		c.accept(old, next)
		t.expect("stored", c.stored(t.all()), next.ID)
		t.expect("the old version by its id", c.stored(filter{"ids": []string{old.ID}}))
	})
}

func olderIsStale(name, property string, version maker) Check {
	return required(name, 1, property, func(t *trial) {
		c, k, now := t.dial(), t.key(), nostr.Now()
		next := version(t, k, now)
		c.accept(next)
		c.publish(version(t, k, now-10))
		t.expect("stored", c.stored(t.all()), next.ID)
	})
}

func staleIsSilent(name, property string, version maker) Check {
	return required(name, 1, property, func(t *trial) {
		c, by, k, now := t.dial(), t.dial(), t.key(), nostr.Now()
		by.accept(version(t, k, now))
		c.open("first", t.all()) // what is on its way is over
		c.heard("first", by)
		c.send("CLOSE", "first")
		c.open("s", t.all())
		by.publish(version(t, k, now-10))
		c.silent("an older version", "s", by)
	})
}

func tie(name, property string, version maker) Check {
	return required(name, 1, property, func(t *trial) {
		c, now := t.dial(), nostr.Now()
		for _, lowFirst := range []bool{true, false} {
			k := t.key()
			low, high := version(t, k, now, nostr.Tag{"x", "a"}), version(t, k, now, nostr.Tag{"x", "b"})
			if low.ID > high.ID {
				low, high = high, low
			}
			if lowFirst {
				c.accept(low)
				c.publish(high)
			} else {
				c.accept(high, low)
			}
			t.expect("left", c.stored(t.with("authors", []string{k.pub})), low.ID)
		}
	})
}

// relayList is a replaceable event of the second kind, a relay list by default
// (NIP-65).
func (t *trial) relayList(k *key, at nostr.Timestamp) nostr.Event {
	return k.sign(t.options.Kinds.Second, at, "", append(t.marks(at), nostr.Tag{"r", "wss://relay.example/"}))
}

// relayListChecks are about NIP-65.
var relayListChecks = []Check{
	optional("nip65.relay-list-is-taken-and-found", 65, "the relay list of a key is taken and found by its author and kind", func(t *trial) {
		c, k := t.dial(), t.key()
		list := t.relayList(k, nostr.Now())
		c.accept(list)
		t.expect("by author", c.stored(filter{"authors": []string{k.pub}, "kinds": []int{list.Kind}}), list.ID)
	}),
	optional("nip65.newer-relay-list-replaces", 65, "a newer relay list replaces the older one, never the other way round", func(t *trial) {
		c, k, now := t.dial(), t.key(), nostr.Now()
		a, b := t.relayList(k, now-9), t.relayList(k, now)
		c.accept(a, b)
		c.publish(t.relayList(k, now-4))
		t.expect("left", c.stored(t.all()), b.ID)
	}),
}
