package mqttbridge_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	mqtt "github.com/eclipse/paho.mqtt.golang"

	"github.com/parleykit/parley/mqttbridge"
	"github.com/parleykit/parley/mqttbridge/mqtttest"
)

// python reads its inbox and writes to another, as somebody else's client would.
const python = `
import os, sys, paho.mqtt.client as mqtt
c = mqtt.Client(client_id="python", clean_session=False)
c.username_pw_set(os.environ["USER_NAME"], os.environ["SECRET"])
def connected(c, userdata, flags, code):
    if code != 0: print("refused", code, flush=True); os._exit(1)
    c.subscribe(os.environ["INBOX"], 1)
def subscribed(c, userdata, mid, granted): print("granted", granted[0], flush=True)
def got(c, userdata, m):
    print("got", m.payload.decode(), flush=True)
    c.publish(os.environ["OUTBOX"], '{"id":"from python"}', 1)
def published(c, userdata, mid): print("acknowledged", flush=True); c.disconnect()
c.on_connect, c.on_subscribe, c.on_message, c.on_publish = connected, subscribed, got, published
c.connect("127.0.0.1", int(os.environ["PORT"]))
c.loop_forever()
`

// Another client than ours reads and writes at the own broker.
func TestAPythonClientUsesTheOwnBroker(t *testing.T) {
	const interpreter = "/usr/bin/python3"
	if err := exec.Command(interpreter, "-c", "import paho.mqtt").Run(); err != nil {
		t.Skip("python3-paho-mqtt is not installed")
	}
	broker := mqtttest.StartBroker(t, mqttbridge.BrokerOptions{Dir: t.TempDir()})
	snake, bob := newKey(t), newKey(t)
	back := make(chan string, 1)
	reader := login(t, broker.URL, bob, "bob", func(o *mqtt.ClientOptions) {
		o.SetDefaultPublishHandler(func(_ mqtt.Client, m mqtt.Message) { back <- string(m.Payload()) })
	})
	subscribe(t, reader, mqttbridge.InboxTopic(bob.PublicKey()), 1)

	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var out syncBuffer
	_, port, _ := strings.Cut(broker.Addr().String(), ":")
	cmd := exec.CommandContext(ctx, interpreter, "-c", python)
	cmd.Env = append(os.Environ(), "PORT="+port, "USER_NAME="+snake.PublicKey(), "SECRET="+password(t, snake, broker.URL, "python", time.Now(), 27235),
		"INBOX="+mqttbridge.InboxTopic(snake.PublicKey()), "OUTBOX="+mqttbridge.InboxTopic(bob.PublicKey()))
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() string {
		if strings.Contains(out.String(), "granted 1") {
			return ""
		}
		return "the client has not subscribed: " + out.String()
	})
	writer := login(t, broker.URL, bob, "writer", clean)
	if err := publish(writer, mqttbridge.InboxTopic(snake.PublicKey()), false, `{"id":"from go"}`); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v: %s", err, out.String())
	}
	for _, want := range []string{`got {"id":"from go"}`, "acknowledged"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the client did not say %q: %s", want, out.String())
		}
	}
	select {
	case text := <-back:
		if text != `{"id":"from python"}` {
			t.Errorf("it wrote %q", text)
		}
	case <-time.After(patience):
		t.Fatal("what it wrote did not come")
	}
}

// mosquitto_pub writes to the own broker and mosquitto_sub reads from it.
func TestMosquittosClientsUseTheOwnBroker(t *testing.T) {
	pub, err := exec.LookPath("mosquitto_pub")
	if err != nil {
		t.Skip("mosquitto_pub is not installed (Debian package mosquitto-clients)")
	}
	broker := mqtttest.StartBroker(t, mqttbridge.BrokerOptions{})
	bob, other := newKey(t), newKey(t)
	inbox := mqttbridge.InboxTopic(bob.PublicKey())
	reader := login(t, broker.URL, bob, "bob", nil)
	subscribe(t, reader, inbox, 1)
	reader.Disconnect(50)
	_, port, _ := strings.Cut(broker.Addr().String(), ":")
	as := func(ctx context.Context, tool, client string, key interface{ PublicKey() string }, secret string, more ...string) *exec.Cmd {
		return exec.CommandContext(ctx, tool, append([]string{"-h", "127.0.0.1", "-p", port, "-i", client, "-u", key.PublicKey(), "-P", secret, "-t", inbox, "-q", "1"}, more...)...)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	out, err := as(ctx, pub, "pub", other, password(t, other, broker.URL, "pub", time.Now(), 27235), "-m", `{"id":"from mosquitto"}`).CombinedOutput()
	if err != nil {
		t.Fatalf("mosquitto_pub: %v: %s", err, out)
	}
	text, err := as(ctx, strings.Replace(pub, "_pub", "_sub", 1), "bob", bob, password(t, bob, broker.URL, "bob", time.Now(), 27235), "-c", "-C", "1").CombinedOutput()
	if err != nil || !bytes.Contains(text, []byte(`{"id":"from mosquitto"}`)) {
		t.Errorf("mosquitto_sub: %v: %s", err, text)
	}
}
