package relay

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"
)

// BenchmarkCards compares queries answered from memory with the same ones of
// the embedded store, in one run, and prints what a held card takes.
func BenchmarkCards(b *testing.B) {
	store, err := OpenPebble(b.TempDir(), nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { store.Close() })
	rng := rand.New(rand.NewPCG(1, 1))
	authors := benchDescribed(b, store, rng)
	before := heapBytes()
	begin := time.Now()
	s := hold(store, 1<<40)
	load := time.Since(begin)
	events, estimate := s.cards.held()
	b.Logf("%d cards held in %v: %d bytes each, estimated at %d", events, load.Round(time.Millisecond), (heapBytes()-before)/events, estimate/events)

	card := []int{kindCard}
	for _, q := range []struct {
		name   string
		filter func(rng *rand.Rand) nostr.Filter
	}{
		{"address", func(rng *rand.Rand) nostr.Filter {
			return nostr.Filter{Kinds: card, Authors: []string{pick(rng, authors)}, Tags: nostr.TagMap{"d": {"default"}}, Limit: 1}
		}},
		{"tag-one-of-1000", func(rng *rand.Rand) nostr.Filter {
			return nostr.Filter{Kinds: card, Tags: nostr.TagMap{"t": {fmt.Sprint("word", rng.IntN(1000))}}, Limit: 500}
		}},
		{"tag-of-all-limit-50", func(*rand.Rand) nostr.Filter {
			return nostr.Filter{Kinds: card, Tags: nostr.TagMap{"l": {"nostr"}}, Limit: 50}
		}},
		{"search-one-of-1000", func(rng *rand.Rand) nostr.Filter {
			return nostr.Filter{Kinds: card, Search: fmt.Sprint("word", rng.IntN(1000)) + " agent", Limit: 50}
		}},
		{"search-of-all", func(*rand.Rand) nostr.Filter { return nostr.Filter{Kinds: card, Search: "agent", Limit: 50} }},
	} {
		b.Run(q.name+"/memory", func(b *testing.B) { benchQuery(b, s, q.filter) })
		if q.filter(rng).Search == "" {
			b.Run(q.name+"/store", func(b *testing.B) { benchQuery(b, store, q.filter) })
		}
	}
}

// benchDescribed fills the store with cards that have words and capabilities.
func benchDescribed(b *testing.B, store Store, rng *rand.Rand) (authors []string) {
	for len(authors) < benchCards {
		var batch []*Record
		for range maxBatch {
			rec := benchCard(rng)
			rec.Event.CreatedAt = nostr.Timestamp(len(authors) + len(batch))
			rec.Event.Tags = append(rec.Event.Tags, nostr.Tag{"alt", "Contact card of an agent"}, nostr.Tag{"l", "nostr", "parley.carrier"},
				nostr.Tag{"t", fmt.Sprint("word", rng.IntN(1000))}, nostr.Tag{"t", fmt.Sprint("word", rng.IntN(1000))})
			rec.JSON = appendEvent(nil, rec.Event)
			authors = append(authors, rec.Event.PubKey)
			batch = append(batch, rec)
		}
		commit(b, store, batch...)
	}
	return authors
}

func heapBytes() int {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

func benchQuery(b *testing.B, s Store, filter func(*rand.Rand) nostr.Filter) {
	rng := rand.New(rand.NewPCG(1, 1))
	b.ReportAllocs()
	for b.Loop() {
		for _, err := range s.Query(context.Background(), filter(rng), time.Unix(0, 0), 1<<20) {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
}
