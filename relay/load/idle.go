package load

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/parleykit/parley/protocol/card"
)

// settle is how long a relay has to come to rest before its memory is read.
const settle = time.Second

// idle opens n connections with a subscription each, which do nothing.
// Result.Growth is what they take together.
func (r *run) idle(n int) (Result, error) {
	if err := r.rest(settle); err != nil {
		return Result{}, err
	}
	watch := r.start()
	clients, err := r.connect(n)
	if err != nil {
		return Result{}, err
	}
	defer closeAll(clients)
	for i, c := range clients {
		filter := fmt.Sprintf(`{"authors":["%064x"],"kinds":[%d]}`, i+1, card.Kind)
		if _, err := c.ask(request("idle", filter)); err != nil {
			return Result{}, err
		}
	}
	result := watch.stop("connections", n, nil)
	if err := r.rest(settle); err != nil {
		return Result{}, err
	}
	after := usageOf(r.opts.PID)
	result.RelayMemory, result.Growth = after.memory, after.memory-watch.relay.memory
	return result, nil
}

// rest waits.
func (r *run) rest(d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-r.ctx.Done():
		return r.ctx.Err()
	}
}

// soak publishes at half of the rate that n connections reach. Result.Growth is
// by how much the relay's memory grew in the second half.
func (r *run) soak(n int) (Result, error) {
	fastest, err := r.ingest(n)
	if err != nil {
		return Result{}, err
	}
	clients, err := r.connect(n)
	if err != nil {
		return Result{}, err
	}
	defer closeAll(clients)
	ctx, cancel := context.WithTimeout(r.ctx, r.opts.Soak)
	defer cancel()
	events, err := r.supply(ctx, fastest.Rate/2)
	if err != nil {
		return Result{}, err
	}
	middle := make(chan int64, 1)
	go func() {
		_ = r.rest(r.opts.Soak / 2)
		middle <- usageOf(r.opts.PID).memory
	}()
	watch := r.start()
	t, err := r.loop(r.opts.Soak, clients, func(_ int, c *client) error {
		ev, open := <-events
		if !open {
			return errEnough
		}
		return c.publish(ev)
	})
	if err != nil {
		return Result{}, err
	}
	result := watch.result("cards", t)
	result.Growth = result.RelayMemory - <-middle
	return result, nil
}

// Cards of a soak: so many keys with so many cards each, published anew in turn,
// so that what the relay keeps does not grow.
const (
	soakKeys  = 20
	soakCards = 100
)

// supply makes new versions of the same cards at a rate, in a second, until ctx
// ends.
func (r *run) supply(ctx context.Context, rate float64) (<-chan signed, error) {
	writers := make([]author, soakKeys)
	for i := range writers {
		var err error
		if writers[i], err = newAuthor(); err != nil {
			return nil, err
		}
	}
	events := make(chan signed)
	begin := time.Now()
	go func() {
		defer close(events)
		for i := 0; r.until(ctx, begin.Add(time.Duration(float64(i)/rate*float64(time.Second)))); i++ {
			w, round := writers[i%soakKeys], i/(soakKeys*soakCards)
			name := "n" + strconv.Itoa(i/soakKeys%soakCards)
			ev, err := sealCard(i, name, w.public, w.secret, begin.Add(time.Duration(round)*time.Second-time.Hour))
			if err != nil {
				return
			}
			select {
			case events <- ev:
			case <-ctx.Done():
			}
		}
	}()
	return events, nil
}

// until waits for a time and reports false when ctx ends before.
func (r *run) until(ctx context.Context, at time.Time) bool {
	select {
	case <-time.After(time.Until(at)):
		return true
	case <-ctx.Done():
		return false
	}
}
