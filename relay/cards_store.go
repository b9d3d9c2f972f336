package relay

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/nbd-wtf/go-nostr"
)

// cardStore is a Store whose current cards, profiles and relay lists are held
// in memory as well. Queries for them are answered from there, unless other
// processes write to the store too: then they are read from the store, so that
// what those wrote a moment ago is found.
//
// A filter with a search (as parseSearch gives it) finds by memory in any case;
// of a shared store each event found is read again, so that nothing is served
// that another process removed.
type cardStore struct {
	Store
	cards   *cards
	shared  bool
	log     *slog.Logger
	metrics *metrics

	writing sync.Mutex // held by a change of the store until the cards follow it
}

// holdCards reads the cards of the store. Nobody else of this process writes to
// the store from now on.
func holdCards(ctx context.Context, store Store, limit int, now time.Time, log *slog.Logger, m *metrics) *cardStore {
	_, shared := store.(SharedStore)
	s := &cardStore{Store: store, cards: newCards(limit), shared: shared, log: log, metrics: m}
	if limit <= 0 {
		return s
	}
	// Oldest first, so that each goes to the end of its shelves.
	var records []*Record
	bytes := 0
	for rec, err := range store.Query(ctx, nostr.Filter{Kinds: heldKinds}, now, 1<<40) {
		if err != nil {
			log.ErrorContext(ctx, "reading the cards, they are not held in memory", "err", err)
			s.cards.letGo()
			return s
		}
		records = append(records, rec)
		if bytes += len(rec.JSON); bytes > limit {
			break
		}
	}
	slices.Reverse(records)
	s.apply(records)
	return s
}

func (s *cardStore) apply(records []*Record) {
	if !s.cards.apply(records) {
		s.log.Warn("the cards need more memory than they may have; they are read from the store until the next start",
			"limit_bytes", s.cards.limit)
	}
	s.measure()
}

func (s *cardStore) measure() {
	events, bytes := s.cards.held()
	s.metrics.cards.Set(float64(events))
	s.metrics.cardBytes.Set(float64(bytes))
}

// Where a query was answered, the closed label set of parley_relay_reads_total.
const (
	readMemory = "memory"
	readStore  = "store"
	readBoth   = "both"
)

// follow is Follow of a shared store; the cards come to know what others
// stored before it is offered.
func (s *cardStore) follow(ctx context.Context, to Follower) {
	s.Store.(SharedStore).Follow(ctx, cardFollower{to, s})
}

type cardFollower struct {
	Follower
	store *cardStore
}

// Offer implements Follower.
func (f cardFollower) Offer(records []*Record) {
	f.store.apply(records)
	f.Follower.Offer(records)
}

// Commit implements Store.
func (s *cardStore) Commit(ctx context.Context, batch []*Record, quota int) (outcomes []Outcome, err error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	known := false
	defer func() {
		if !known { // a panic in the store: what it did is not known
			s.cards.letGo()
		}
	}()
	outcomes, err = s.Store.Commit(ctx, batch, quota)
	known = true
	if err != nil {
		return nil, err
	}
	stored := make([]*Record, 0, len(batch))
	for i, rec := range batch {
		if outcomes[i] == Stored {
			stored = append(stored, rec)
		}
	}
	s.apply(stored)
	return outcomes, nil
}

// Sweep implements Store.
func (s *cardStore) Sweep(ctx context.Context, now time.Time, limit int) (int, error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	n, err := s.Store.Sweep(ctx, now, limit)
	s.cards.expire(now)
	s.measure()
	return n, err
}

// Remove implements Store.
func (s *cardStore) Remove(ctx context.Context, ids []string) (int, error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	n, err := s.Store.Remove(ctx, ids)
	if err == nil {
		s.cards.removeIDs(ids)
		s.measure()
	}
	return n, err
}

// Erase implements Store. Which events of the person were removed is read.
func (s *cardStore) Erase(ctx context.Context, person string, now time.Time, limit int) (int, error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	n, err := s.Store.Erase(ctx, person, now, limit)
	if err != nil {
		return n, err
	}
	for part := range slices.Chunk(s.cards.involving(person), maxDirect) {
		left := map[string]bool{}
		for rec, err := range s.Store.Query(ctx, nostr.Filter{IDs: part}, time.Unix(0, 0), 1<<40) {
			if err != nil {
				s.cards.letGo() // nothing erased is served
				return n, err
			}
			left[rec.Event.ID] = true
		}
		s.cards.removeIDs(slices.DeleteFunc(part, func(id string) bool { return left[id] }))
	}
	return n, nil
}

// Query implements Store. What a search finds comes best first.
func (s *cardStore) Query(ctx context.Context, f nostr.Filter, now time.Time, scan int) iter.Seq2[*Record, error] {
	if f.Search != "" {
		return s.ranked(ctx, f, now, scan)
	}
	held, rest := splitKinds(f, heldKinds)
	switch {
	case s.shared || f.Kinds == nil || len(held.Kinds) == 0:
		s.metrics.reads.WithLabelValues(readStore).Inc()
		return s.Store.Query(ctx, f, now, scan)
	case len(rest.Kinds) == 0:
		s.metrics.reads.WithLabelValues(readMemory).Inc()
		return s.held(ctx, f, now, scan)
	}
	s.metrics.reads.WithLabelValues(readBoth).Inc()
	return atMost(f, inOrder([]iter.Seq2[*Record, error]{
		s.held(ctx, held, now, scan), s.Store.Query(ctx, rest, now, scan),
	}))
}

