package relay

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/parleykit/parley/internal/database/databasetest"
)

// benchCards are the cards that look-ups find one of.
const benchCards = 20_000

// BenchmarkStore measures both stores in one run: events committed 64 at a
// time as the relay does under load, and cards looked up by their address.
// Both wait for the disk.
func BenchmarkStore(b *testing.B) {
	stores := map[string]func(b *testing.B) Store{
		"pebble": func(b *testing.B) Store {
			s, err := OpenPebble(b.TempDir(), nil)
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { s.Close() })
			return s
		},
		"postgres": func(b *testing.B) Store {
			return databaseStore(b, databasetest.NewPostgres(b))
		},
	}
	for _, name := range []string{"pebble", "postgres"} {
		b.Run(name, func(b *testing.B) {
			s := stores[name](b)
			rng := rand.New(rand.NewPCG(1, 1))
			b.Run("publish", func(b *testing.B) { benchPublish(b, s, rng, 64) })
			b.Run("publish-alone", func(b *testing.B) { benchPublish(b, s, rng, 1) })
			authors := benchFill(b, s, rng)
			b.Run("lookup", func(b *testing.B) { benchLookup(b, s, authors) })
		})
	}
}

// benchCard is a card of about a kilobyte of a new author.
func benchCard(rng *rand.Rand) *Record {
	rec := randomRecord(rng)
	rec.Event.PubKey, rec.Event.Kind = randomRecord(rng).Event.ID, kindCard
	rec.Event.Tags = nostr.Tags{{"d", "default"}, {"L", "parley"}, {"l", "protocol", "parley"}, {"r", "wss://relay.example/"}}
	rec.Event.Content, rec.Expires = fmt.Sprintf("%0700d", rng.Uint64()), 1<<40
	rec.JSON = appendEvent(nil, rec.Event)
	return rec
}

func benchPublish(b *testing.B, s Store, rng *rand.Rand, size int) {
	batch := make([]*Record, size)
	events := 0
	var spent time.Duration
	for b.Loop() {
		for i := range batch {
			batch[i] = benchCard(rng)
		}
		begin := time.Now()
		commit(b, s, batch...)
		spent += time.Since(begin)
		events += size
	}
	b.ReportMetric(float64(events)/spent.Seconds(), "publishes/s")
}

func benchFill(b *testing.B, s Store, rng *rand.Rand) (authors []string) {
	for len(authors) < benchCards {
		batch := make([]*Record, maxBatch)
		for i := range batch {
			batch[i] = benchCard(rng)
			authors = append(authors, batch[i].Event.PubKey)
		}
		commit(b, s, batch...)
	}
	return authors
}

func benchLookup(b *testing.B, s Store, authors []string) {
	b.RunParallel(func(pb *testing.PB) {
		rng := rand.New(rand.NewPCG(rand.Uint64(), 1))
		for pb.Next() {
			f := nostr.Filter{Kinds: []int{kindCard}, Authors: []string{pick(rng, authors)}, Tags: nostr.TagMap{"d": {"default"}}, Limit: 1}
			n := 0
			for _, err := range s.Query(context.Background(), f, time.Unix(0, 0), 100) {
				if err != nil {
					b.Error(err)
				}
				n++
			}
			if n != 1 {
				b.Errorf("found %d cards, want 1", n)
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "lookups/s")
}
