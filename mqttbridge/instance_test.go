package mqttbridge_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/mqttbridge"
	"github.com/parleykit/parley/mqttbridge/mqtttest"
)

// Two processes with one client id cut each other off. That is said, and what is sent
// meanwhile arrives at one or the other.
func TestTwoProcessesWithOneClientID(t *testing.T) {
	broker := mqtttest.StartMosquitto(t)
	key := newKey(t)
	registry := prometheus.NewRegistry()
	var log syncBuffer
	var mu sync.Mutex
	seen := map[string]bool{}
	for range 2 {
		c := newCarrier(t, key, listening(key, broker.URL), func(o *mqttbridge.Options) {
			o.Instance, o.Logger = "same", slog.New(slog.NewTextHandler(&log, nil))
			o.Registerer = registry // both count together
		})
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = c.Receive(ctx, "", func(_ context.Context, data []byte, _ carrier.Cursor) error {
				mu.Lock()
				defer mu.Unlock()
				seen[string(data)] = true
				return nil
			})
		}()
		t.Cleanup(func() { cancel(); <-done })
	}
	eventually(t, func() string {
		if n := counter(t, registry, "parley_mqtt_takeovers_total", ""); n == 0 {
			return "nothing is reported"
		}
		return ""
	})
	sender := newCarrier(t, newKey(t))
	const n = 100
	for i := range n {
		if err := sender.Send(t.Context(), inboxAt(broker.URL, key), fmt.Append(nil, i)); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, func() string {
		mu.Lock()
		defer mu.Unlock()
		if len(seen) < n {
			return fmt.Sprintf("%d of %d messages arrived", len(seen), n)
		}
		return ""
	})
	if text := log.String(); !strings.Contains(text, "another process use this client id") {
		t.Errorf("the log does not say so: %.500s", text)
	}
}

// With names of their own, both processes read everything.
func TestTwoProcessesOfOneAgent(t *testing.T) {
	broker := mqtttest.StartMosquitto(t)
	key := newKey(t)
	var inboxes []<-chan []byte
	for _, instance := range []string{"one", "two"} {
		c := newCarrier(t, key, listening(key, broker.URL), func(o *mqttbridge.Options) { o.Instance = instance })
		if err := c.Poll(t.Context(), "", nil); err != nil { // the broker keeps its session from now on
			t.Fatal(err)
		}
		inboxes = append(inboxes, receive(t, c))
	}
	if err := newCarrier(t, newKey(t)).Send(t.Context(), inboxAt(broker.URL, key), []byte("hello")); err != nil {
		t.Fatal(err)
	}
	for _, got := range inboxes {
		if data := <-got; string(data) != "hello" {
			t.Errorf("got %q", data)
		}
	}
}
