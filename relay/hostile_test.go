package relay_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/parleykit/parley/relay"
	"github.com/parleykit/parley/relay/relaytest"
)

func TestOpenFiltersOfAConnectionAreBoundedAndTheirRoomComesBack(t *testing.T) {
	c := dial(t, relaytest.Start(t, relay.Options{}))
	authors := make([]string, 256)
	for i := range authors {
		authors[i] = fmt.Sprintf("%064x", i)
	}
	open := func(id string) reply {
		c.send("REQ", id, nostr.Filter{Authors: authors}, nostr.Filter{Authors: authors})
		return c.next()
	}
	opened := 0
	for ; opened < 64; opened++ {
		if r := open(fmt.Sprint(opened)); r.label == "CLOSED" {
			if !strings.HasPrefix(r.text, "restricted: ") {
				t.Fatalf("refused with %v", r)
			}
			break
		}
	}
	if opened == 0 || opened == 64 {
		t.Fatalf("%d subscriptions of 512 values, want some and not all", opened)
	}
	for range 3 * opened { // the same id again takes no more room
		if r := open("0"); r.label != "EOSE" {
			t.Fatalf("replacing a subscription: %v", r)
		}
	}
	c.send("CLOSE", "0")
	if r := open("another"); r.label != "EOSE" {
		t.Errorf("after a CLOSE: %v", r)
	}
}

func TestWhatStrangersStoreEnds(t *testing.T) {
	clock := newClock()
	s := relaytest.Start(t, relay.Options{Now: clock.Now, SweepInterval: time.Millisecond})
	c, k := dial(t, s), newKey(t)
	now := nostr.Timestamp(clock.Now().Unix())
	c.accept(k.note(now, "profile"))
	c.accept(k.deletion(now, nostr.Tag{"e", strings.Repeat("a", 64)}))
	if got := c.stored(nostr.Filter{Authors: []string{k.pub}}); len(got) != 2 {
		t.Fatalf("%d events stored, want 2", len(got))
	}
	clock.advance(182 * 24 * time.Hour)
	if got := c.stored(nostr.Filter{Authors: []string{k.pub}}); len(got) != 0 {
		t.Errorf("after half a year %d events are served, want none", len(got))
	}
}
