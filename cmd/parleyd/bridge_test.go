package main

import (
	"context"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parleykit/parley/agent"
	"github.com/parleykit/parley/internal/config"
)

// freeAddress is a loopback address that nobody listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// lives starts an agent of the server and runs it until the test ends.
func lives(t *testing.T, s *server) *agent.Agent {
	t.Helper()
	a, err := agent.New(t.Context(), agent.Options{Home: filepath.Join(t.TempDir(), "home"), Create: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.PinServer(t.Context(), agent.PinRequest{URL: s.http.Origin().String()}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("ending an agent: %v", err)
		}
		a.Close()
	})
	return a
}

// Two agents of one server talk, while bridges carry everything between its relay, its
// broker and its ntfy server: each text is there once, and each bridge says what it did.
func TestBridgesOfOneServerMultiplyNothing(t *testing.T) {
	broker, push := freeAddress(t), freeAddress(t)
	s := startServer(t, func(cfg *config.Config) {
		cfg.MQTT.Broker.Listen = broker
		cfg.MQTT.Bridges = []config.MQTTBridge{{Name: "own", Broker: "mqtt://" + broker}}
		cfg.Ntfy.Development = push
		cfg.Ntfy.Bridges = []config.NtfyBridge{{Name: "own", Server: "http://" + push}}
	})
	alice, bob := lives(t, s), lives(t, s)
	for _, a := range []*agent.Agent{alice, bob} {
		if _, err := a.AddCarrier(t.Context(), agent.AddCarrierRequest{Scheme: "ntfy", Address: "http://" + push, WakeUp: true}); err != nil {
			t.Fatal(err)
		}
		if _, err := a.PublishCard(t.Context(), agent.PublishCardRequest{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, pair := range [][2]*agent.Agent{{alice, bob}, {bob, alice}} {
		if _, err := pair[0].AddContact(t.Context(), agent.ContactRequest{Who: pair[1].PublicKey()}); err != nil {
			t.Fatal(err)
		}
	}
	for range 5 {
		sent, err := alice.SendText(t.Context(), agent.SendRequest{To: bob.PublicKey(), Text: "hello", WaitSeconds: 60})
		if err != nil || sent.State != "acked" {
			t.Fatalf("%+v, %v", sent, err)
		}
	}
	inbox, err := bob.Inbox(t.Context(), agent.InboxRequest{All: true})
	if err != nil || len(inbox.Texts) != 5 {
		t.Errorf("%d texts, want 5 (%v)", len(inbox.Texts), err)
	}
	for deadline := time.Now().Add(60 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		moved := movedItems(t, s)
		if moved["mqtt-own"] > 0 && moved["ntfy-own"] > 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the bridges moved %v", moved)
		}
	}
}

// movedItems is how many items each bridge has sent.
func movedItems(t *testing.T, s *server) map[string]float64 {
	t.Helper()
	families, err := s.http.Registry().Gather()
	if err != nil {
		t.Fatal(err)
	}
	moved := map[string]float64{}
	for _, family := range families {
		if family.GetName() != "parley_bridge_items_total" {
			continue
		}
		for _, m := range family.GetMetric() {
			text := m.String()
			for _, name := range []string{"mqtt-own", "ntfy-own"} {
				if strings.Contains(text, `"`+name+`"`) && strings.Contains(text, `"sent"`) {
					moved[name] += m.GetCounter().GetValue()
				}
			}
		}
	}
	return moved
}
