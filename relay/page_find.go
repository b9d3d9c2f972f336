package relay

import (
	"context"
	"errors"

	"github.com/nbd-wtf/go-nostr"
)

// errSearchMistake marks a search that cannot be read.
type errSearchMistake struct{ error }

func isSearchMistake(err error) bool {
	_, mistake := errors.AsType[errSearchMistake](err)
	return mistake
}

// findCards returns at most n live cards: all, the newest first, or those that
// a search finds (NIP-50), the best first.
func (r *Relay) findCards(ctx context.Context, asked string, n int) (found []*Record, err error) {
	parsed, err := parseSearch(asked)
	if err != nil {
		return nil, errSearchMistake{err}
	}
	f := nostr.Filter{Kinds: []int{kindCard}, Search: parsed, Limit: n}
	for rec, err := range r.store.Query(ctx, f, r.opts.Now(), r.limits().Scan) {
		if err != nil && !errors.Is(err, ErrTooBroad) {
			return nil, err
		}
		if err == nil {
			found = append(found, rec)
		}
	}
	return found, nil
}

// cardCount is the number of live cards, nil while they are not held in memory.
func (r *Relay) cardCount() *int64 {
	c := r.store.cards
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.gone {
		return nil
	}
	n := int64(len(c.kinds[kindCard]))
	return &n
}
