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

// randomFilter leaves each element out more often than not.
func randomFilter(rng *rand.Rand, known []string) nostr.Filter {
	var f nostr.Filter
	some := func(from []string) []string {
		out := []string{}
		for range rng.IntN(4) {
			out = append(out, pick(rng, from))
		}
		return out
	}
	if rng.IntN(6) == 0 {
		f.IDs = append(some(known), pick(rng, known))
	}
	if rng.IntN(3) == 0 {
		f.Authors = some(worldAuthors)
	}
	if rng.IntN(2) == 0 {
		f.Kinds = []int{}
		for range rng.IntN(4) {
			f.Kinds = append(f.Kinds, pick(rng, append(worldKinds, 1)))
		}
	}
	f.Tags = nostr.TagMap{}
	for _, letter := range []string{"t", "p", "d"} {
		if rng.IntN(4) == 0 {
			f.Tags[letter] = some(append([]string{"1", "2", "3"}, worldValues...))
		}
	}
	if rng.IntN(4) == 0 {
		at := nostr.Timestamp(rng.IntN(64) - 2)
		f.Since = &at
	}
	if rng.IntN(4) == 0 {
		at := nostr.Timestamp(rng.IntN(64) - 2)
		f.Until = &at
	}
	if rng.IntN(2) == 0 {
		f.Limit = rng.IntN(20)
		f.LimitZero = f.Limit == 0
	}
	return f
}

// matches is the plainest reading of NIP-01 there is.
func matches(f nostr.Filter, ev *nostr.Event) bool {
	ok := (f.IDs == nil || slices.Contains(f.IDs, ev.ID)) &&
		(f.Authors == nil || slices.Contains(f.Authors, ev.PubKey)) &&
		(f.Kinds == nil || slices.Contains(f.Kinds, ev.Kind)) &&
		(f.Since == nil || ev.CreatedAt >= *f.Since) && (f.Until == nil || ev.CreatedAt <= *f.Until)
	for letter, values := range f.Tags {
		ok = ok && slices.ContainsFunc(ev.Tags, func(t nostr.Tag) bool { return t[0] == letter && slices.Contains(values, t[1]) })
	}
	return ok
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
		if matches(f, rec.Event) && (rec.Expires == 0 || rec.Expires > now) && !f.LimitZero && (f.Limit == 0 || len(out) < f.Limit) {
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
			if slices.ContainsFunc(sub.filters, func(f nostr.Filter) bool { return matches(f, rec.Event) }) && rec.Event.Kind != kindWrap {
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
