package relay_test

import (
	"fmt"
	"testing"

	"github.com/nbd-wtf/go-nostr"
)

func TestEventsOfOneConnectionAreStoredInTheirOrderHoweverFastTheyCome(t *testing.T) {
	c, k := dial(t, start(t)), newKey(t)
	const versions = 60
	from := nostr.Now() - 1000
	var sent []string
	for i := range versions {
		ev := k.note(from+nostr.Timestamp(i), fmt.Sprint(i))
		sent = append(sent, ev.ID)
		c.send("EVENT", ev)
	}
	answers := map[string]reply{}
	for range versions {
		r := c.next()
		answers[r.id] = r
	}
	for i, id := range sent {
		if r := answers[id]; !r.ok || r.text != "" {
			t.Errorf("version %d: %v, want OK true: a later one was stored before it", i, r)
		}
	}
}

func TestEventsAreCheckedWithTheKeysOfTheirPlace(t *testing.T) {
	c, k := dial(t, start(t)), newKey(t)
	protected := func(content string) nostr.Event {
		return k.event(0, nostr.Now(), content, nostr.Tags{{"-"}})
	}
	before, after := protected("before"), protected("after")
	auth := k.event(22242, nostr.Now(), "", nostr.Tags{{"relay", c.url}, {"challenge", c.challenge}})
	c.send("EVENT", before)
	c.send("AUTH", auth)
	c.send("EVENT", after)
	for _, want := range []struct {
		id string
		ok bool
	}{{before.ID, false}, {auth.ID, true}, {after.ID, true}} {
		if r := c.next(); r.id != want.id || r.ok != want.ok {
			t.Errorf("got %v, want OK %v of %s", r, want.ok, want.id)
		}
	}
}

func TestOneBadSignatureAmongManyRefusesThatEventAlone(t *testing.T) {
	c, k := dial(t, start(t)), newKey(t)
	good := k.event(5, nostr.Now(), "good", nostr.Tags{{"e", k.pub}})
	bad := k.event(5, nostr.Now(), "bad", nostr.Tags{{"e", k.pub}})
	last := k.event(5, nostr.Now(), "last", nostr.Tags{{"e", k.pub}})
	bad.Sig = good.Sig
	for _, ev := range []nostr.Event{good, bad, last} {
		c.send("EVENT", ev)
	}
	got := map[string]bool{}
	for range 3 {
		r := c.next()
		got[r.id] = r.ok
	}
	if !got[good.ID] || got[bad.ID] || !got[last.ID] {
		t.Errorf("answers are %v", got)
	}
}
