package relay_test

import (
	"testing"

	"github.com/nbd-wtf/go-nostr"

	"github.com/parleykit/parley/relay"
	"github.com/parleykit/parley/relay/relaytest"
)

func TestVanishedKeyIsGoneFromEveryViewAlsoAfterARestart(t *testing.T) {
	eachRelay(t, func(t *testing.T, start func(relay.Options) *relaytest.Server) {
		o := relay.Options{Dir: t.TempDir()}
		s := start(o)
		c, watcher, k, now := dial(t, s), dial(t, s), newKey(t), nostr.Now()
		card := k.card("default", now-5, nostr.Tag{"t", "gardening"})
		sealed := wrap(t, k.pub)
		for _, ev := range []nostr.Event{card, sealed, k.note(now-5, `{"name":"gardener"}`)} {
			c.accept(ev)
		}
		if _, end := watcher.request("w", nostr.Filter{Kinds: []int{62}}); end.label != "EOSE" {
			t.Fatal(end)
		}
		request := k.event(62, now, "goodbye", nostr.Tags{{"relay", s.URL}})
		c.accept(request)
		if r := watcher.next(); r.label != "EVENT" || r.event.ID != request.ID {
			t.Errorf("mirrors hear %v", r)
		}
		check := func(s *relaytest.Server) {
			t.Helper()
			c := dial(t, s)
			c.authenticate(k)
			for _, f := range []nostr.Filter{
				{Authors: []string{k.pub}, Kinds: []int{0, 30417}},
				{IDs: []string{card.ID}},
				{Tags: nostr.TagMap{"t": {"gardening"}}},
				{Kinds: []int{30417}, Search: "gardening"},
				{Kinds: []int{0}, Search: "gardener"},
				{Kinds: []int{1059}},
			} {
				if got := c.stored(f); len(got) != 0 {
					t.Errorf("%v finds %v", f, ids(got))
				}
			}
			if got := c.stored(nostr.Filter{Authors: []string{k.pub}}); len(got) != 1 || got[0].ID != request.ID {
				t.Errorf("the key has %v, want its request", ids(got))
			}
			c.refuse(card, "blocked: the event was deleted by its author")
			c.refuse(sealed, "blocked: the event was deleted by its author")
			c.refuse(k.event(5, now, "", nostr.Tags{{"e", request.ID}}), "blocked: the event was deleted")
		}
		check(s)
		s.Stop()
		check(start(o))
	})
}

func TestRequestToVanishFromElsewhereChangesNothing(t *testing.T) {
	c, k, now := dial(t, start(t)), newKey(t), nostr.Now()
	card := k.card("default", now-5)
	c.accept(card)
	c.refuse(k.event(62, now, "", nostr.Tags{{"relay", "wss://relay.example/"}}), "blocked: the request to vanish names other relays")
	c.refuse(k.event(62, now, "", nil), "invalid: a request to vanish")
	if got := c.stored(nostr.Filter{IDs: []string{card.ID}}); len(got) != 1 {
		t.Error("the card is gone")
	}
}
