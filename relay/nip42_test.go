package relay_test

import (
	"strings"
	"testing"

	"github.com/nbd-wtf/go-nostr"

	"github.com/parleykit/parley/relay"
	"github.com/parleykit/parley/relay/relaytest"
)

func TestAUTHIsCheckedInEveryPart(t *testing.T) {
	s := start(t)
	c, k := dial(t, s), newKey(t)
	now := nostr.Now()
	other := dial(t, s).challenge
	for name, r := range map[string]reply{
		"other challenge": c.auth(k, other, c.url, now),
		"other relay":     c.auth(k, c.challenge, "ws://relay.example", now),
		"other scheme":    c.auth(k, c.challenge, strings.Replace(c.url, "ws:", "wss:", 1), now),
		"path":            c.auth(k, c.challenge, c.url+"/other", now),
		"too old":         c.auth(k, c.challenge, c.url, now-11*60),
		"too new":         c.auth(k, c.challenge, c.url, now+11*60),
	} {
		if r.ok || !strings.HasPrefix(r.text, "invalid: ") {
			t.Errorf("%s: %v, want OK false", name, r)
		}
	}
	tags := nostr.Tags{{"relay", c.url}, {"challenge", c.challenge}}
	wrongKind := k.event(22243, now, "", tags)
	wrongSig := k.event(22242, now, "", tags)
	wrongSig.Sig = k.event(22242, now, "x", tags).Sig
	for _, ev := range []nostr.Event{wrongKind, wrongSig, k.event(22242, now, "", tags[:1]), k.event(22242, now, "", tags[1:])} {
		c.send("AUTH", ev)
		if r := c.next(); r.label != "OK" || r.ok {
			t.Errorf("%s: %v, want OK false", ev, r)
		}
	}
	if _, end := c.request("w", nostr.Filter{Kinds: []int{1059}}); end.label != "CLOSED" {
		t.Errorf("after refused AUTHs: %v, want CLOSED", end)
	}
	for _, url := range []string{c.url, c.url + "/", strings.ToUpper(c.url)} {
		if r := c.auth(k, c.challenge, url, now-9*60); !r.ok {
			t.Errorf("%s: %v, want OK true", url, r)
		}
	}
}

func TestDefaultPortMakesNoDifferenceToAUTH(t *testing.T) {
	s := relaytest.Start(t, relay.Options{Origin: "https://relay.example/"})
	c, k := dial(t, s), newKey(t)
	for url, ok := range map[string]bool{
		"wss://relay.example":          true,
		"wss://Relay.example:443/":     true,
		"wss://relay.example:8443":     false,
		"ws://relay.example":           false,
		"wss://relay.example.evil":     false,
		"wss://u@relay.example":        false,
		"https://relay.example":        false,
		"wss://relay.example/?x=1":     false,
		"wss://evil/@relay.example":    false,
		"wss://relay.example/sub/path": false,
	} {
		if r := c.auth(k, c.challenge, url, nostr.Now()); r.ok != ok {
			t.Errorf("%s: %v, want %v", url, r, ok)
		}
	}
}

func TestChallengesDiffer(t *testing.T) {
	s := start(t)
	if a, b := dial(t, s), dial(t, s); a.challenge == b.challenge {
		t.Error("two connections got one challenge")
	}
}

func TestAUTHEventIsNotStored(t *testing.T) {
	c, k := dial(t, start(t)), newKey(t)
	c.refuse(k.event(22242, nostr.Now(), "", nostr.Tags{{"relay", c.url}, {"challenge", c.challenge}}), "blocked: ")
}

func TestProtectedEventIsTakenFromItsAuthorOnly(t *testing.T) {
	c, k, other := dial(t, start(t)), newKey(t), newKey(t)
	ev := k.event(0, nostr.Now(), "", nostr.Tags{{"-"}})
	c.refuse(ev, "auth-required: ")
	c.authenticate(other)
	c.refuse(ev, "restricted: ")
	c.authenticate(k)
	c.accept(ev)
}
