package bridge_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/carrier/bridge"
	"github.com/parleykit/parley/internal/database/databasetest"
	"github.com/parleykit/parley/protocol/canonical"
	"github.com/parleykit/parley/protocol/envelope"
)

// flow hands in what comes, 64 at a time and those of a recipient in order.
type flow struct {
	*place
	in chan []byte
}

func (f *flow) Read(ctx context.Context, _ carrier.Cursor, handle func(context.Context, []byte, carrier.Cursor) error) error {
	var group sync.WaitGroup
	defer group.Wait()
	slots, tails := make(chan struct{}, 64), map[string]chan struct{}{}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case data := <-f.in:
			ev, err := canonical.DecodeEvent(data)
			if err != nil {
				return err
			}
			lane := ev.Tags.Find("p")[1]
			before, stored := tails[lane], make(chan struct{})
			tails[lane] = stored
			slots <- struct{}{}
			group.Go(func() {
				defer func() { <-slots }()
				defer close(stored)
				if before != nil {
					<-before
				}
				_ = handle(ctx, data, "")
			})
		}
	}
}

// sink notes when each item came.
type sink struct {
	mu sync.Mutex
	at map[string]time.Time
}

func (s *sink) Name() string { return "sink" }

func (s *sink) Read(ctx context.Context, _ carrier.Cursor, _ func(context.Context, []byte, carrier.Cursor) error) error {
	<-ctx.Done()
	return ctx.Err()
}

func (s *sink) Write(_ context.Context, item bridge.Item) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at[item.ID] = time.Now()
	return nil
}

func (s *sink) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.at)
}

// BenchmarkBridge moves wraps for many recipients between two sides in memory, with
// its queue on SQLite, every commit synced. Rate 0 is as fast as it goes; latency is
// from handing in to the write at the other side.
func BenchmarkBridge(b *testing.B) {
	for _, verified := range []bool{true, false} {
		for _, recipients := range []int{1, 100} {
			for _, rate := range []int{0, 500} {
				b.Run(fmt.Sprintf("verified=%v/recipients=%d/rate=%d", verified, recipients, rate), func(b *testing.B) {
					benchmarkBridge(b, verified, recipients, rate)
				})
			}
		}
	}
}

func (verifiedFlow) Verified() bool { return true }

type verifiedFlow struct{ *flow }

func benchmarkBridge(b *testing.B, verified bool, recipients, rate int) {
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
	from, to := &flow{newPlace(), make(chan []byte)}, &sink{at: map[string]time.Time{}}
	var side bridge.Side = from
	if verified {
		side = verifiedFlow{from}
	}
	stop := run(b, databasetest.Open(b), "pair", "x", side, to)
	from.in <- wrap(b, -1)
	eventually(b, "the bridge does not run", func() bool { return to.count() == 1 })
	b.ResetTimer()
	began := time.Now()
	handed := make([]time.Time, len(events))
	for i, data := range events {
		if rate > 0 {
			time.Sleep(time.Until(began.Add(time.Duration(i) * time.Second / time.Duration(rate))))
		}
		handed[i] = time.Now()
		from.in <- data
	}
	eventually(b, "not all came", func() bool { return to.count() == len(events)+1 })
	b.StopTimer()
	stop()
	var took []time.Duration
	var last time.Time
	for i, data := range events {
		ev, err := canonical.DecodeEvent(data)
		if err != nil {
			b.Fatal(err)
		}
		took = append(took, to.at[ev.ID].Sub(handed[i]))
		if to.at[ev.ID].After(last) {
			last = to.at[ev.ID]
		}
	}
	slices.Sort(took)
	b.ReportMetric(float64(b.N)/last.Sub(began).Seconds(), "items/s")
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
}
