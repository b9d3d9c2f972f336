package mqttbridge_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	mqtt "github.com/eclipse/paho.mqtt.golang"
	"github.com/google/uuid"
	"github.com/nbd-wtf/go-nostr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/internal/keys"
	"github.com/parleykit/parley/mqttbridge"
	"github.com/parleykit/parley/mqttbridge/mqtttest"
	"github.com/parleykit/parley/protocol/canonical"
	"github.com/parleykit/parley/protocol/card"
)

func TestTwoAgentsTalkOverTheOwnBroker(t *testing.T) {
	broker := mqtttest.StartBroker(t, mqttbridge.BrokerOptions{Dir: t.TempDir()})
	w := newWorld(t)
	alice, bob := w.add(broker.URL), w.add(broker.URL, func(o *mqttbridge.Options) {
		o.Inboxes[0].Dial = broker.Dial // within the process
	})
	befriend(t, alice, bob)
	thread := uuid.Must(uuid.NewV7()).String()
	var want []string
	for i := range 20 {
		want = append(want, alice.send(bob, thread, i+1, "hello"))
	}
	wantAll(t, alice, bob, want)
	var back []string
	for i := range 20 {
		back = append(back, bob.send(alice, thread, i+1, "hello"))
	}
	wantAll(t, bob, alice, back)
}

// What was acknowledged to a publisher is there after the end of the broker, for a
// session that was away.
func TestTheBrokerKeepsWhatItHasAcknowledged(t *testing.T) {
	dir := t.TempDir()
	broker := mqtttest.StartBroker(t, mqttbridge.BrokerOptions{Dir: dir})
	listen := broker.Addr().String()
	bob := newKey(t)
	inbox := mqttbridge.InboxTopic(bob.PublicKey())
	reader := login(t, broker.URL, bob, "reader", nil)
	subscribe(t, reader, inbox, 1)
	reader.Disconnect(100)
	writer := login(t, broker.URL, newKey(t), "writer", func(o *mqtt.ClientOptions) { o.SetCleanSession(true) })
	for i := range 10 {
		if err := publish(writer, inbox, false, fmt.Sprintf(`{"id":"%d"}`, i)); err != nil {
			t.Fatal(err)
		}
	}
	broker.Stop()
	broker = mqtttest.StartBroker(t, mqttbridge.BrokerOptions{Dir: dir, Listen: listen})
	got := make(chan string, 100)
	login(t, broker.URL, bob, "reader", func(o *mqtt.ClientOptions) {
		o.SetDefaultPublishHandler(func(_ mqtt.Client, m mqtt.Message) { got <- string(m.Payload()) })
	})
	seen := map[string]int{}
	for len(seen) < 10 {
		select {
		case text := <-got:
			seen[text]++
		case <-time.After(patience):
			t.Fatalf("%d of 10 messages came", len(seen))
		}
	}
	for text, n := range seen {
		if n != 1 {
			t.Errorf("%s came %d times", text, n)
		}
	}
}

