package load

import (
	"sync/atomic"
	"time"
)

// Events signed for one second of ingest: more than a connection that waits for
// each OK, or all that two processors can check, will ask for.
const (
	perConnection = 3000
	perSecond     = 12_000
)

// ingest publishes cards from n connections, each waits for its OK.
func (r *run) ingest(n int) (Result, error) {
	count := int(min(perConnection*float64(n), perSecond) * r.opts.Duration.Seconds())
	return r.publishAll(n, max(count, n), r.opts.Duration)
}

// publishAll publishes up to count cards from n connections.
func (r *run) publishAll(n, count int, limit time.Duration) (Result, error) {
	events, err := r.makeCards(count)
	if err != nil {
		return Result{}, err
	}
	clients, err := r.connect(n)
	if err != nil {
		return Result{}, err
	}
	defer closeAll(clients)
	stored := make([][]string, n)
	held := make([]int, n) // the card a worker has in hand, 0 for none, else one more than its place
	var next atomic.Int64
	watch := r.start()
	t, err := r.loop(limit, clients, func(w int, c *client) error {
		if held[w] == 0 {
			held[w] = int(next.Add(1))
		}
		if held[w] > len(events) {
			return errEnough
		}
		ev := events[held[w]-1]
		if err := c.publish(ev); err != nil {
			return err // a refused card is tried again
		}
		held[w] = 0
		stored[w] = append(stored[w], ev.author)
		return nil
	})
	if err != nil {
		return Result{}, err
	}
	r.made += min(int(next.Load()), len(events))
	result := watch.result("cards", t)
	for _, authors := range stored {
		r.cards = append(r.cards, authors...)
	}
	return result, nil
}

// makeCards makes the next cards.
func (r *run) makeCards(count int) ([]signed, error) {
	now := time.Now()
	return many(count, func(i int) (signed, error) { return newCard(r.made+i, now) })
}

// fill stores cards until there are enough for look-ups.
func (r *run) fill() error {
	missing := r.opts.Cards - len(r.cards)
	if missing <= 0 {
		return nil
	}
	_, err := r.publishAll(min(64, missing), missing, 5*time.Minute)
	return err
}
