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

const twoDays = 48 * time.Hour

func TestRefusalsOfTimesNameTheClock(t *testing.T) {
	for _, c := range []struct {
		relayOff time.Duration
		at       time.Duration // created_at and expiration of the event, from the real time
		text     string
	}{
		{-twoDays, 0, "invalid: created_at is 2 days ahead of this server's clock"},
		{0, 16 * time.Minute, "invalid: created_at is 16 minutes ahead of this server's clock"},
		{0, 5 * time.Hour, "invalid: created_at is 5 hours ahead of this server's clock"},
		{twoDays, 0, "invalid: the event is expired, its expiration is 2 days behind this server's clock"},
		{0, -time.Hour, "invalid: the event is expired, its expiration is 60 minutes behind this server's clock"},
	} {
		clock := newClock()
		clock.advance(c.relayOff)
		peer, k := dial(t, relaytest.Start(t, relay.Options{Now: clock.Now})), newKey(t)
		at := nostr.Timestamp(time.Now().Add(c.at).Unix())
		peer.refuse(k.event(0, at, "", nostr.Tags{{"expiration", fmt.Sprint(at + 1)}}), c.text)
		if c.relayOff == 0 {
			continue
		}
		if r := peer.auth(k, peer.challenge, peer.url, nostr.Now()); r.ok || !strings.Contains(r.text, "2 days") || !strings.Contains(r.text, "this server's clock") {
			t.Errorf("AUTH at a clock that is %s off: %v", c.relayOff, r)
		}
	}
}

// A clock that jumps ahead removes what has expired by it, and nothing else;
// once it is right everything else is served and accepted as before.
func TestAClockThatJumpsRemovesOnlyWhatItCallsExpired(t *testing.T) {
	clock := newClock()
	s := relaytest.Start(t, relay.Options{Now: clock.Now, SweepInterval: time.Millisecond})
	c, k := dial(t, s), newKey(t)
	short, long := expiring(newKey(t), 3600), expiring(newKey(t), 4*86400)
	endless := k.note(nostr.Now(), "no expiration")
	gone := k.card("gone", nostr.Now()-10)
	for _, ev := range []nostr.Event{short, long, endless, gone, k.deletion(nostr.Now()-5, nostr.Tag{"e", gone.ID})} {
		c.accept(ev)
	}
	clock.advance(twoDays)
	eventually(t, func() bool { return len(c.stored(nostr.Filter{IDs: []string{short.ID}})) == 0 })
	clock.advance(-twoDays)
	if got := c.stored(nostr.Filter{IDs: []string{long.ID, endless.ID}}); len(got) != 2 {
		t.Errorf("found %v, want both that have not expired", ids(got))
	}
	c.refuse(gone, "blocked: the event was deleted")
	eventually(t, func() bool { return c.publish(short).ok }) // a sender that gives it again is welcome
}
