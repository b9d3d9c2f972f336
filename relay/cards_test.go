package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nbd-wtf/go-nostr"
	"pgregory.net/rapid"

	"github.com/parleykit/parley/internal/database/databasetest"
	"github.com/parleykit/parley/internal/drilltest"
)

// hold is holdCards for a test.
func hold(s Store, limit int) *cardStore {
	return holdCards(context.Background(), s, limit, time.Unix(0, 0), slog.New(slog.DiscardHandler), newMetrics(nil))
}

// holdAll is a limit that no test reaches.
const holdAll = 1 << 30

var searchedWords = []string{"red", "green", "grün", "GRÜN", "calendar", "calendars", "tax"}

// randomChange is an event that may replace, delete or describe others.
func randomChange(rng *rand.Rand, known []*Record) *Record {
	rec := randomRecord(rng)
	ev := rec.Event
	switch {
	case ev.Kind == kindDeletion && len(known) > 0:
		for range 1 + rng.IntN(3) {
			target := pick(rng, known).Event
			ev.Tags = append(ev.Tags, nostr.Tag{"e", target.ID})
			if a, ok := addressOf(pick(rng, known).Event); ok {
				ev.Tags = append(ev.Tags, nostr.Tag{"a", fmt.Sprintf("%d:%s:%s", a.kind, a.pubkey, a.d)})
			}
		}
	case ev.Kind == kindDeletion && rng.IntN(4) == 0:
		ev.Kind = kindVanish
	case ev.Kind == kindWrap:
		rec.Recipient = pick(rng, worldAuthors)
	default:
		ev.Content = fmt.Sprintf(`{"name":%q,"about":"%s %s"}`, pick(rng, searchedWords), pick(rng, searchedWords), pick(rng, searchedWords))
	}
	rec.JSON = appendEvent(nil, ev)
	return rec
}

// plainly are the ids that the store itself answers for the filter.
func plainly(t testing.TB, s *cardStore, f nostr.Filter, now time.Time) []string {
	t.Helper()
	ids := []string{}
	records := s.Store.Query(t.Context(), f, now, holdAll)
	if f.Search != "" {
		all := f
		all.Limit = 0
		records = atMost(f, recordsOf(s.matchesStored(t.Context(), all, now, holdAll)))
	}
	for rec, err := range records {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, rec.Event.ID)
	}
	return ids
}

// compareHeld demands that what is held answers random filters as the store
// does.
func compareHeld(t testing.TB, s *cardStore, rng *rand.Rand, known []*Record, now time.Time, filters int) {
	t.Helper()
	var ids []string
	for _, rec := range known {
		ids = append(ids, rec.Event.ID)
	}
	for range filters {
		f := randomFilter(rng, ids)
		if rng.IntN(3) == 0 {
			f.Search, _ = parseSearch(pick(rng, searchedWords) + " " + pick(rng, append([]string{"", "cal", "gr"}, searchedWords...)))
			f.Kinds = searchedKinds
		}
		got := []string{}
		for rec, err := range s.inTime(t.Context(), f, now, holdAll) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, rec.Event.ID)
		}
		if diff := cmp.Diff(plainly(t, s, f, now), got); diff != "" {
			t.Fatalf("filter %s at %d (-store +memory):\n%s", f, now.Unix(), diff)
		}
	}
}

// steps is how long a random history is.
func steps() int {
	if drilltest.Long() {
		return 200
	}
	return 20
}

func TestHeldCardsAnswerAsTheStoreDoes(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
		s := hold(memoryStore(t), holdAll)
		var known []*Record
		now := time.Unix(0, 0)
		for range steps() {
			known = append(known, change(t, s, rng, known, &now)...)
			compareHeld(t, s, rng, known, now, 10)
		}
		again := hold(s.Store, holdAll)
		again.cards.expire(now)
		s.cards.expire(now)
		if diff := cmp.Diff(shelves(again.cards), shelves(s.cards)); diff != "" {
			rt.Fatalf("what is held after a restart (-restarted +before):\n%s", diff)
		}
	})
}

// change makes one random change and returns the events it brought.
func change(t testing.TB, s *cardStore, rng *rand.Rand, known []*Record, now *time.Time) []*Record {
	t.Helper()
	var err error
	switch rng.IntN(12) {
	case 0:
		*now = now.Add(time.Duration(rng.IntN(20)) * time.Second)
		_, err = s.Sweep(t.Context(), *now, 1+rng.IntN(20))
	case 1:
		_, err = s.Erase(t.Context(), pick(rng, worldAuthors), *now, 1+rng.IntN(20))
	case 2:
		var ids []string
		for range min(len(known), 5) {
			ids = append(ids, pick(rng, known).Event.ID)
		}
		_, err = s.Remove(t.Context(), ids)
	default:
		var batch []*Record
		for range 1 + rng.IntN(20) {
			batch = append(batch, randomChange(rng, slices.Concat(known, batch)))
		}
		commit(t, s, batch...)
		return batch
	}
	if err != nil {
		t.Fatal(err)
	}
	return nil
}

// shelves are the sizes of all shelves.
func shelves(c *cards) map[string]int {
	sizes := map[string]int{"ids": len(c.ids), "addresses": len(c.addresses), "bytes": c.bytes}
	for k, s := range c.kinds {
		sizes[fmt.Sprint("kind ", k)] = len(s)
	}
	for k, s := range c.authors {
		sizes["author "+k] = len(s)
	}
	for k, s := range c.tags {
		sizes["tag "+k.name+" "+k.value] = len(s)
	}
	for k, s := range c.words {
		sizes["word "+k] = len(s)
	}
	return sizes
}

