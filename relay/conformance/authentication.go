package conformance

import (
	"strings"

	"github.com/nbd-wtf/go-nostr"
)

// challengeNow returns the connection's challenge, or "" when the relay does
// not send one even where it is asked for wraps.
func (c *client) challengeNow() string {
	get := func() string {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.challenge
	}
	c.sync()
	if get() == "" {
		id := c.t.name()
		c.send("REQ", id, filter{"kinds": []int{kindWrap}, "limit": 1})
		c.send("CLOSE", id)
		c.sync()
	}
	return get()
}

// proof is an AUTH event (NIP-42).
func (k *key) proof(at nostr.Timestamp, relay, challenge string) nostr.Event {
	return k.plain(kindAuth, at, "", nostr.Tags{{"relay", relay}, {"challenge", challenge}})
}

// sendAuth sends an AUTH event and returns its OK.
func (c *client) sendAuth(ev nostr.Event) *message {
	c.send("AUTH", ev)
	return c.wait("OK to AUTH", labelled("OK", ev.ID))
}

// auth proves the key and reports whether the relay took it.
func (c *client) auth(k *key) bool {
	challenge := c.challengeNow()
	return challenge != "" && c.sendAuth(k.proof(nostr.Now(), c.t.url, challenge)).ok
}

// authenticate is auth for checks that make no sense without it.
func (c *client) authenticate(k *key) {
	challenge := c.challengeNow()
	if challenge == "" {
		c.t.skipf("the relay sends no challenge")
	}
	if ok := c.sendAuth(k.proof(nostr.Now(), c.t.url, challenge)); !ok.ok {
		if refusedByPolicy(ok.text) {
			c.t.skipf("the relay takes no keys from here: %s", ok.text)
		}
		c.t.failf("a valid AUTH was refused: %s", ok.text)
	}
}

// authenticationChecks are about NIP-42.
var authenticationChecks = []Check{
	optional("nip42.challenge-is-sent", 42, "the relay sends a challenge, at the latest when it is asked for wraps", func(t *trial) {
		if !t.info.supports(42) {
			t.skipf("the relay does not advertise NIP-42")
		}
		if t.dial().challengeNow() == "" {
			t.failf("none came")
		}
	}),
	conditional("nip42.challenges-differ", 42, "each connection has a challenge of its own, hard to guess", func(t *trial) {
		a, b := t.dial().challengeNow(), t.dial().challengeNow()
		if a+b == "" {
			t.skipf("the relay sends no challenge")
		}
		if a == b || len(a) < 8 {
			t.failf("two connections got %q and %q", a, b)
		}
	}),
	conditional("nip42.valid-auth-is-taken", 42, "a valid AUTH event is answered OK true", func(t *trial) {
		t.dial().authenticate(t.key())
	}),
	badAuth("nip42.challenge-of-another-connection-is-refused", "an AUTH for the challenge of another connection is refused", func(t *trial, k *key, _ string) nostr.Event {
		return k.proof(nostr.Now(), t.url, t.dial().challengeNow())
	}),
	badAuth("nip42.other-relay-is-refused", "an AUTH that names another relay is refused", func(_ *trial, k *key, challenge string) nostr.Event {
		return k.proof(nostr.Now(), "wss://relay.example/", challenge)
	}),
	badAuth("nip42.old-auth-is-refused", "an AUTH of an hour ago is refused", func(t *trial, k *key, challenge string) nostr.Event {
		return k.proof(nostr.Now()-3600, t.url, challenge)
	}),
	badAuth("nip42.future-auth-is-refused", "an AUTH of in an hour is refused", func(t *trial, k *key, challenge string) nostr.Event {
		return k.proof(nostr.Now()+3600, t.url, challenge)
	}),
	badAuth("nip42.other-kind-is-refused", "an AUTH of another kind than 22242 is refused", func(t *trial, k *key, challenge string) nostr.Event {
		return k.plain(kindHTTP, nostr.Now(), "", nostr.Tags{{"relay", t.url}, {"challenge", challenge}})
	}),
	badAuth("nip42.auth-without-challenge-is-refused", "an AUTH without a challenge is refused", func(t *trial, k *key, _ string) nostr.Event {
		return k.plain(kindAuth, nostr.Now(), "", nostr.Tags{{"relay", t.url}})
	}),
	badAuth("nip42.auth-without-relay-is-refused", "an AUTH without a relay is refused", func(_ *trial, k *key, challenge string) nostr.Event {
		return k.plain(kindAuth, nostr.Now(), "", nostr.Tags{{"challenge", challenge}})
	}),
	badAuth("nip42.wrong-signature-is-refused", "an AUTH with a wrong signature is refused", func(t *trial, k *key, challenge string) nostr.Event {
		ev := k.proof(nostr.Now(), t.url, challenge)
		ev.Sig = k.proof(nostr.Now()-1, t.url, challenge).Sig
		return ev
	}),
	badAuth("nip42.wrong-id-is-refused", "an AUTH whose id is not its hash is refused", func(t *trial, k *key, challenge string) nostr.Event {
		ev := k.proof(nostr.Now(), t.url, challenge)
		ev.Content = "x"
		return ev
	}),
	badAuth("nip42.signature-of-another-key-is-refused", "an AUTH in the name of a key that did not sign it is refused", func(t *trial, k *key, challenge string) nostr.Event {
		ev := t.key().proof(nostr.Now(), t.url, challenge)
		ev.PubKey = k.pub
		ev.ID = ev.GetID()
		return ev
	}),
	conditional("nip42.auth-event-is-not-an-event", 42, "the event of an AUTH is neither stored nor sent to subscriptions", func(t *trial) {
		c, by, k := t.dial(), t.dial(), t.key()
		c.open("s", filter{"authors": []string{k.pub}}, t.all())
		by.authenticate(k)
		if n := len(c.heard("s", by)); n > 0 {
			t.failf("it was sent to a subscription")
		}
		t.expect("stored", c.stored(filter{"authors": []string{k.pub}}))
	}),
	optional("nip42.several-keys", 42, "one connection may authenticate several keys, none taking the place of another", func(t *trial) {
		if !t.info.supports(42) {
			t.skipf("the relay does not advertise NIP-42")
		}
		c, a, b := t.dial(), t.key(), t.key()
		c.authenticate(a)
		c.authenticate(b)
		wa, wb := t.wrap(a), t.wrap(b)
		c.accept(wa, wb)
		for k, w := range map[*key]nostr.Event{a: wa, b: wb} {
			t.expect("wraps of one of the keys", c.stored(filter{"kinds": []int{kindWrap}, "#p": []string{k.pub}}), w.ID)
		}
	}),
}

