package nostr_test

import (
	"context"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/carrier/nostr"
	"github.com/parleykit/parley/internal/database/databasetest"
	"github.com/parleykit/parley/internal/keys"
	"github.com/parleykit/parley/relay"
	"github.com/parleykit/parley/relay/relaytest"
)

// gate lets a number of wraps through at a time, and tells when they were
// taken.
type gate struct {
	*nostr.Carrier
	open, taken chan struct{}
}

func (g *gate) Send(ctx context.Context, to carrier.Address, wrap []byte) error {
	select {
	case <-g.open:
	case <-ctx.Done():
		return ctx.Err()
	}
	err := g.Carrier.Send(ctx, to, wrap)
	if err != nil {
		g.open <- struct{}{}
		return err
	}
	g.taken <- struct{}{}
	return nil
}

// pass lets n wraps through and waits until they were taken.
func (g *gate) pass(n int) {
	for range n {
		g.open <- struct{}{}
	}
	for range n {
		<-g.taken
	}
}

func benchKey(b *testing.B) *keys.Nostr {
	b.Helper()
	key, err := keys.GenerateNostr()
	if err != nil {
		b.Fatal(err)
	}
	return key
}

func benchCarrier(b *testing.B, key *keys.Nostr, url string) *nostr.Carrier {
	b.Helper()
	c, err := nostr.New(nostr.Options{Relays: []string{url}, Signer: key, Dialer: loopback()})
	if err != nil {
		b.Fatal(err)
	}
	return c
}

// BenchmarkDrain empties an outbox that filled during an outage, and in turns
// with it publishes as many sealed wraps to the same kind of relay with nothing
// else to do. An operation is a message; run it with -benchtime 10000x.
func BenchmarkDrain(b *testing.B) {
	bare, drain := publishBare(b), drainOutbox(b)
	var bareTook, drainTook time.Duration
	for left := b.N; left > 0; left -= drainTurn {
		n := min(left, drainTurn)
		bareTook += timed(func() { bare(n) })
		drainTook += timed(func() { drain(n) })
	}
	b.ReportMetric(float64(b.N)/bareTook.Seconds(), "bare/s")
	b.ReportMetric(float64(b.N)/drainTook.Seconds(), "drained/s")
	b.ReportMetric(bareTook.Seconds()/drainTook.Seconds(), "ratio")
}

const (
	senders   = 8   // wraps on their way at a time, in both halves
	drainTurn = 500 // messages
)

func timed(do func()) time.Duration {
	began := time.Now()
	do()
	return time.Since(began)
}

// publishBare seals b.N wraps; what it returns publishes the next n of them.
func publishBare(b *testing.B) func(n int) {
	server := relaytest.Start(b, relay.Options{})
	key, peer := benchKey(b), benchKey(b)
	sealed := wraps(b, key, peer.PublicKey(), b.N)
	c := benchCarrier(b, key, server.URL)
	to := carrier.Address{Scheme: nostr.Scheme, Address: server.URL}
	return func(n int) {
		var next atomic.Int64
		var group sync.WaitGroup
		for range senders {
			group.Go(func() {
				for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
					if err := c.Send(context.Background(), to, sealed[i].Bytes); err != nil {
						b.Error(err)
					}
				}
			})
		}
		group.Wait()
		sealed = sealed[n:]
	}
}

// drainOutbox queues b.N messages and runs an engine that cannot send; what it
// returns lets the next n of them through.
func drainOutbox(b *testing.B) func(n int) {
	server := relaytest.Start(b, relay.Options{})
	key, peer := benchKey(b), benchKey(b)
	g := &gate{benchCarrier(b, key, server.URL), make(chan struct{}, b.N), make(chan struct{}, b.N)}
	e, err := carrier.New(b.Context(), carrier.Options{
		DB: databasetest.OpenAt(b, filepath.Join(b.TempDir(), "data", "parley.db")), Keyer: key, Carriers: []carrier.Carrier{g},
		Resolve: func(context.Context, string) ([]carrier.Address, error) {
			return []carrier.Address{{Scheme: nostr.Scheme, Address: server.URL}}, nil
		},
		Senders: senders, SendTimeout: time.Hour, Limits: carrier.Limits{Outbox: b.N + 1, OutboxOfPeer: b.N + 1},
	})
	if err != nil {
		b.Fatal(err)
	}
	var group sync.WaitGroup
	for worker := range senders {
		group.Go(func() {
			for i := worker; i < b.N; i += senders {
				if err := e.Send(context.Background(), textMessage(b, key.PublicKey(), peer.PublicKey(), "hello")); err != nil {
					b.Error(err)
				}
			}
		})
	}
	group.Wait()
	ended := make(chan error, 1)
	ctx, stop := context.WithCancel(context.Background())
	go func() { ended <- e.Run(ctx) }()
	b.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			b.Error(err)
		}
	})
	return g.pass
}