func TestNothingIsLeftOfCardsThatWentAway(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	s := hold(memoryStore(t), holdAll)
	for range 50 {
		commit(t, s, randomRecord(rng), randomRecord(rng))
	}
	for _, author := range worldAuthors {
		if _, err := s.Erase(t.Context(), author, time.Unix(100, 0), 1000); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(map[string]int{"ids": 0, "addresses": 0, "bytes": 0}, shelves(s.cards)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestCardsThatNeedTooMuchMemoryAreReadFromTheStore(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 6))
	s := hold(memoryStore(t), 20*cardBytes)
	var known []*Record
	for len(known) < 400 {
		batch := []*Record{randomChange(rng, known), randomChange(rng, known)}
		commit(t, s, batch...)
		known = append(known, batch...)
		if _, bytes := s.cards.held(); bytes > 20*cardBytes {
			t.Fatalf("%d bytes are held", bytes)
		}
	}
	if events, _ := s.cards.held(); events != 0 {
		t.Fatalf("%d events are held, want none", events)
	}
	compareHeld(t, s, rng, known, time.Unix(0, 0), 200)
	for _, limit := range []int{-1, 5 * cardBytes} {
		again := hold(s.Store, limit)
		if events, _ := again.cards.held(); events != 0 {
			t.Errorf("with a limit of %d, %d events are held after a restart", limit, events)
		}
		compareHeld(t, again, rng, known, time.Unix(0, 0), 20)
	}
}

func TestReadingThroughManyCardsIsBounded(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 8))
	s := hold(memoryStore(t), holdAll)
	for range 30 {
		commit(t, s, benchCard(rng))
	}
	for _, f := range []nostr.Filter{{Kinds: []int{kindCard}}, {Kinds: searchedKinds, Search: "default"}} {
		read, broad := 0, false
		for _, err := range s.inTime(t.Context(), f, time.Unix(0, 0), 20) {
			if broad = errors.Is(err, ErrTooBroad); !broad {
				read++
			}
		}
		if read != 20 || !broad {
			t.Errorf("search %q: read %d, too broad %v, want 20 and then too broad", f.Search, read, broad)
		}
	}
}

// TestQueriesSeeWholeCommits runs under the race detector: whatever is read
// while a profile is replaced again and again, it is one version.
func TestQueriesSeeOneVersionWhileItIsReplaced(t *testing.T) {
	s := hold(memoryStore(t), holdAll)
	version := func(at int) *Record {
		ev := &nostr.Event{
			ID: fmt.Sprintf("%064x", at), PubKey: worldAuthors[0], CreatedAt: nostr.Timestamp(at),
			Tags: nostr.Tags{{"t", "red"}}, Content: "red", Sig: fmt.Sprintf("%0128x", 0),
		}
		return &Record{Event: ev, JSON: appendEvent(nil, ev)}
	}
	commit(t, s, version(1))
	var readers sync.WaitGroup
	done := make(chan struct{})
	for _, f := range []nostr.Filter{
		{Kinds: []int{0}},
		{Kinds: []int{0}, Authors: worldAuthors},
		{Kinds: []int{0}, Search: "red"},
		{Kinds: []int{0}, Tags: nostr.TagMap{"t": {"red", "green"}}},
	} {
		readers.Go(func() {
			for {
				n := 0
				for _, err := range s.inTime(context.Background(), f, time.Unix(0, 0), 100) {
					if n++; err != nil {
						t.Error(err)
					}
				}
				if n != 1 {
					t.Errorf("filter %s finds %d versions", f, n)
					return
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	for at := 2; at < 200; at++ {
		commit(t, s, version(at))
	}
	close(done)
	readers.Wait()
}

// TestSearchOfASharedStoreServesNothingRemoved has two processes on one
// database; the first does not hear of what the second erased.
func TestSearchOfASharedStoreFindsWhatOthersStoreAndServesNothingTheyErased(t *testing.T) {
	address := databasetest.NewPostgres(t)
	one, other := hold(databaseStore(t, address), holdAll), databaseStore(t, address)
	ctx, cancel := context.WithCancel(t.Context())
	var following sync.WaitGroup
	following.Go(func() { one.follow(ctx, ignore{}) })
	defer following.Wait()
	defer cancel()

	rng := rand.New(rand.NewPCG(9, 9))
	mine, theirs := benchCard(rng), benchCard(rng)
	for _, rec := range []*Record{mine, theirs} {
		rec.Event.Tags = append(rec.Event.Tags, nostr.Tag{"t", "calendar"})
		rec.JSON = appendEvent(nil, rec.Event)
	}
	commit(t, one, mine)
	commit(t, other, theirs)
	find := func() (ids []string) {
		for rec, err := range one.Query(t.Context(), nostr.Filter{Kinds: searchedKinds, Search: "calendar"}, time.Unix(0, 0), 1000) {
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, rec.Event.ID)
		}
		return ids
	}
	for tries := 0; len(find()) != 2; tries++ {
		if tries > 500 {
			t.Fatalf("found %v", find())
		}
		time.Sleep(20 * time.Millisecond)
	}
	if _, err := other.Erase(t.Context(), mine.Event.PubKey, time.Unix(1, 0), 10); err != nil {
		t.Fatal(err)
	}
	if got := find(); !slices.Equal(got, []string{theirs.Event.ID}) {
		t.Errorf("after the erase: found %v", got)
	}
}

// ignore is a Follower of no interest.
type ignore struct{}

func (ignore) Offer([]*Record)         {}
func (ignore) Round() (settled func()) { return func() {} }
