package issuer

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/parleykit/parley/protocol/receipt"
)

// Times of what is kept.
const (
	keepLeast   = 5 * time.Minute
	keepMost    = 24 * time.Hour
	keepDefault = time.Hour
	askPause    = time.Minute // between two questions to one origin
)

// maxOrigins bounds how many origins are remembered.
const maxOrigins = 256

// shelf keeps what origins publish. An origin is asked at most once in
// askPause, whatever it answers and whoever wants to know.
type shelf[V any] struct {
	// fetch asks an origin, and says for how long the answer is good. before is
	// what the last good answer was.
	fetch func(ctx context.Context, origin string, before V) (V, time.Duration, error)
	now   func() time.Time

	flights singleflight.Group
	mu      sync.Mutex
	good    generations[string, kept[V]]
	bad     generations[string, kept[V]] // origins without any good answer so far
}

// kept is the last answer of an origin.
type kept[V any] struct {
	value V         // the last good answer
	err   error     // the reason why value is not to be used now
	asked time.Time // when the origin was last asked
	until time.Time // when value or err ends
}

func newShelf[V any](now func() time.Time, fetch func(context.Context, string, V) (V, time.Duration, error)) *shelf[V] {
	return &shelf[V]{
		now: now, fetch: fetch,
		good: generations[string, kept[V]]{limit: maxOrigins}, bad: generations[string, kept[V]]{limit: 4 * maxOrigins},
	}
}

// get is what the origin publishes. Where that does not suffice the origin is
// asked again, if that was not just done.
func (s *shelf[V]) get(ctx context.Context, origin string, suffices func(V) bool) (V, error) {
	if k, fresh := s.look(origin); fresh && (k.err != nil || suffices(k.value) || s.now().Sub(k.asked) < askPause) {
		return k.value, k.err
	}
	flight := s.flights.DoChan(origin, func() (any, error) { return s.ask(context.WithoutCancel(ctx), origin) })
	select {
	case result := <-flight:
		value, _ := result.Val.(V)
		return value, result.Err
	case <-ctx.Done():
		var none V
		return none, context.Cause(ctx)
	}
}

// look finds what is kept of an origin, and whether it still holds.
func (s *shelf[V]) look(origin string) (k kept[V], fresh bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k, found := s.good.get(origin)
	if !found {
		k, found = s.bad.get(origin)
	}
	return k, found && s.now().Before(k.until)
}

// ask fetches and keeps the answer. A good answer outlives a failure that may
// pass, for as long as it would have been kept anyway.
func (s *shelf[V]) ask(ctx context.Context, origin string) (V, error) {
	before, fresh := s.look(origin)
	value, lifetime, err := s.fetch(ctx, origin, before.value)
	if errors.Is(err, errBusy) {
		return value, err
	}
	now := s.now()
	k := kept[V]{value: value, asked: now, until: now.Add(min(max(lifetime, keepLeast), keepMost))}
	if err != nil {
		k = kept[V]{value: before.value, err: err, asked: now, until: now.Add(askPause)}
		if fresh && before.err == nil && receipt.CodeOf(err).Explain().Retry {
			k.err, k.until = nil, before.until
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, wasGood := s.good.get(origin); wasGood || err == nil {
		s.good.put(origin, k)
	} else {
		s.bad.put(origin, k)
	}
	return value, err
}
