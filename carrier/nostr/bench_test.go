package nostr_test

import (
	"context"
	"os"
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

// counted tells when a number of wraps were taken.
type counted struct {
	*nostr.Carrier
	left atomic.Int64
	done chan struct{}
}

func (c *counted) Send(ctx context.Context, to carrier.Address, wrap []byte) error {
	err := c.Carrier.Send(ctx, to, wrap)
	if err == nil && c.left.Add(-1) == 0 {
		close(c.done)
	}
	return err
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

// BenchmarkDrain empties an outbox that filled during an outage, and beside it
// publishes as many sealed wraps to the same kind of relay with nothing else to
// do. 500 messages, or 10,000 with PARLEY_DRILL=1.
func BenchmarkDrain(b *testing.B) {
	n := 500
	if os.Getenv("PARLEY_DRILL") == "1" {
		n = 10_000
	}
	for b.Loop() {
		bare := publishBare(b, n)
		drained := drainOutbox(b, n)
		b.ReportMetric(float64(n)/bare.Seconds(), "bare/s")
		b.ReportMetric(float64(n)/drained.Seconds(), "drained/s")
		b.ReportMetric(bare.Seconds()/drained.Seconds(), "ratio")
	}
}

// senders is how many wraps are on their way at a time, in both halves.
const senders = 8

func publishBare(b *testing.B, n int) time.Duration {
	server := relaytest.Start(b, relay.Options{})
	key, peer := benchKey(b), benchKey(b)
	sealed := wraps(b, key, peer.PublicKey(), n)
	c := benchCarrier(b, key, server.URL)
	to := carrier.Address{Scheme: nostr.Scheme, Address: server.URL}
	var next atomic.Int64
	var group sync.WaitGroup
	began := time.Now()
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
	return time.Since(began)
}

func drainOutbox(b *testing.B, n int) time.Duration {
	server := relaytest.Start(b, relay.Options{})
	key, peer := benchKey(b), benchKey(b)
	c := &counted{Carrier: benchCarrier(b, key, server.URL), done: make(chan struct{})}
	c.left.Store(int64(n))
	e, err := carrier.New(b.Context(), carrier.Options{
		DB: databasetest.OpenAt(b, filepath.Join(b.TempDir(), "data", "parley.db")), Keyer: key, Carriers: []carrier.Carrier{c},
		Resolve: func(context.Context, string) ([]carrier.Address, error) {
			return []carrier.Address{{Scheme: nostr.Scheme, Address: server.URL}}, nil
		},
		Senders: senders, Limits: carrier.Limits{Outbox: 2 * n, OutboxOfPeer: 2 * n},
	})
	if err != nil {
		b.Fatal(err)
	}
	var group sync.WaitGroup
	for worker := range senders {
		group.Go(func() {
			for i := worker; i < n; i += senders {
				if err := e.Send(context.Background(), textMessage(b, key.PublicKey(), peer.PublicKey(), "hello")); err != nil {
					b.Error(err)
				}
			}
		})
	}
	group.Wait()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	began := time.Now()
	go func() { ended <- e.Run(ctx) }()
	<-c.done
	took := time.Since(began)
	stop()
	if err := <-ended; err != nil {
		b.Error(err)
	}
	return took
}