// badAuth is a check that an AUTH is refused and opens nothing.
func badAuth(name, property string, make func(t *trial, k *key, challenge string) nostr.Event) Check {
	return conditional(name, 42, property, func(t *trial) {
		c, k := t.dial(), t.key()
		challenge := c.challengeNow()
		if challenge == "" {
			t.skipf("the relay sends no challenge")
		}
		c.send("AUTH", make(t, k, challenge))
		m := c.answer(func(m *message) bool { return m.label == "OK" || m.label == "NOTICE" })
		if m == nil {
			return // closed: refused
		}
		if m.ok {
			t.failf("it was answered OK true")
		}
		if ok := t.dial().publish(t.wrap(k)); !ok.ok {
			return // the relay keeps no wraps that it could open
		}
		if events, end := c.request("w", filter{"kinds": []int{kindWrap}, "#p": []string{k.pub}}); len(events) > 0 {
			t.failf("it was refused and yet opened the key's wraps: %s", end)
		}
	})
}

// protectionChecks are about NIP-70.
var protectionChecks = []Check{
	conditional("nip70.protected-event-needs-its-author", 70, "a protected event is refused from a connection without a key, with \"auth-required:\"", func(t *trial) {
		c, ev := t.dial(), t.protected(t.key())
		c.accept(t.profile(t.key(), nostr.Now()))
		c.send("EVENT", ev)
		ok := c.wait("OK", labelled("OK", ev.ID))
		if ok.ok {
			t.failf("it was taken")
		}
		if !strings.HasPrefix(ok.text, "auth-required:") {
			t.failf("it was refused with %q", ok.text)
		}
		t.expect("stored", c.stored(filter{"ids": []string{ev.ID}}))
	}),
	conditional("nip70.protected-event-of-another-is-refused", 70, "a protected event is refused from a connection with another key", func(t *trial) {
		c, ev := t.dial(), t.protected(t.key())
		c.authenticate(t.key())
		c.send("EVENT", ev)
		if ok := c.wait("OK", labelled("OK", ev.ID)); ok.ok {
			t.failf("it was taken")
		}
		t.expect("stored", c.stored(t.all()))
	}),
	conditional("nip70.protected-event-of-its-author-is-taken", 70, "a protected event is taken from its authenticated author", func(t *trial) {
		c, k := t.dial(), t.key()
		ev := t.protected(k)
		c.accept(t.profile(k, nostr.Now()-9))
		c.authenticate(k)
		c.mustAccept("it", ev)
		t.expect("stored", c.stored(t.all()), ev.ID)
	}),
}

func (t *trial) protected(k *key) nostr.Event { return t.profile(k, nostr.Now(), nostr.Tag{"-"}) }
