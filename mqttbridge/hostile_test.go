package mqttbridge_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	mqtt "github.com/eclipse/paho.mqtt.golang"
	"github.com/eclipse/paho.mqtt.golang/packets"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/internal/egress"
	"github.com/parleykit/parley/internal/keys"
	"github.com/parleykit/parley/mqttbridge"
	"github.com/parleykit/parley/mqttbridge/mqtttest"
	"github.com/parleykit/parley/protocol/httpauth"
)

func newCarrier(t testing.TB, key *keys.Nostr, change ...func(*mqttbridge.Options)) *mqttbridge.Carrier {
	t.Helper()
	opts := mqttbridge.Options{
		Signer: key, Dialer: egress.New(egress.Options{AllowLoopback: true}),
		Reconnect: carrier.Backoff{Base: 20 * time.Millisecond, Cap: 500 * time.Millisecond},
	}
	for _, c := range change {
		c(&opts)
	}
	c, err := mqttbridge.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// listening is the change of Options that reads the key's inbox at a broker.
func listening(key *keys.Nostr, broker string) func(*mqttbridge.Options) {
	return func(o *mqttbridge.Options) {
		o.Inboxes = append(o.Inboxes, mqttbridge.Inbox{Address: broker + "/" + mqttbridge.InboxTopic(key.PublicKey())})
	}
}

func inboxAt(broker string, key *keys.Nostr) carrier.Address {
	return carrier.Address{Scheme: mqttbridge.Scheme, Address: broker + "/" + mqttbridge.InboxTopic(key.PublicKey())}
}

// receive runs Receive until the test ends and returns what it hands on.
func receive(t testing.TB, c *mqttbridge.Carrier) <-chan []byte {
	got := make(chan []byte, 1000)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = c.Receive(ctx, "", func(_ context.Context, data []byte, _ carrier.Cursor) error { got <- data; return nil })
	}()
	t.Cleanup(func() { cancel(); <-done })
	return got
}

// A broker that reads everything and acknowledges nothing costs its senders their
// time-out and no more than a window of memory.
func TestABrokerThatNeverAcknowledgesIsTransient(t *testing.T) {
	const window = 7
	broker := startFake(t, func(b *fakeBroker) { b.deaf = true })
	c := newCarrier(t, newKey(t), func(o *mqttbridge.Options) { o.Window = window })
	var group sync.WaitGroup
	for range 50 {
		group.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			defer cancel()
			if err := c.Send(ctx, inboxAt(broker.URL, newKey(t)), []byte("{}")); !errors.Is(err, carrier.ErrTransient) {
				t.Errorf("Send = %v", err)
			}
		})
	}
	group.Wait()
	broker.wantClosed(t)
	if broker.most != window {
		t.Errorf("%d publishes were outstanding at a time, want %d", broker.most, window)
	}
}

func TestSend_refusesWhatNobodyReads(t *testing.T) {
	broker := startFake(t, func(*fakeBroker) {})
	c, key := newCarrier(t, newKey(t)), newKey(t)
	if err := c.Send(t.Context(), inboxAt(broker.URL, key), make([]byte, mqttbridge.MaxPayload)); err != nil {
		t.Errorf("the largest: Send = %v", err)
	}
	if err := c.Send(t.Context(), inboxAt(broker.URL, key), make([]byte, mqttbridge.MaxPayload+1)); !errors.Is(err, carrier.ErrPermanent) {
		t.Errorf("one byte more: Send = %v", err)
	}
	for _, topic := range []string{"#", "a/+", "$SYS/a", "%24share/g/a", "a%00", ""} {
		if err := c.Send(t.Context(), carrier.Address{Scheme: mqttbridge.Scheme, Address: broker.URL + "/" + topic}, []byte("{}")); !errors.Is(err, carrier.ErrPermanent) {
			t.Errorf("topic %q: Send = %v", topic, err)
		}
	}
}

// A broker that does not even read holds nobody longer than the sender's time-out.
func TestABrokerThatReadsNothingIsTransient(t *testing.T) {
	broker := startFake(t, func(b *fakeBroker) { b.stuck = true })
	key := newKey(t)
	c := newCarrier(t, key, func(o *mqttbridge.Options) { o.Window = 100 })
	wrap := wrapOfSize(t, key, key, 64<<10)
	done := make(chan struct{})
	go func() {
		defer close(done)
		var group sync.WaitGroup
		for range 200 {
			group.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if err := c.Send(ctx, inboxAt(broker.URL, key), wrap); !errors.Is(err, carrier.ErrTransient) {
					t.Errorf("Send = %v", err)
				}
			})
		}
		group.Wait()
	}()
	select {
	case <-done:
	case <-time.After(10 * time.Second): // the library would wait for 15
		t.Error("the senders are held up")
	}
	<-done
}

