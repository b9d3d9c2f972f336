package mqttbridge_test

import (
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	mqtt "github.com/eclipse/paho.mqtt.golang"

	"github.com/parleykit/parley/internal/crashtest"
	"github.com/parleykit/parley/mqttbridge"
	"github.com/parleykit/parley/mqttbridge/mqtttest"
)

// TestBrokerChild is a broker that is killed.
func TestBrokerChild(t *testing.T) {
	parent := crashtest.Begin(t)
	mqtttest.StartBroker(t, mqttbridge.BrokerOptions{Listen: parent.Args[0], Dir: parent.Args[1]})
	parent.Say("up")
	parent.Wait()
}

// The broker is killed with SIGKILL at random moments of a publisher's traffic to a
// session that is away; what it had acknowledged is all there.
func TestAKilledBrokerKeepsWhatItHasAcknowledged(t *testing.T) {
	drill := crashtest.NewDrill(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listen, dir := l.Addr().String(), t.TempDir()
	l.Close()
	url := "mqtt://" + listen
	bob := newKey(t)
	inbox := mqttbridge.InboxTopic(bob.PublicKey())
	acknowledged := map[string]bool{}
	for round := range drill.Points {
		child := crashtest.Start(t, "TestBrokerChild", listen, dir)
		if said := child.Next(t); said != "up" {
			t.Fatalf("the broker says %q", said)
		}
		if round == 0 {
			reader := login(t, url, bob, "reader", nil)
			subscribe(t, reader, inbox, 1)
			reader.Disconnect(50)
		}
		writer := login(t, url, newKey(t), fmt.Sprint("writer", round), clean)
		stop := time.After(drill.Moment() * 10)
		for n, killed := 0, false; !killed; n++ {
			text := fmt.Sprintf(`{"id":"%d of %d"}`, n, round)
			token := writer.Publish(inbox, 1, false, text)
			select {
			case <-token.Done():
				if token.Error() == nil {
					acknowledged[text] = true
				}
			case <-stop:
				child.Kill(t)
				killed = true
			}
		}
		writer.Disconnect(0)
	}
	broker := mqtttest.StartBroker(t, mqttbridge.BrokerOptions{Listen: listen, Dir: dir})
	got := make(chan string, 1<<16)
	login(t, broker.URL, bob, "reader", func(o *mqtt.ClientOptions) {
		o.SetDefaultPublishHandler(func(_ mqtt.Client, m mqtt.Message) { got <- string(m.Payload()) })
	})
	seen, total := map[string]int{}, len(acknowledged)
	for missing := total; missing > 0; {
		select {
		case text := <-got:
			var m struct{ ID string }
			if json.Unmarshal([]byte(text), &m) != nil || !strings.Contains(m.ID, " of ") {
				t.Errorf("the broker brings %q", text)
			}
			if seen[text]++; seen[text] == 1 && acknowledged[text] {
				missing--
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("%d of %d acknowledged messages are lost", missing, total)
		}
	}
	t.Logf("%d points, %d messages acknowledged, %d came, seed %d", drill.Points, total, len(seen), drill.Seed)
}
