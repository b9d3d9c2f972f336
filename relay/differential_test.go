package relay

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nbd-wtf/go-nostr"

	"github.com/parleykit/parley/relay/conformance"
)

// The world of the differential tests is small, so that filters hit.
var (
	worldAuthors = hexWords("a", 6)
	worldValues  = []string{"red", "green", "blue", "", "rot grün"}
	worldKinds   = []int{0, 5, 10002, 30417, 1059}
)

func hexWords(seed string, n int) []string {
	words := make([]string, n)
	for i := range words {
		words[i] = fmt.Sprintf("%064x", []byte(fmt.Sprint(seed, i)))
	}
	return words
}

// randomRecord is an event as the store sees it: it does not check ids.
func randomRecord(rng *rand.Rand) *Record {
	ev := &nostr.Event{
		ID:        fmt.Sprintf("%016x%016x%016x%016x", rng.Uint64(), rng.Uint64(), rng.Uint64(), rng.Uint64()),
		PubKey:    pick(rng, worldAuthors),
		CreatedAt: nostr.Timestamp(rng.IntN(60)),
		Kind:      pick(rng, worldKinds),
		Tags:      nostr.Tags{},
		Sig:       fmt.Sprintf("%0128x", 0),
	}
	for range rng.IntN(4) {
		ev.Tags = append(ev.Tags, nostr.Tag{pick(rng, []string{"t", "p", "title"}), pick(rng, worldValues)})
	}
	if ev.Kind == 30417 {
		ev.Tags = append(ev.Tags, nostr.Tag{"d", fmt.Sprint(rng.IntN(8))})
	}
	rec := &Record{Event: ev, JSON: appendEvent(nil, ev)}
	if rng.IntN(10) == 0 {
		rec.Expires = int64(rng.IntN(200))
	}
	return rec
}

func pick[T any](rng *rand.Rand, from []T) T { return from[rng.IntN(len(from))] }

// world is what the random filters are made of.
func world(known []string) *conformance.World {
	return &conformance.World{
		IDs: known, Authors: worldAuthors, Kinds: worldKinds, Letters: []string{"t", "p", "d"},
		Values: append([]string{"1", "2", "3"}, worldValues...), Times: [2]int64{-2, 61},
	}
}

// randomFilter is one of the world; now and then a list in it is empty, which
// matches nothing.
func randomFilter(rng *rand.Rand, known []string) nostr.Filter {
	f := world(known).Filter(rng)
	switch rng.IntN(24) {
	case 0:
		f.IDs = []string{}
	case 1:
		f.Authors = []string{}
	case 2:
		f.Kinds = []int{}
	case 3:
		f.Tags["t"] = []string{}
	}
	return f
}

// plainStore is the plainest store: a list, newest first.
type plainStore []*Record

func (p *plainStore) add(rec *Record) Outcome {
	a, replaceable := addressOf(rec.Event)
	for i, old := range *p {
		if b, ok := addressOf(old.Event); replaceable && ok && a == b {
			if compareRecords(rec, old) > 0 {
				return Stale
			}
			*p = slices.Delete(*p, i, i+1)
			break
		}
	}
	*p = append(*p, rec)
	slices.SortFunc(*p, compareRecords)
	return Stored
}

func (p plainStore) query(f nostr.Filter, now int64) []string {
	out := []string{}
	for _, rec := range p {
		if conformance.Matches(f, rec.Event) && (rec.Expires == 0 || rec.Expires > now) && !f.LimitZero && (f.Limit == 0 || len(out) < f.Limit) {
			out = append(out, rec.Event.ID)
		}
	}
	return out
}

func query(t *testing.T, s Store, f nostr.Filter, now int64) []string {
	t.Helper()
	out := []string{}
	for rec, err := range s.Query(t.Context(), f, time.Unix(now, 0), 1<<20) {
		if err != nil {
			t.Fatalf("querying %v: %v", f, err)
		}
		out = append(out, rec.Event.ID)
	}
	return out
}

func TestStoreAnswersAsAPlainListWould(t *testing.T) {
	const worlds = 3
	eachStore(t, func(t *testing.T, open func(testing.TB) Store) {
		for seed := range uint64(worlds) {
			t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { compareWithPlain(t, open(t), seed) })
		}
	})
}

func compareWithPlain(t *testing.T, store Store, seed uint64) {
	const events, filters = 400, 1000
	rng, plain := rand.New(rand.NewPCG(seed, 1)), plainStore{}
	var known []string
	for len(known) < events {
		var batch []*Record
		for range 1 + rng.IntN(40) {
			batch = append(batch, randomRecord(rng))
		}
		outcomes, err := store.Commit(context.Background(), batch, 1000)
		if err != nil {
			t.Fatal(err)
		}
		for i, rec := range batch {
			known = append(known, rec.Event.ID)
			if want := plain.add(rec); outcomes[i] != want {
				t.Fatalf("event %s: %v, want %v", rec.Event, outcomes[i], want)
			}
		}
	}
	for range filters {
		f, now := randomFilter(rng, known), int64(rng.IntN(250))
		if diff := cmp.Diff(plain.query(f, now), query(t, store, f, now)); diff != "" {
			t.Fatalf("filter %s (-plain +store):\n%s", f, diff)
		}
	}
}

func TestSubscriptionIndexOffersAsAPlainMatcherWould(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	got := map[string]int{}
	deliver := func(s *subscription, _ *Record) { got[s.id]++ }
	records := make([]*Record, 200)
	var known []string
	for i := range records {
		records[i] = randomRecord(rng)
		known = append(known, records[i].Event.ID)
	}
	x := newIndex()
	open := map[string]*subscription{}
	for i := range 3000 {
		filters := []nostr.Filter{randomFilter(rng, known)}
		if rng.IntN(3) == 0 {
			filters = append(filters, randomFilter(rng, known))
		}
		for j := range filters {
			if filters[j].Kinds == nil {
				filters[j].Kinds = openKinds // as scopeOf does
			}
		}
		sub := newSubscription(fmt.Sprint(i), filters, nil, deliver)
		sub.take(position{})
		open[sub.id] = sub
		x.add(sub)
		if rng.IntN(4) == 0 {
			for id, other := range open {
				x.remove(other)
				delete(open, id)
				break
			}
		}
	}
	for _, rec := range records {
		clear(got)
		x.offer(live{rec, position{}})
		want := map[string]int{}
		for id, sub := range open {
			if slices.ContainsFunc(sub.filters, func(f nostr.Filter) bool { return conformance.Matches(f, rec.Event) }) && rec.Event.Kind != kindWrap {
				want[id] = 1
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("event %s (-plain +index):\n%s", rec.Event, diff)
		}
	}
	for _, sub := range open {
		x.remove(sub)
	}
	if n := len(x.ids) + len(x.authors) + len(x.tags) + len(x.kinds) + len(x.filed); n != 0 {
		t.Errorf("%d entries are left in an index without subscriptions", n)
	}
}
