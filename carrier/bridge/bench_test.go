package bridge_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/parleykit/parley/internal/database/databasetest"
	"github.com/parleykit/parley/protocol/envelope"
)

// BenchmarkBridge moves wraps for many recipients between two sides in memory,
// with its queue on SQLite. Verification is part of it; the source hands in one
// item after the other, as a side that acknowledges in order does.
func BenchmarkBridge(b *testing.B) {
	for _, recipients := range []int{1, 100} {
		b.Run(fmt.Sprintf("recipients=%d", recipients), func(b *testing.B) {
			keys := make([]string, recipients)
			for i := range keys {
				keys[i], _ = nostr.GetPublicKey(nostr.GeneratePrivateKey())
			}
			var events [][]byte
			for i := range b.N {
				events = append(events, sign(b, nostr.Event{
					Kind: envelope.KindWrap, CreatedAt: nostr.Now(), Content: fmt.Sprint(i), Tags: nostr.Tags{{"p", keys[i%recipients]}},
				}))
			}
			from, to := newPlace(), newPlace()
			stop := run(b, databasetest.Open(b), "pair", "x", from, to)
			from.put(wrap(b, -1)) // the bridge runs
			eventually(b, "the bridge does not run", func() bool { n, _ := to.counts(); return n == 1 })
			b.ResetTimer()
			began := time.Now()
			from.put(events...)
			var took []time.Duration
			for seen := 1; seen < b.N+1; time.Sleep(time.Millisecond) {
				n, _ := to.counts()
				for ; seen < n; seen++ {
					took = append(took, time.Since(began))
				}
			}
			b.StopTimer()
			stop()
			slices.Sort(took)
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "items/s")
			b.ReportMetric(float64(took[len(took)/2].Milliseconds()), "p50-ms")
			b.ReportMetric(float64(took[len(took)*99/100].Milliseconds()), "p99-ms")
		})
	}
}
