package mqttbridge_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	mqtt "github.com/eclipse/paho.mqtt.golang"
	"github.com/google/uuid"

	"github.com/parleykit/parley/mqttbridge"
	"github.com/parleykit/parley/mqttbridge/mqtttest"
)

// deployed are the lines of the configuration that is shipped, but for listeners and
// logs, with paths of a test.
func deployed(t *testing.T, accounts map[string]string) []string {
	t.Helper()
	tool, err := exec.LookPath("mosquitto_passwd")
	if err != nil {
		t.Skip("mosquitto_passwd is not installed (Debian package mosquitto)")
	}
	dir := t.TempDir()
	passwords := filepath.Join(dir, "passwords")
	if err := os.WriteFile(passwords, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, word := range accounts {
		if out, err := exec.Command(tool, "-b", passwords, name, word).CombinedOutput(); err != nil {
			t.Fatalf("mosquitto_passwd: %v: %s", err, out)
		}
	}
	acl, err := filepath.Abs("../deploy/mosquitto/acl")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../deploy/mosquitto/mosquitto.conf")
	if err != nil {
		t.Fatal(err)
	}
	paths := strings.NewReplacer("/etc/mosquitto/acl", acl, "/etc/mosquitto/passwords", passwords, "/var/lib/mosquitto/", dir+"/")
	var lines []string
	for line := range strings.Lines(string(text)) {
		key, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch key {
		case "", "#", "listener", "cafile", "certfile", "keyfile", "tls_version", "log_type":
		default:
			lines = append(lines, strings.TrimSpace(paths.Replace(line)))
		}
	}
	return lines
}

func TestTheDeployedBrokerLetsEverybodyWriteAndOwnersRead(t *testing.T) {
	alice, bob, mallory := newKey(t), newKey(t), newKey(t)
	broker := mqtttest.StartMosquitto(t, deployed(t, map[string]string{alice.PublicKey(): "a", bob.PublicKey(): "b", mallory.PublicKey(): "m"})...)
	his := mqttbridge.InboxTopic(bob.PublicKey())
	inbox, spied := make(chan string, 10), make(chan string, 10)
	listen := func(name, word string, into chan string) mqtt.Client {
		opts := options(broker.URL, uuid.NewString()[:20]).SetUsername(name).SetPassword(word).SetCleanSession(true).
			SetDefaultPublishHandler(func(_ mqtt.Client, m mqtt.Message) { into <- string(m.Payload()) })
		c := mqtt.NewClient(opts)
		if token := c.Connect(); !token.WaitTimeout(patience) || token.Error() != nil {
			t.Fatalf("logging in: %v\n%s", token.Error(), broker.Log())
		}
		t.Cleanup(func() { c.Disconnect(0) })
		subscribe(t, c, his, 1)
		return c
	}
	listen(bob.PublicKey(), "b", inbox)
	listen(mallory.PublicKey(), "m", spied)
	listen("", "", spied)
	w := newWorld(t)
	sender := w.add(broker.URL, func(o *mqttbridge.Options) { // nobody here knows its throw-away key: it writes without an account
		o.Inboxes, o.Signer = nil, alice
	})
	if err := sender.carrier.Send(t.Context(), inboxAt(broker.URL, bob), []byte(`{"id":"1"}`)); err != nil {
		t.Fatal(err)
	}
	select {
	case text := <-inbox:
		if text != `{"id":"1"}` {
			t.Errorf("the owner reads %q", text)
		}
	case <-time.After(patience):
		t.Fatalf("the owner reads nothing\n%s", broker.Log())
	}
	select {
	case text := <-spied:
		t.Errorf("others read %q", text)
	case <-time.After(300 * time.Millisecond):
	}
}
