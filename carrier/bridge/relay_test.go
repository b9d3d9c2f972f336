package bridge_test

import (
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/carrier/bridge"
	carriernostr "github.com/parleykit/parley/carrier/nostr"
	"github.com/parleykit/parley/internal/database/databasetest"
	"github.com/parleykit/parley/internal/egress"
	"github.com/parleykit/parley/internal/keys"
	"github.com/parleykit/parley/protocol/canonical"
	"github.com/parleykit/parley/protocol/card"
	"github.com/parleykit/parley/relay"
	"github.com/parleykit/parley/relay/relaytest"
)

// crossing is a bridge key with a client of its own.
type crossing struct {
	key    *keys.Nostr
	client *carriernostr.Client
}

func newCrossing(t *testing.T) *crossing {
	t.Helper()
	key, err := keys.GenerateNostr()
	if err != nil {
		t.Fatal(err)
	}
	client, err := carriernostr.NewClient(carriernostr.ClientOptions{Dialer: egress.New(egress.Options{AllowLoopback: true}), Signer: key})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return &crossing{key, client}
}

// at starts a relay that lets the crossings' keys read the wraps of who names mqtt.
func at(t *testing.T, all ...*crossing) *relaytest.Server {
	t.Helper()
	var policy relay.Policy
	for _, c := range all {
		policy.Bridges = append(policy.Bridges, relay.Bridge{Key: c.key.PublicKey(), Scheme: "mqtt"})
	}
	s := relaytest.Start(t, relay.Options{})
	s.SetPolicy(t, policy)
	return s
}

func (c *crossing) side(t *testing.T, s *relaytest.Server, recipients ...string) *bridge.Relay {
	t.Helper()
	side, err := bridge.NewRelay(bridge.RelayOptions{URL: s.URL, Client: c.client, Scheme: "mqtt", Recipients: recipients, Cards: true})
	if err != nil {
		t.Fatal(err)
	}
	return side
}

// publish puts an event on a relay.
func publish(t *testing.T, c *crossing, s *relaytest.Server, data []byte) {
	t.Helper()
	ev, err := canonical.DecodeEvent(data)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.client.Publish(t.Context(), s.URL, ev); err != nil {
		t.Fatal(err)
	}
}

// cardOf is a card that names a broker.
func cardOf(t *testing.T, secret string) []byte {
	t.Helper()
	public, err := nostr.GetPublicKey(secret)
	if err != nil {
		t.Fatal(err)
	}
	c := card.Card{
		PubKey: public, Name: "default", Alt: "a card", Expires: time.Now().Add(time.Hour).Truncate(time.Second),
		Carriers: []card.Carrier{{Scheme: "mqtt", Address: "mqtts://broker.example:8883/parley/1/in/" + public}},
	}
	ev, err := c.Event(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if err := ev.Sign(secret); err != nil {
		t.Fatal(err)
	}
	data, err := canonical.EncodeEvent(&ev)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// A bridge finds by their cards whose wraps it carries, also those that come while it
// runs, and brings back what the other side hands in.
func TestARelayIsReadForThoseWhoseCardNamesTheOtherSide(t *testing.T) {
	c := newCrossing(t)
	s := at(t, c)
	first, second := nostr.GeneratePrivateKey(), nostr.GeneratePrivateKey()
	publish(t, c, s, cardOf(t, first))
	publish(t, c, s, wrapTo(t, first, 1))
	side, other := c.side(t, s), newPlace()
	run(t, databasetest.Open(t), "pair", "x", side, other)
	eventually(t, "the card and the wrap did not come", func() bool { n, _ := other.counts(); return n == 2 })
	publish(t, c, s, cardOf(t, second))
	eventually(t, "the second card did not come", func() bool { n, _ := other.counts(); return n == 3 })
	public, _ := nostr.GetPublicKey(second)
	eventually(t, "the second address is not known", func() bool {
		address, err := side.Target(t.Context(), public)
		return err == nil && address == "mqtts://broker.example:8883/parley/1/in/"+public
	})
	publish(t, c, s, wrapTo(t, second, 2))
	publish(t, c, s, wrapTo(t, nostr.GeneratePrivateKey(), 3)) // of nobody who names the other side
	eventually(t, "the second wrap did not come", func() bool { n, _ := other.counts(); return n == 4 })

	back := wrapTo(t, first, 4)
	other.put(back)
	eventually(t, "what the other side handed in is not on the relay", func() bool { return stored(t, c, s, back) })
	if _, most := other.counts(); most > 1 {
		t.Errorf("an item was written %d times", most)
	}
}

// Two bridges between the same two relays, and a third around them, carry each wrap at
// most once.
func TestRingsOfRelaysEnd(t *testing.T) {
	a, b, c := newCrossing(t), newCrossing(t), newCrossing(t)
	one, two := at(t, a, b, c), at(t, a, b, c)
	secret := nostr.GeneratePrivateKey()
	public, err := nostr.GetPublicKey(secret)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []*relaytest.Server{one, two} {
		publish(t, a, s, cardOf(t, secret))
	}
	var counters []*counted
	for name, x := range map[string]*crossing{"first": a, "second": b, "third": c} {
		left, right := &counted{Side: x.side(t, one, public), ids: map[string]int{}}, &counted{Side: x.side(t, two, public), ids: map[string]int{}}
		counters = append(counters, left, right)
		run(t, databasetest.Open(t), name, name, left, right)
	}
	for i := range 10 {
		publish(t, a, []*relaytest.Server{one, two}[i%2], wrapTo(t, secret, i))
	}
	eventually(t, "the wraps are not on both relays", func() bool {
		for _, s := range []*relaytest.Server{one, two} {
			events, err := readAs(t, a, s, public)
			if err != nil || len(events) != 10 {
				return false
			}
		}
		return true
	})
	time.Sleep(300 * time.Millisecond) // what goes round would come by now
	for _, side := range counters {
		for id, n := range side.counts() {
			if n > 1 {
				t.Errorf("a bridge wrote %s %d times to one side", id, n)
			}
		}
	}
}

// A frame that a narrow side hands in waits for the others, and the whole event is moved.
func TestFramesAreMovedAsTheEventTheyMake(t *testing.T) {
	a, b := newPlace(), newPlace()
	run(t, databasetest.Open(t), "pair", "x", a, b)
	whole := wrap(t, 1)
	frames, err := carrier.Split(whole, 160, true)
	if err != nil || len(frames) < 2 {
		t.Fatalf("%d frames, %v", len(frames), err)
	}
	hostile := append([]byte(nil), frames[0]...)
	hostile[len(hostile)-1] ^= 1
	a.put(hostile)
	for _, f := range frames {
		a.put(f, f)
	}
	eventually(t, "the event did not come", func() bool { n, _ := b.counts(); return n == 1 })
}
