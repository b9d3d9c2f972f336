package mqtttest

import (
	"context"
	"sync"
	"testing"

	"github.com/parleykit/parley/mqttbridge"
)

// Broker is a running broker of package mqttbridge.
type Broker struct {
	*mqttbridge.Broker
	URL string // mqtt://127.0.0.1:port

	stop func()
}

// StartBroker starts one on a free loopback port. Without Names it takes its own
// address; without a Dir it keeps everything in memory.
func StartBroker(t testing.TB, opts mqttbridge.BrokerOptions) *Broker {
	t.Helper()
	if opts.Listen == "" {
		opts.Listen = freePort(t)
	}
	opts.Names = append(opts.Names, "mqtt://"+opts.Listen)
	broker, err := mqttbridge.NewBroker(opts)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- broker.Run(ctx) }()
	b := &Broker{Broker: broker, URL: "mqtt://" + opts.Listen}
	b.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("ending the broker: %v", err)
		}
	})
	t.Cleanup(b.stop)
	return b
}

// Stop ends the broker in order.
func (b *Broker) Stop() { b.stop() }