// Each row is one thing a client may not do. What it gets is in
// docs/operate-bridges.md.
func TestTheBrokerRefuses(t *testing.T) {
	registry := prometheus.NewRegistry()
	mallory, bob, bridge := newKey(t), newKey(t), newKey(t)
	stranger := newKey(t).PublicKey()
	broker := mqtttest.StartBroker(t, mqttbridge.BrokerOptions{
		Registerer: registry, Bridges: []mqttbridge.BrokerBridge{{Key: bridge.PublicKey(), Recipients: []string{bob.PublicKey()}}},
		Admit:  func(key string) bool { return key != stranger },
		Limits: mqttbridge.BrokerLimits{SessionsPerKey: 2, Subscriptions: 8},
	})
	reader := login(t, broker.URL, bob, "bob", nil)
	subscribe(t, reader, mqttbridge.InboxTopic(bob.PublicKey()), 1)
	client := func(key *keys.Nostr) mqtt.Client { return login(t, broker.URL, key, "c-"+key.PublicKey()[:8], clean) }
	his := mqttbridge.InboxTopic(bob.PublicKey())

	for _, filter := range []string{
		his, "#", "+/1/in/" + bob.PublicKey(), "parley/1/in/+", "parley/1/in/#", "$SYS/#", "$share/g/" + his, "parley/1/card/+/x/y", "parley/#",
		"parley/1/presence/+", "parley/1/in/" + strings.ToUpper(mallory.PublicKey()), "other",
	} {
		c := client(mallory)
		if granted := subscribe(t, c, filter, 1); granted != 0x80 {
			t.Errorf("%s is granted with QoS %d", filter, granted)
		}
		c.Disconnect(0)
	}
	for topic, payload := range map[string]string{
		"parley/1/in/" + stranger: `{"id":"1"}`,
		"parley/1/in/x":           `{"id":"1"}`,
		"other":                   `{"id":"1"}`,
		"parley/1/card/" + mallory.PublicKey() + "/x": "{}",
		mqttbridge.PresenceTopic(bob.PublicKey()):     "online",
		mqttbridge.PresenceTopic(mallory.PublicKey()): "gone fishing",
		his: "no envelope",
		mqttbridge.InboxTopic(newKey(t).PublicKey()):          `{"id":"1"}`, // nobody has asked for it
		"parley/1/in/" + bob.PublicKey() + "/x":               `{"id":"1"}`,
		"parley/1/card/" + bob.PublicKey() + "/default/extra": "{}",
	} {
		c := client(mallory)
		if err := publish(c, topic, false, payload); err == nil {
			t.Errorf("%s takes %q", topic, payload)
		}
		c.Disconnect(0)
	}
	if err := publish(client(mallory), his, true, `{"id":"1"}`); err == nil {
		t.Error("an envelope is retained")
	}
	if granted := subscribe(t, client(bridge), his, 1); granted != 1 {
		t.Errorf("the bridge may not read an inbox of its recipient: %#x", granted)
	}
	if granted := subscribe(t, client(newKey(t)), "parley/1/card/#", 1); granted != 1 {
		t.Errorf("cards cannot be read: %#x", granted)
	}
	many := client(mallory)
	for i := range 9 {
		granted := subscribe(t, many, mqttbridge.CardTopic(newKey(t).PublicKey(), "x"), 1)
		if want := byte(1); i < 8 && granted != want || i == 8 && granted != 0x80 {
			t.Errorf("subscription %d: %#x", i, granted)
		}
	}
}

func clean(o *mqtt.ClientOptions) { o.SetCleanSession(true) }

func TestTheBrokerAsksForAProofOfTheKey(t *testing.T) {
	broker := mqtttest.StartBroker(t, mqttbridge.BrokerOptions{Limits: mqttbridge.BrokerLimits{SessionsPerKey: 2}})
	alice, mallory := newKey(t), newKey(t)
	good := func() (string, string) {
		return alice.PublicKey(), password(t, alice, broker.URL, "c1", time.Now(), 27235)
	}
	user, used := good()
	if err := try(broker.URL, "c1", func() (string, string) { return user, used }, true); err != nil {
		t.Fatal(err)
	}
	for name, login := range map[string]func() (string, string){
		"nothing":      func() (string, string) { return "", "" },
		"a used event": func() (string, string) { return user, used },
		"another user": func() (string, string) { _, p := good(); return mallory.PublicKey(), p },
		"another client": func() (string, string) {
			return alice.PublicKey(), password(t, alice, broker.URL, "c2", time.Now(), 27235)
		},
		"another broker": func() (string, string) {
			return alice.PublicKey(), password(t, alice, "mqtts://other:8883", "c1", time.Now(), 27235)
		},
		"an old event": func() (string, string) {
			return alice.PublicKey(), password(t, alice, broker.URL, "c1", time.Now().Add(-2*time.Minute), 27235)
		},
		"another kind": func() (string, string) { return alice.PublicKey(), password(t, alice, broker.URL, "c1", time.Now(), 1) },
		"text":         func() (string, string) { return alice.PublicKey(), "secret" },
		"a megabyte":   func() (string, string) { return alice.PublicKey(), strings.Repeat("x", 60_000) },
		"somebody's client": func() (string, string) {
			return mallory.PublicKey(), password(t, mallory, broker.URL, "c1", time.Now(), 27235)
		},
	} {
		if err := try(broker.URL, "c1", login, false); err == nil {
			t.Errorf("%s opens the broker", name)
		}
	}
}