// splitKinds splits a filter with kinds into that for the kinds listed and
// that for its others.
func splitKinds(f nostr.Filter, listed []int) (in, out nostr.Filter) {
	in, out = f, f
	in.Kinds, out.Kinds = []int{}, []int{}
	for _, k := range f.Kinds {
		if slices.Contains(listed, k) {
			in.Kinds = append(in.Kinds, k)
		} else {
			out.Kinds = append(out.Kinds, k)
		}
	}
	return in, out
}

// atMost keeps the limit of a filter.
func atMost(f nostr.Filter, records iter.Seq2[*Record, error]) iter.Seq2[*Record, error] {
	if f.Limit <= 0 && !f.LimitZero {
		return records
	}
	return first(f.Limit, records)
}

// held answers from memory, or from the store when nothing is held.
func (s *cardStore) held(ctx context.Context, f nostr.Filter, now time.Time, scan int) iter.Seq2[*Record, error] {
	return func(yield func(*Record, error) bool) {
		found, err := s.cards.find(f, now, scan)
		if errors.Is(err, errNotHeld) {
			s.Store.Query(ctx, f, now, scan)(yield)
			return
		}
		for _, it := range found {
			if !yield(it.Record, nil) {
				return
			}
		}
		if err != nil {
			yield(nil, err)
		}
	}
}

// inTime is Query in the order of answers, also for a search.
func (s *cardStore) inTime(ctx context.Context, f nostr.Filter, now time.Time, scan int) iter.Seq2[*Record, error] {
	if f.Search == "" {
		return s.Query(ctx, f, now, scan)
	}
	all := f
	all.Limit = 0
	return atMost(f, s.reread(ctx, recordsOf(s.matches(ctx, all, now, scan)), now))
}

// ranked is Query for a filter with a search.
func (s *cardStore) ranked(ctx context.Context, f nostr.Filter, now time.Time, scan int) iter.Seq2[*Record, error] {
	return func(yield func(*Record, error) bool) {
		if f.LimitZero {
			return
		}
		all := f
		all.Limit = 0
		search := newSearch(f.Search)
		var found []*heldCard
		for it, err := range s.matches(ctx, all, now, scan) {
			if err != nil {
				yield(nil, err)
				return
			}
			if found = append(found, it); f.Limit > 0 && len(found) >= maxRanked+f.Limit {
				rank(found, search) // a later one of the same score comes behind
				found = found[:f.Limit]
			}
		}
		rank(found, search)
		best := func(yield func(*Record, error) bool) {
			for _, it := range found {
				if !yield(it.Record, nil) {
					return
				}
			}
		}
		atMost(f, s.reread(ctx, best, now))(yield)
	}
}

// maxRanked bounds what a search holds before it drops the worst.
const maxRanked = 1 << 16

// matches yields the cards that a filter with a search fits, in the order of
// answers.
func (s *cardStore) matches(ctx context.Context, f nostr.Filter, now time.Time, scan int) iter.Seq2[*heldCard, error] {
	return func(yield func(*heldCard, error) bool) {
		found, err := s.cards.find(f, now, scan)
		if errors.Is(err, errNotHeld) {
			s.matchesStored(ctx, f, now, scan)(yield)
			return
		}
		for _, it := range found {
			if !yield(it, nil) {
				return
			}
		}
		if err != nil {
			yield(nil, err)
		}
	}
}

// matchesStored is matches without the help of memory.
func (s *cardStore) matchesStored(ctx context.Context, f nostr.Filter, now time.Time, scan int) iter.Seq2[*heldCard, error] {
	search := newSearch(f.Search)
	return func(yield func(*heldCard, error) bool) {
		for rec, err := range s.Store.Query(ctx, f, now, scan) {
			if err != nil {
				yield(nil, err)
				return
			}
			if t := textOf(rec.Event); search.score(t) > 0 && !yield(&heldCard{rec, t}, nil) {
				return
			}
		}
	}
}

func recordsOf(found iter.Seq2[*heldCard, error]) iter.Seq2[*Record, error] {
	return func(yield func(*Record, error) bool) {
		for it, err := range found {
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(it.Record, nil) {
				return
			}
		}
	}
}

// rereadEvents is how many found events are read again at one time.
const rereadEvents = 64

// reread leaves out what a shared store does not hold any more; the order
// stays.
func (s *cardStore) reread(ctx context.Context, found iter.Seq2[*Record, error], now time.Time) iter.Seq2[*Record, error] {
	if !s.shared {
		return found
	}
	return func(yield func(*Record, error) bool) {
		var waiting []string
		flush := func() (more bool) {
			stored := map[string]*Record{}
			for rec, err := range s.Store.Query(ctx, nostr.Filter{IDs: waiting}, now, 1<<40) {
				if err != nil {
					yield(nil, err)
					return false
				}
				stored[rec.Event.ID] = rec
			}
			for _, id := range waiting {
				if rec := stored[id]; rec != nil && !yield(rec, nil) {
					return false
				}
			}
			waiting = waiting[:0]
			return true
		}
		for rec, err := range found {
			if err != nil {
				if flush() {
					yield(nil, err)
				}
				return
			}
			if waiting = append(waiting, rec.Event.ID); len(waiting) == rereadEvents && !flush() {
				return
			}
		}
		if len(waiting) > 0 {
			flush()
		}
	}
}