func TestABrokerThatDoesNotAnswerTheConnect(t *testing.T) {
	broker := startFake(t, func(b *fakeBroker) { b.silent = true })
	c := newCarrier(t, newKey(t), func(o *mqttbridge.Options) { o.ConnectTimeout = 200 * time.Millisecond })
	if err := c.Send(t.Context(), inboxAt(broker.URL, newKey(t)), []byte("{}")); !errors.Is(err, carrier.ErrTransient) {
		t.Errorf("Send = %v", err)
	}
	broker.wantClosed(t)
}

// Neither passwords nor login events get into errors or logs, and a refusal is
// permanent. The sender of a login by key is nobody the broker can know.
func TestRefusedLoginsTellNoSecret(t *testing.T) {
	broker := startFake(t, func(b *fakeBroker) { b.code = packets.ErrRefusedNotAuthorised })
	const secret = "correct-horse"
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var log syncBuffer
	key := newKey(t)
	for name, credential := range map[string]mqttbridge.Credential{"key": {}, "password": {Username: "u", PasswordFile: file}} {
		c := newCarrier(t, key, listening(key, broker.URL), func(o *mqttbridge.Options) {
			o.Inboxes[0].Credential = credential
			o.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		})
		err := c.Send(t.Context(), inboxAt(broker.URL, key), []byte("{}"))
		if !errors.Is(err, carrier.ErrPermanent) {
			t.Errorf("%s: Send = %v", name, err)
		}
		fmt.Fprintln(&log, err, c.Poll(t.Context(), "", nil))
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		_ = c.Receive(ctx, "", nil)
		cancel()
	}
	text := log.String()
	if !strings.Contains(text, "refuses the login") {
		t.Errorf("the log does not say why: %s", text)
	}
	broker.mu.Lock()
	defer broker.mu.Unlock()
	for _, connect := range broker.connects {
		if password := string(connect.Password); password != "" && strings.Contains(text, password) {
			t.Errorf("the log holds the password %.20s…", password)
		}
		var event struct{ ID, Sig string }
		if json.Unmarshal(connect.Password, &event) == nil && (strings.Contains(text, event.ID) || strings.Contains(text, event.Sig)) {
			t.Error("the log holds a part of the login event")
		}
	}
	if strings.Contains(text, secret) {
		t.Error("the log holds the password")
	}
}

// Who listens logs in with the agent's key, who sends with one of its own for each
// connection; each event holds for its broker and client id alone.
func TestLoginByKey(t *testing.T) {
	broker := startFake(t, func(*fakeBroker) {})
	key := newKey(t)
	for range 2 {
		c := newCarrier(t, key)
		if err := c.Send(t.Context(), inboxAt(broker.URL, newKey(t)), []byte("{}")); err != nil {
			t.Fatal(err)
		}
		c.Close()
	}
	if err := newCarrier(t, key, listening(key, broker.URL)).Poll(t.Context(), "", nil); err != nil {
		t.Fatal(err)
	}
	broker.mu.Lock()
	defer broker.mu.Unlock()
	verifier := httpauth.NewVerifier(time.Now)
	seen := map[string]bool{}
	for i, connect := range broker.connects {
		pubkey, err := verifier.VerifyEvent(connect.Password, map[string][]string{"u": {broker.URL}, "client": {connect.ClientIdentifier}})
		if err != nil || pubkey != connect.Username {
			t.Errorf("login %d: %q as %q, %v", i, pubkey, connect.Username, err)
		}
		if sends := i < 2; sends == (pubkey == key.PublicKey()) || sends != connect.CleanSession || seen[pubkey] {
			t.Errorf("login %d is with key %s, clean session %v", i, pubkey, connect.CleanSession)
		}
		seen[pubkey] = true
		if len(connect.ClientIdentifier) > 23 {
			t.Errorf("client id %q is longer than every broker takes", connect.ClientIdentifier)
		}
	}
	if len(broker.connects) != 3 {
		t.Errorf("%d logins, want 3", len(broker.connects))
	}
}

func TestASubscriptionThatIsDeniedIsPermanent(t *testing.T) {
	broker := startFake(t, func(b *fakeBroker) { b.granted = 0x80 })
	key := newKey(t)
	c := newCarrier(t, key, listening(key, broker.URL))
	if err := c.Poll(t.Context(), "", nil); !errors.Is(err, carrier.ErrPermanent) {
		t.Errorf("Poll = %v", err)
	}
}

