package mqttbridge_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nbd-wtf/go-nostr"

	"github.com/parleykit/parley/internal/keys"
	"github.com/parleykit/parley/internal/networktest"
	"github.com/parleykit/parley/mqttbridge"
	"github.com/parleykit/parley/mqttbridge/mqtttest"
	"github.com/parleykit/parley/protocol/canonical"
	"github.com/parleykit/parley/protocol/envelope"
	"github.com/parleykit/parley/protocol/message"
)

func TestTwoAgentsTalkOverMosquitto(t *testing.T) {
	broker := mqtttest.StartMosquitto(t)
	w := newWorld(t)
	alice, bob := w.add(broker.URL), w.add(broker.URL)
	befriend(t, alice, bob)
	thread := uuid.Must(uuid.NewV7()).String()
	var want []string
	for i, text := range []string{"hello", strings.Repeat("a long one ", 300), "bye"} {
		want = append(want, alice.send(bob, thread, i+1, text))
	}
	wantAll(t, alice, bob, want)
}

// Another client sees on the topic exactly the bytes that were sealed, up to the
// largest wrap, and the carrier reads the same.
func TestTheBytesOnTheTopicAreTheWrap(t *testing.T) {
	oracle, err := exec.LookPath("mosquitto_sub")
	if err != nil {
		t.Skip("mosquitto_sub is not installed (Debian package mosquitto-clients)")
	}
	broker := mqtttest.StartMosquitto(t, "log_type all")
	alice, bob := newKey(t), newKey(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var out bytes.Buffer
	host, port, _ := strings.Cut(broker.Addr, ":")
	sub := exec.CommandContext(ctx, oracle, "-h", host, "-p", port, "-q", "1", "-C", "2", "-t", mqttbridge.InboxTopic(bob.PublicKey()), "-F", "%j")
	sub.Stdout = &out
	if err := sub.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() string {
		if strings.Contains(broker.Log(), "Sending SUBACK") {
			return ""
		}
		return "mosquitto_sub has not subscribed"
	})
	got := receive(t, newCarrier(t, bob, listening(bob, broker.URL)))
	eventually(t, func() string {
		if strings.Count(broker.Log(), "Sending SUBACK") >= 2 {
			return ""
		}
		return "the carrier has not subscribed"
	})
	c := newCarrier(t, alice)
	want := [][]byte{seal(t, alice, bob, strings.Repeat("x", 10_000)), wrapOfSize(t, alice, bob, 64<<10)}
	for _, wrap := range want {
		if err := c.Send(ctx, inboxAt(broker.URL, bob), wrap); err != nil {
			t.Fatal(err)
		}
		select {
		case data := <-got:
			if !bytes.Equal(data, wrap) {
				t.Errorf("%d bytes were handed on and differ from the %d sent", len(data), len(wrap))
			}
		case <-ctx.Done():
			t.Fatal("the wrap was not handed on")
		}
	}
	if err := sub.Wait(); err != nil {
		t.Fatal(err)
	}
	lines := json.NewDecoder(&out)
	for i, wrap := range want {
		var seen struct {
			Payload string
			QoS     int
			Retain  int
		}
		if err := lines.Decode(&seen); err != nil {
			t.Fatal(err)
		}
		if seen.Payload != string(wrap) || seen.QoS != 1 || seen.Retain != 0 {
			t.Errorf("wrap %d: %d bytes on the topic, QoS %d, retain %d; %d were sent", i, len(seen.Payload), seen.QoS, seen.Retain, len(wrap))
		}
	}
}

// seal makes the one wrap of a text.
func seal(t testing.TB, from, to *keys.Nostr, text string) []byte {
	t.Helper()
	m, err := message.New(message.TypeText, from.PublicKey(), to.PublicKey(), message.Text{Text: text}, time.Now(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	wraps, err := envelope.Seal(m, from, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return wraps[0].Bytes
}

// wrapOfSize is an event of exactly so many bytes that looks like a wrap.
func wrapOfSize(t testing.TB, from, to *keys.Nostr, size int) []byte {
	t.Helper()
	ev := nostr.Event{Kind: envelope.KindWrap, CreatedAt: nostr.Now(), Tags: nostr.Tags{{"p", to.PublicKey()}}}
	for {
		if err := from.Sign(&ev); err != nil {
			t.Fatal(err)
		}
		data, err := canonical.EncodeEvent(&ev)
		if err != nil {
			t.Fatal(err)
		}
		if len(data) == size {
			return data
		}
		ev.Content = strings.Repeat("A", len(ev.Content)+size-len(data))
	}
}

// Whatever happens to the connections, nothing is lost, nothing is handled twice,
// and a thread keeps its order.
func TestFaultsBetweenAgentAndBrokerLoseNothing(t *testing.T) {
	broker := mqtttest.StartMosquitto(t, "max_queued_messages 0")
	for _, point := range networktest.Points() {
		t.Run(point.String(), func(t *testing.T) {
			proxy := networktest.NewProxy(t, broker.Addr)
			w := newWorld(t)
			quick := func(o *mqttbridge.Options) { o.KeepAlive, o.ConnectTimeout = time.Second, 2*time.Second }
			alice, bob := w.add("mqtt://"+proxy.Addr(), quick), w.add("mqtt://"+proxy.Addr(), quick)
			befriend(t, alice, bob)
			thread := uuid.Must(uuid.NewV7()).String()
			var want []string
			say := func(n int) {
				for range n {
					want = append(want, alice.send(bob, thread, len(want)+1, "hello"))
				}
			}
			say(1 + point.Rand.IntN(5))
			time.Sleep(time.Duration(point.Rand.IntN(50)) * time.Millisecond)
			point.Fault.Begin(proxy)
			say(1 + point.Rand.IntN(5))
			time.Sleep(time.Duration(point.Rand.IntN(300)) * time.Millisecond)
			proxy.Heal()
			say(1 + point.Rand.IntN(5))
			wantAll(t, alice, bob, want)
		})
	}
}

func TestABrokerThatIsKilledLosesNothing(t *testing.T) {
	for name, lines := range map[string][]string{"in memory": nil, "with persistence": mqtttest.Persistent(t.TempDir())} {
		t.Run(name, func(t *testing.T) {
			broker := mqtttest.StartMosquitto(t, append([]string{"max_queued_messages 0"}, lines...)...)
			w := newWorld(t)
			alice, bob := w.add(broker.URL), w.add(broker.URL)
			befriend(t, alice, bob)
			thread := uuid.Must(uuid.NewV7()).String()
			var want []string
			for round := range 5 {
				for range 10 {
					want = append(want, alice.send(bob, thread, len(want)+1, "hello"))
				}
				if round < 4 {
					time.Sleep(30 * time.Millisecond)
					broker.Restart(t)
				}
			}
			wantHandled(t, bob, want)
		})
	}
}
