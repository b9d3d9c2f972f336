package relay_test

import (
	"path/filepath"
	"testing"

	"github.com/nbd-wtf/go-nostr"

	"github.com/parleykit/parley/internal/disktest"
	"github.com/parleykit/parley/relay"
	"github.com/parleykit/parley/relay/relaytest"
)

func TestRelayWithoutSpaceAnswersWithAnErrorAndServes(t *testing.T) {
	volume := disktest.Mount(t, 96<<20)
	store, err := relay.OpenPebble(filepath.Join(volume.Path, "store"), nil)
	if err != nil {
		t.Fatal(err)
	}
	c, key := dial(t, relaytest.Start(t, relay.Options{Store: store})), newKey(t)
	c.accept(key.note(nostr.Now()-2, "before"))
	volume.Fill(t, 32<<20)
	c.refuse(key.note(nostr.Now()-1, "while it is full"), "error: ")
	if got := c.stored(nostr.Filter{Authors: []string{key.pub}}); len(got) != 1 || got[0].Content != "before" {
		t.Errorf("stored: %v", got)
	}
	volume.Empty(t)
	c.accept(key.note(nostr.Now(), "after"))
}
