package mqttbridge_test

import (
	"bytes"
	"context"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/internal/egress"
	"github.com/parleykit/parley/internal/networktest"
	"github.com/parleykit/parley/mqttbridge"
	"github.com/parleykit/parley/mqttbridge/mqtttest"
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

// Another client sees on the topic exactly the bytes that were sealed.
func TestTheBytesOnTheTopicAreTheWrap(t *testing.T) {
	broker := mqtttest.StartMosquitto(t)
	oracle, err := exec.LookPath("mosquitto_sub")
	if err != nil {
		t.Skip("mosquitto_sub is not installed (Debian package mosquitto-clients)")
	}
	bob := newKey(t)
	topic := mqttbridge.InboxTopic(bob.PublicKey())
	_, port, _ := strings.Cut(broker.Addr, ":")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var out bytes.Buffer
	sub := exec.CommandContext(ctx, oracle, "-h", "127.0.0.1", "-p", port, "-q", "1", "-C", "1", "-t", topic, "-N")
	sub.Stdout = &out
	if err := sub.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() string {
		if strings.Contains(broker.Log(), "SUBSCRIBE") || strings.Contains(broker.Log(), "connected") {
			return ""
		}
		return "mosquitto_sub has not connected"
	})
	time.Sleep(200 * time.Millisecond) // its SUBSCRIBE follows its CONNECT
	alice := newKey(t)
	c, err := mqttbridge.New(mqttbridge.Options{Signer: alice, Dialer: egress.New(egress.Options{AllowLoopback: true})})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	m, err := message.New(message.TypeText, alice.PublicKey(), bob.PublicKey(), message.Text{Text: strings.Repeat("x", 10_000)}, time.Now(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	wraps, err := envelope.Seal(m, alice, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Send(ctx, carrier.Address{Scheme: "mqtt", Address: broker.URL + "/" + topic}, wraps[0].Bytes); err != nil {
		t.Fatal(err)
	}
	if err := sub.Wait(); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(out.Bytes(), wraps[0].Bytes) {
		t.Errorf("%d bytes on the topic differ from the %d sealed", out.Len(), len(wraps[0].Bytes))
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
