package relay_test

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/parleykit/parley/relay"
	"github.com/parleykit/parley/relay/relaytest"
)

// pluginArgument makes the test binary a policy plugin; its environment is
// empty.
const pluginArgument = "policy-plugin"

func TestActsAsAPluginWhenItIsStartedAsOne(t *testing.T) {
	if flag.Arg(0) == pluginArgument {
		runPlugin()
		os.Exit(0)
	}
}

// runPlugin decides by the content of an event.
func runPlugin() {
	fmt.Fprintln(os.Stderr, "the plugin is there")
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var q struct {
			Type                   string
			Event                  nostr.Event
			ReceivedAt             int64
			SourceType, SourceInfo string
		}
		if err := json.Unmarshal(lines.Bytes(), &q); err != nil || q.Type != "new" || q.ReceivedAt == 0 || q.SourceType != "IP4" || q.SourceInfo != "127.0.0.1" {
			os.Exit(3)
		}
		answer := map[string]string{"id": q.Event.ID, "action": "accept"}
		switch word, rest, _ := strings.Cut(q.Event.Content, " "); word {
		case "reject":
			answer["action"], answer["msg"] = "reject", rest
		case "shadow":
			answer["action"] = "shadowReject"
		case "environment":
			answer["action"], answer["msg"] = "reject", fmt.Sprintf("%d variables, secret %q", len(os.Environ()), os.Getenv("SECRET_OF_THE_RELAY"))
		case "die":
			os.Exit(1)
		case "hang":
			select {}
		case "other":
			answer["id"] = strings.Repeat("0", 64)
		case "maybe":
			answer["action"] = "maybe"
		case "chatter":
			fmt.Println("hello")
		case "flood":
			fmt.Println(strings.Repeat("x", 1<<20))
		}
		data, _ := json.Marshal(answer)
		fmt.Println(string(data))
	}
}

// startPlugged starts a relay with the plugin.
func startPlugged(t *testing.T, p relay.Plugin) (*relaytest.Server, *prometheus.Registry) {
	t.Helper()
	if p.Command == nil {
		p.Command = []string{os.Args[0], "-test.run=^TestActsAsAPluginWhenItIsStartedAsOne$", pluginArgument}
	}
	registry := prometheus.NewRegistry()
	return relaytest.Start(t, relay.Options{Plugin: &p, Registerer: registry}), registry
}

// accepted publishes until the plugin works again.
func accepted(t *testing.T, c *client, k *key) {
	t.Helper()
	n := 0
	eventually(t, func() bool {
		n++
		return c.publish(k.note(nostr.Now(), fmt.Sprintf("fine %d", n))).ok
	})
}

func TestPluginDecides(t *testing.T) {
	t.Setenv("SECRET_OF_THE_RELAY", "hidden")
	s, registry := startPlugged(t, relay.Plugin{Timeout: time.Minute})
	c, k, now := dial(t, s), newKey(t), nostr.Now()
	c.accept(k.note(now-9, "fine"))
	c.refuse(k.note(now, "reject"), "blocked: the policy of this relay")
	c.refuse(k.note(now, "reject no reason"), "blocked: no reason")
	c.refuse(k.note(now, "reject pow: more"), "pow: more")
	c.refuse(k.note(now, "reject two\nlines"), "blocked: two lines")
	c.refuse(k.note(now, "reject "+strings.Repeat("long ", 999)), "blocked: long")
	c.refuse(k.note(now, "environment"), `blocked: 2 variables, secret ""`)
	c.accept(k.note(now, "shadow"))
	if got := c.stored(nostr.Filter{Authors: []string{k.pub}}); len(got) != 1 || got[0].Content != "fine" {
		t.Errorf("stored %v", ids(got))
	}
	// What is not valid is refused without it, and nobody is kept from leaving.
	forged := k.note(now, "die")
	forged.Sig = k.note(now, "").Sig
	c.refuse(forged, "invalid: ")
	c.accept(k.event(5, now, "die", nil))
	c.accept(k.event(62, now, "die", nostr.Tags{{"relay", "ALL_RELAYS"}}))
	if n := metric(t, registry, "parley_relay_plugin_restarts_total"); n != 0 {
		t.Errorf("%v restarts", n)
	}
}

func TestPluginThatFailsRefusesAndIsStartedAgain(t *testing.T) {
	for _, what := range []string{"die", "other", "maybe", "chatter", "flood"} {
		t.Run(what, func(t *testing.T) {
			s, registry := startPlugged(t, relay.Plugin{Timeout: time.Minute})
			c, k := dial(t, s), newKey(t)
			c.accept(k.note(nostr.Now()-9, "fine"))
			c.refuse(k.note(nostr.Now()+9, what), "error: the policy plugin")
			accepted(t, c, k)
			if n := metric(t, registry, "parley_relay_plugin_restarts_total"); n == 0 {
				t.Error("no restart is counted")
			}
		})
	}
}

func TestPluginThatHangsHoldsUpNothingElse(t *testing.T) {
	s, registry := startPlugged(t, relay.Plugin{Timeout: 200 * time.Millisecond})
	c, reader, k := dial(t, s), dial(t, s), newKey(t)
	accepted(t, c, k)
	c.send("EVENT", k.note(nostr.Now()+9, "hang"))
	if got := reader.stored(nostr.Filter{Authors: []string{k.pub}}); len(got) != 1 { // while it hangs
		t.Errorf("found %v", ids(got))
	}
	if r := c.next(); r.ok || !strings.HasPrefix(r.text, "error: the policy plugin") {
		t.Errorf("the event that it hangs on: %v", r)
	}
	accepted(t, c, newKey(t))
	if metric(t, registry, "parley_relay_plugin_verdicts_total") == 0 || metric(t, registry, "parley_relay_plugin_restarts_total") == 0 {
		t.Error("it is not counted")
	}
}

func TestMissingPluginClosesTheRelayForEvents(t *testing.T) {
	s, _ := startPlugged(t, relay.Plugin{Command: []string{"/nowhere/policy"}})
	c, k := dial(t, s), newKey(t)
	c.refuse(k.note(nostr.Now(), ""), "error: the policy plugin")
	c.accept(k.event(62, nostr.Now(), "", nostr.Tags{{"relay", "ALL_RELAYS"}}))
}

func TestQueueOfThePluginIsBounded(t *testing.T) {
	s, _ := startPlugged(t, relay.Plugin{Timeout: time.Second, Queue: 1})
	accepted(t, dial(t, s), newKey(t))
	var senders sync.WaitGroup
	results := make(chan string, 40)
	for range 20 {
		c, k := dial(t, s), newKey(t)
		senders.Go(func() {
			c.send("EVENT", k.note(nostr.Now(), "hang"))
			results <- c.next().text
		})
	}
	senders.Wait()
	close(results)
	for text := range results {
		if !strings.HasPrefix(text, "error: the policy plugin of this relay") {
			t.Errorf("answered %q", text)
		}
	}
}

// metric is the sum of a counter over its labels.
func metric(t *testing.T, registry *prometheus.Registry, name string) (sum float64) {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if family.GetName() == name {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return sum
}