func TestOnlyABridgeWritesCards(t *testing.T) {
	bridge, alice := newKey(t), newKey(t)
	broker := mqtttest.StartBroker(t, mqttbridge.BrokerOptions{Bridges: []mqttbridge.BrokerBridge{{Key: bridge.PublicKey()}}, Dir: t.TempDir()})
	now := time.Now()
	first, second := cardOf(t, alice, now), cardOf(t, alice, now.Add(time.Minute))
	topic := mqttbridge.CardTopic(alice.PublicKey(), card.DefaultName)
	if err := publish(login(t, broker.URL, alice, "alice", clean), topic, true, first); err == nil {
		t.Error("an agent writes its own card past the bridge")
	}
	connect := func() mqtt.Client { return login(t, broker.URL, bridge, "bridge-"+uuid.NewString()[:8], clean) }
	for _, text := range []string{first, second} {
		if err := publish(connect(), topic, true, text); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{
		"an older card": first, "the card of another key": cardOf(t, bridge, now.Add(time.Hour)), "no card": `{"id":"x"}`,
		"a forged card": strings.Replace(second, "Contact", "Forged!", 1),
	} {
		if err := publish(connect(), topic, true, text); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	got := make(chan string, 1)
	reader := login(t, broker.URL, newKey(t), "reader", func(o *mqtt.ClientOptions) {
		clean(o)
		o.SetDefaultPublishHandler(func(_ mqtt.Client, m mqtt.Message) { got <- string(m.Payload()) })
	})
	subscribe(t, reader, "parley/1/card/#", 1)
	select {
	case text := <-got:
		if text != second {
			t.Errorf("the broker keeps another card")
		}
	case <-time.After(patience):
		t.Fatal("no card came")
	}
}

func cardOf(t *testing.T, key *keys.Nostr, at time.Time) string {
	t.Helper()
	c := card.Card{PubKey: key.PublicKey(), Name: card.DefaultName, Alt: "Contact card of a test", Expires: at.Add(24 * time.Hour).Truncate(time.Second)}
	ev, err := c.Event(at)
	if err != nil {
		t.Fatal(err)
	}
	if err := key.Sign(&ev); err != nil {
		t.Fatal(err)
	}
	data, err := canonical.EncodeEvent(&ev)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// password is what a key shows a broker.
func password(t testing.TB, key *keys.Nostr, url, client string, at time.Time, kind int) string {
	t.Helper()
	ev := nostr.Event{Content: uuid.NewString(), Kind: kind, CreatedAt: nostr.Timestamp(at.Unix()), Tags: nostr.Tags{{"u", url}, {"client", client}}}
	if err := key.Sign(&ev); err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(&ev)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func options(url, client string) *mqtt.ClientOptions {
	return mqtt.NewClientOptions().AddBroker("tcp" + strings.TrimPrefix(url, "mqtt")).SetClientID(client).
		SetProtocolVersion(4).SetAutoReconnect(false).SetConnectTimeout(10 * time.Second).SetCleanSession(false).
		SetDefaultPublishHandler(func(mqtt.Client, mqtt.Message) {})
}

func login(t testing.TB, url string, key *keys.Nostr, client string, change func(*mqtt.ClientOptions)) mqtt.Client {
	t.Helper()
	opts := options(url, client).SetUsername(key.PublicKey()).SetPassword(password(t, key, url, client, time.Now(), 27235))
	if change != nil {
		change(opts)
	}
	c := mqtt.NewClient(opts)
	if token := c.Connect(); !token.WaitTimeout(patience) || token.Error() != nil {
		t.Fatalf("logging in: %v", token.Error())
	}
	t.Cleanup(func() { c.Disconnect(0) })
	return c
}

// try logs in and out; a session that is kept stays.
func try(url, client string, login func() (string, string), keep bool) error {
	user, secret := login()
	opts := options(url, client).SetUsername(user).SetPassword(secret).SetCleanSession(!keep)
	c := mqtt.NewClient(opts)
	token := c.Connect()
	if !token.WaitTimeout(patience) {
		return context.DeadlineExceeded
	}
	if token.Error() == nil && !keep {
		defer c.Disconnect(50)
	}
	return token.Error()
}

func subscribe(t testing.TB, c mqtt.Client, filter string, qos byte) byte {
	t.Helper()
	token := c.Subscribe(filter, qos, nil).(*mqtt.SubscribeToken)
	if !token.WaitTimeout(patience) {
		t.Fatal("no SUBACK")
	}
	granted, ok := token.Result()[filter]
	if !ok {
		return 0x80
	}
	return granted
}

// publish waits for the acknowledgement; a broker that wants none of it cuts off.
func publish(c mqtt.Client, topic string, retained bool, text string) error {
	token := c.Publish(topic, 1, retained, text)
	for range 100 {
		if token.WaitTimeout(50 * time.Millisecond) {
			return token.Error()
		}
		if !c.IsConnectionOpen() {
			return carrier.ErrTransient
		}
	}
	return context.DeadlineExceeded
}
