package mqttbridge_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/carrier/bridge"
	"github.com/parleykit/parley/internal/egress"
	"github.com/parleykit/parley/internal/keys"
	"github.com/parleykit/parley/mqttbridge"
	"github.com/parleykit/parley/mqttbridge/mqtttest"
	"github.com/parleykit/parley/protocol/card"
	"github.com/parleykit/parley/protocol/envelope"
)

func newSide(t testing.TB, broker string, key *keys.Nostr, change ...func(*mqttbridge.SideOptions)) *mqttbridge.Side {
	t.Helper()
	opts := mqttbridge.SideOptions{
		Broker: broker, Signer: key, Dialer: egress.New(egress.Options{AllowLoopback: true}),
		Reconnect: carrier.Backoff{Base: 20 * time.Millisecond, Cap: 100 * time.Millisecond},
	}
	for _, c := range change {
		c(&opts)
	}
	side, err := mqttbridge.NewSide(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(side.Close)
	return side
}

// read runs Read until the test ends and returns what it hands on, with its inlet.
func read(t testing.TB, side *mqttbridge.Side, handle func(data []byte) error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := side.Read(ctx, "", func(_ context.Context, data []byte, _ carrier.Cursor) error { return handle(data) }); !errors.Is(err, context.Canceled) {
			t.Errorf("Read = %v", err)
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
}

// An envelope goes to its recipient's inbox as it is, and a card to its own topic,
// where later readers find it.
func TestSide_writesAndReads(t *testing.T) {
	broker := mqtttest.StartMosquitto(t)
	bob := newKey(t)
	agent := receive(t, newCarrier(t, bob, listening(bob, broker.URL)))
	writer := newSide(t, broker.URL, newKey(t))
	wrap, page := seal(t, newKey(t), bob, "hello"), []byte(`{"a":"card"}`)
	var err error
	eventually(t, func() string { // until the agent has subscribed
		if err = writer.Write(t.Context(), bridge.Item{Kind: envelope.KindWrap, Recipient: bob.PublicKey(), Event: wrap}); err != nil {
			t.Fatal(err)
		}
		select {
		case data := <-agent:
			if !bytes.Equal(data, wrap) {
				t.Errorf("%d bytes arrived and differ from the %d written", len(data), len(wrap))
			}
			return ""
		default:
			return "the agent receives nothing"
		}
	})
	for _, data := range [][]byte{[]byte(`{"an":"older one"}`), page} {
		if err := writer.Write(t.Context(), bridge.Item{Kind: card.Kind, PubKey: bob.PublicKey(), D: "default", Event: data}); err != nil {
			t.Fatal(err)
		}
	}
	if err := writer.Write(t.Context(), bridge.Item{Kind: card.Kind, PubKey: bob.PublicKey(), D: "gone"}); err != nil {
		t.Fatal(err)
	}
	got := make(chan []byte, 100)
	read(t, newSide(t, broker.URL, newKey(t), func(o *mqttbridge.SideOptions) { o.Cards = true }), func(data []byte) error { got <- data; return nil })
	if data := <-got; !bytes.Equal(data, page) {
		t.Errorf("the retained card is %q", data)
	}
	if err := writer.Write(t.Context(), bridge.Item{Kind: envelope.KindWrap, Recipient: bob.PublicKey(), Event: wrap}); err != nil {
		t.Fatal(err)
	}
	if data := <-got; !bytes.Equal(data, wrap) {
		t.Errorf("the side reads %.80q from an inbox", data)
	}
}

// What has no place, or no future, is refused for good.
func TestSide_refuses(t *testing.T) {
	now := time.Now()
	key := newKey(t).PublicKey()
	side := newSide(t, "mqtt://127.0.0.1:1", newKey(t), func(o *mqttbridge.SideOptions) { o.Now = func() time.Time { return now } })
	for name, item := range map[string]bridge.Item{
		"another kind":         {Kind: 1, PubKey: key, Recipient: key, D: "default"},
		"no recipient":         {Kind: envelope.KindWrap},
		"a recipient of +":     {Kind: envelope.KindWrap, Recipient: "+"},
		"a recipient too wide": {Kind: envelope.KindWrap, Recipient: key + "/#"},
		"a name of +":          {Kind: card.Kind, PubKey: key, D: "+"},
		"a name of levels":     {Kind: card.Kind, PubKey: key, D: "a/b"},
		"no name":              {Kind: card.Kind, PubKey: key},
		"a long name":          {Kind: card.Kind, PubKey: key, D: strings.Repeat("d", 500)},
		"an expired one":       {Kind: envelope.KindWrap, Recipient: key, Expires: now},
	} {
		if err := side.Write(t.Context(), item); !errors.Is(err, carrier.ErrPermanent) {
			t.Errorf("%s: Write = %v", name, err)
		}
	}
	item := bridge.Item{Kind: envelope.KindWrap, Recipient: key, Expires: now.Add(time.Second)}
	if err := side.Write(t.Context(), item); !errors.Is(err, carrier.ErrTransient) {
		t.Errorf("without a broker: Write = %v", err)
	}
}

func TestNewSide_checksItsOptions(t *testing.T) {
	good := mqttbridge.SideOptions{Broker: "mqtts://broker.example", Signer: newKey(t), Dialer: egress.New(egress.Options{})}
	for name, change := range map[string]func(*mqttbridge.SideOptions){
		"no signer":        func(o *mqttbridge.SideOptions) { o.Signer = nil },
		"no dialer":        func(o *mqttbridge.SideOptions) { o.Dialer = nil },
		"a topic":          func(o *mqttbridge.SideOptions) { o.Broker += "/topic" },
		"a wild recipient": func(o *mqttbridge.SideOptions) { o.Recipients = []string{"#"} },
	} {
		opts := good
		change(&opts)
		if _, err := mqttbridge.NewSide(opts); err == nil {
			t.Errorf("%s: it is taken", name)
		}
	}
	if _, err := mqttbridge.NewSide(good); err != nil {
		t.Error(err)
	}
}

// The messages of a topic come in their order, also those that could not be stored at
// first: they come again, with all that followed.
func TestSide_keepsTheOrderOfATopic(t *testing.T) {
	broker := mqtttest.StartMosquitto(t)
	bob := newKey(t)
	side := newSide(t, broker.URL, newKey(t), func(o *mqttbridge.SideOptions) { o.Recipients = []string{bob.PublicKey()} })
	var mu sync.Mutex
	var got []string
	failures := 0
	ready := make(chan struct{}, 1000)
	read(t, side, func(data []byte) error {
		mu.Lock()
		defer mu.Unlock()
		if string(data) == "ready" {
			ready <- struct{}{}
			return nil
		}
		if string(data) == "50" && failures < 2 {
			failures++
			return errors.New("disk full")
		}
		if !slices.Contains(got, string(data)) {
			got = append(got, string(data))
		}
		return nil
	})
	c := newCarrier(t, newKey(t))
	send := func(text string) {
		t.Helper()
		if err := c.Send(t.Context(), inboxAt(broker.URL, bob), []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, func() string {
		send("ready")
		select {
		case <-ready:
			return ""
		default:
			return "the side does not read"
		}
	})
	var want []string
	for i := range 100 {
		want = append(want, fmt.Sprint(i))
		send(want[i])
	}
	eventually(t, func() string {
		mu.Lock()
		defer mu.Unlock()
		if len(got) < len(want) {
			return fmt.Sprintf("%d of %d messages came", len(got), len(want))
		}
		return ""
	})
	if !slices.Equal(got, want) || failures != 2 {
		t.Errorf("after %d failures the order is %v", failures, got)
	}
}

// At the broker of this package a bridge logs in with its own key, reads the inboxes it
// may read and writes cards.
func TestSide_ofTheOwnBroker(t *testing.T) {
	bob, key := newKey(t), newKey(t)
	broker := mqtttest.StartBroker(t, mqttbridge.BrokerOptions{
		Bridges: []mqttbridge.BrokerBridge{{Key: key.PublicKey(), Recipients: []string{bob.PublicKey()}}},
	})
	side := newSide(t, broker.URL, key, func(o *mqttbridge.SideOptions) { o.Recipients, o.Cards = []string{bob.PublicKey()}, true })
	got := make(chan []byte, 100)
	read(t, side, func(data []byte) error { got <- data; return nil })
	page := []byte(cardOf(t, bob, time.Now()))
	if err := side.Write(t.Context(), bridge.Item{Kind: card.Kind, PubKey: bob.PublicKey(), D: card.DefaultName, Event: page}); err != nil {
		t.Fatal(err)
	}
	if data := <-got; !bytes.Equal(data, page) {
		t.Errorf("the card is %.80q", data)
	}
	wrap := seal(t, newKey(t), bob, "hello")
	c := newCarrier(t, newKey(t))
	eventually(t, func() string { // until the side has subscribed
		if err := c.Send(t.Context(), inboxAt(broker.URL, bob), wrap); err != nil {
			return err.Error()
		}
		return ""
	})
	if data := <-got; !bytes.Equal(data, wrap) {
		t.Errorf("the envelope is %.80q", data)
	}
}
