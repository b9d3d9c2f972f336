package relay_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/nbd-wtf/go-nostr"

	"github.com/parleykit/parley/relay"
	"github.com/parleykit/parley/relay/relaytest"
)

// deletion is a NIP-09 request.
func (k *key) deletion(at nostr.Timestamp, targets ...nostr.Tag) nostr.Event {
	return k.event(5, at, "", targets)
}

func (k *key) address(d string) string { return "30417:" + k.pub + ":" + d }

func TestAuthorDeletesByID(t *testing.T) {
	c, k := dial(t, start(t)), newKey(t)
	card := k.card("default", nostr.Now()-5)
	c.accept(card)
	del := k.deletion(nostr.Now(), nostr.Tag{"e", card.ID})
	c.accept(del)
	if diff := cmp.Diff([]string{del.ID}, ids(c.stored(nostr.Filter{}))); diff != "" {
		t.Errorf("stored (-want +got):\n%s", diff)
	}
	c.refuse(card, "blocked: the event was deleted")
	c.accept(k.card("default", nostr.Now()-4)) // another version was not deleted
}

func TestAuthorDeletesByAddressUpToTheRequest(t *testing.T) {
	c, k := dial(t, start(t)), newKey(t)
	now := nostr.Now()
	card, other := k.card("default", now-10), k.card("other", now-10)
	c.accept(card)
	c.accept(other)
	c.accept(k.deletion(now-5, nostr.Tag{"a", k.address("default")}))
	if diff := cmp.Diff([]string{other.ID}, ids(c.stored(nostr.Filter{Kinds: []int{30417}}))); diff != "" {
		t.Errorf("stored (-want +got):\n%s", diff)
	}
	c.refuse(card, "blocked: the event was deleted")
	c.refuse(k.card("default", now-5), "blocked: the event was deleted")
	c.accept(k.card("default", now-4))
	c.accept(k.deletion(now-8, nostr.Tag{"a", k.address("default")}))
	c.refuse(k.card("default", now-6), "blocked: the event was deleted") // the later request still holds
}

func TestReplaceableEventIsDeletedByAddress(t *testing.T) {
	c, k := dial(t, start(t)), newKey(t)
	c.accept(k.note(nostr.Now()-5, "profile"))
	c.accept(k.deletion(nostr.Now(), nostr.Tag{"a", "0:" + k.pub + ":"}))
	if got := c.stored(nostr.Filter{Kinds: []int{0}}); len(got) != 0 {
		t.Errorf("stored %v, want nothing", ids(got))
	}
}

func TestStrangersDeletionNeitherDeletesNorBlocks(t *testing.T) {
	c, k, stranger := dial(t, start(t)), newKey(t), newKey(t)
	card, later := k.card("default", nostr.Now()-5), k.card("default", nostr.Now()-2)
	c.accept(stranger.deletion(nostr.Now(), nostr.Tag{"e", card.ID}, nostr.Tag{"e", later.ID}, nostr.Tag{"a", k.address("default")}))
	c.accept(card)
	c.accept(stranger.deletion(nostr.Now()-1, nostr.Tag{"e", card.ID}, nostr.Tag{"a", k.address("default")}))
	if got := c.stored(nostr.Filter{Kinds: []int{30417}}); len(got) != 1 {
		t.Errorf("stored %v, want the card", ids(got))
	}
	c.accept(later)
}

func TestDeletionBeforeItsEventHolds(t *testing.T) {
	c, k := dial(t, start(t)), newKey(t)
	card := k.card("default", nostr.Now()-5)
	c.accept(k.deletion(nostr.Now(), nostr.Tag{"e", card.ID}))
	c.refuse(card, "blocked: the event was deleted")
}

func TestDeletionRequestCannotBeDeleted(t *testing.T) {
	c, k := dial(t, start(t)), newKey(t)
	card := k.card("default", nostr.Now()-5)
	c.accept(card)
	first := k.deletion(nostr.Now()-1, nostr.Tag{"e", card.ID})
	c.accept(first)
	c.accept(k.deletion(nostr.Now(), nostr.Tag{"e", first.ID}))
	if got := c.stored(nostr.Filter{IDs: []string{first.ID}}); len(got) != 1 {
		t.Error("the first request is gone")
	}
	c.refuse(card, "blocked: the event was deleted")
}

func TestRefusedDeletionDeletesNothing(t *testing.T) {
	c, k := dial(t, start(t)), newKey(t)
	card := k.card("default", nostr.Now()-5)
	c.accept(card)
	expired := k.deletion(nostr.Now(), nostr.Tag{"e", card.ID}, nostr.Tag{"expiration", fmt.Sprint(nostr.Now() - 1)})
	c.refuse(expired, "invalid: the event is expired")
	forged := k.deletion(nostr.Now(), nostr.Tag{"e", card.ID})
	forged.Sig = strings.Repeat("0", 128)
	c.refuse(forged, "invalid: ")
	if got := c.stored(nostr.Filter{Kinds: []int{30417}}); len(got) != 1 {
		t.Error("the card is gone")
	}
}

func TestRecipientCannotDeleteAWrap(t *testing.T) {
	c, k := dial(t, start(t)), newKey(t)
	w := wrap(t, k.pub)
	c.accept(w)
	c.accept(k.deletion(nostr.Now(), nostr.Tag{"e", w.ID}))
	c.authenticate(k)
	if got := c.stored(nostr.Filter{Kinds: []int{1059}}); len(got) != 1 {
		t.Errorf("found %v, want the wrap", ids(got))
	}
}

func TestDeletionSurvivesARestart(t *testing.T) {
	dir, k := t.TempDir(), newKey(t)
	card := k.card("default", nostr.Now()-5)
	s := relaytest.Start(t, relay.Options{Dir: dir})
	c := dial(t, s)
	c.accept(card)
	c.accept(k.deletion(nostr.Now(), nostr.Tag{"a", k.address("default")}))
	s.Stop()
	c = dial(t, relaytest.Start(t, relay.Options{Dir: dir}))
	c.refuse(card, "blocked: the event was deleted")
}