// Whatever lies on the topic, also for good, is handed on or acknowledged unseen; what
// follows arrives.
func TestHostileMessagesOnTheInbox(t *testing.T) {
	broker := mqtttest.StartMosquitto(t)
	key := newKey(t)
	topic := mqttbridge.InboxTopic(key.PublicKey())
	mallory := mqtt.NewClient(mqtt.NewClientOptions().AddBroker(strings.Replace(broker.URL, "mqtt", "tcp", 1)).SetClientID("mallory"))
	if token := mallory.Connect(); !token.WaitTimeout(patience) || token.Error() != nil {
		t.Fatal(token.Error())
	}
	defer mallory.Disconnect(0)
	put := func(retained bool, payload []byte) {
		t.Helper()
		if token := mallory.Publish(topic, 1, retained, payload); !token.WaitTimeout(patience) || token.Error() != nil {
			t.Fatal(token.Error())
		}
	}
	registry := prometheus.NewRegistry()
	put(true, bytes.Repeat([]byte("r"), 3<<20)) // comes again with each subscription
	got := receive(t, newCarrier(t, key, listening(key, broker.URL), func(o *mqttbridge.Options) { o.Registerer = registry }))
	eventually(t, func() string {
		if n := counter(t, registry, "parley_mqtt_received_total", "too_large"); n != 1 {
			return fmt.Sprintf("%v messages were too large, want 1", n)
		}
		return ""
	})
	want := [][]byte{
		[]byte("not an envelope"), {0}, {0xff, 0xfe}, []byte(`{"id":"`), bytes.Repeat([]byte("x"), mqttbridge.MaxPayload), []byte("the last"),
	}
	put(false, bytes.Repeat([]byte("h"), 20<<20))
	put(false, bytes.Repeat([]byte("h"), mqttbridge.MaxPayload+1))
	for _, payload := range want {
		put(false, payload)
	}
	for range want {
		select {
		case data := <-got:
			if !slices.ContainsFunc(want, func(w []byte) bool { return bytes.Equal(w, data) }) {
				t.Errorf("%d bytes %.20q were handed on", len(data), data)
			}
		case <-time.After(patience):
			t.Fatal("what followed does not arrive")
		}
	}
	if n := counter(t, registry, "parley_mqtt_received_total", "too_large"); n != 3 {
		t.Errorf("%v messages were too large, want 3", n)
	}
	if n := counter(t, registry, "parley_mqtt_dials_total", "ok"); n != 1 {
		t.Errorf("%v connections, want 1", n)
	}
}

// A broker announces packets that nobody can hold. What may be an envelope is waited
// for without making room for it, anything else ends the connection.
func TestABrokerWithEndlessPackets(t *testing.T) {
	for name, first := range map[string]byte{"PUBLISH": 0x32, "SUBACK": 0x90} {
		broker := startFake(t, func(b *fakeBroker) {
			b.greeting = append(binary.AppendUvarint([]byte{first}, 1<<28-1), bytes.Repeat([]byte{0, 1, 'a'}, 100)...)
		})
		key := newKey(t)
		c := newCarrier(t, key, listening(key, broker.URL), func(o *mqttbridge.Options) { o.KeepAlive = time.Second })
		if err := c.Poll(t.Context(), "", func(context.Context, []byte, carrier.Cursor) error {
			t.Errorf("%s: a message was handed on", name)
			return nil
		}); first == 0x90 != errors.Is(err, carrier.ErrTransient) {
			t.Errorf("%s: Poll = %v", name, err)
		}
		broker.wantClosed(t)
	}
}

// Acknowledgements go out in the order of arrival, whatever is handled first (MQTT
// 3.1.1, section 4.6).
func TestAcknowledgementsKeepTheOrder(t *testing.T) {
	var greeting bytes.Buffer
	const n = 10
	for i := range n {
		p := packets.NewControlPacket(packets.Publish).(*packets.PublishPacket)
		p.Qos, p.TopicName, p.MessageID, p.Payload = 1, "a", uint16(i+1), []byte{byte(i)}
		_ = p.Write(&greeting)
	}
	broker := startFake(t, func(b *fakeBroker) { b.greeting = greeting.Bytes() })
	key := newKey(t)
	c := newCarrier(t, key, listening(key, broker.URL))
	var later sync.WaitGroup
	later.Add(n - 1)
	handle := func(_ context.Context, data []byte, _ carrier.Cursor) error {
		if data[0] == 0 {
			later.Wait() // the first is ready last
		} else {
			later.Done()
		}
		return nil
	}
	if err := c.Poll(t.Context(), "", handle); err != nil {
		t.Fatal(err)
	}
	broker.mu.Lock()
	defer broker.mu.Unlock()
	if !slices.IsSorted(broker.acks) || len(broker.acks) != n {
		t.Errorf("acknowledged in the order %v", broker.acks)
	}
}

// syncBuffer is a buffer for several writers.
type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// counter sums a metric over the series that have the label value.
func counter(t testing.TB, registry *prometheus.Registry, name, value string) (sum float64) {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			matches := value == ""
			for _, label := range metric.GetLabel() {
				matches = matches || label.GetValue() == value
			}
			if family.GetName() == name && matches {
				sum += metric.GetCounter().GetValue()
			}
		}
	}
	return sum
}
