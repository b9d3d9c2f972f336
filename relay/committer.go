package relay

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

const (
	maxBatch     = 256  // events of one commit
	commitQueue  = 1024 // events waiting for a commit
	fanOutQueue  = 64   // commits waiting to be sent to subscriptions
	sweepBatch   = 500  // expired events removed in one transaction
	commitFailed = "error: the event could not be stored"
)

// errStopping is returned for events that come after the end of Run began.
var errStopping = errors.New("the relay is shutting down")

// committer groups the events of all connections into synced commits, answers
// each after its commit and passes the stored ones on in commit order.
type committer struct {
	relay *Relay
	in    chan *submission
	out   chan committed
	stop  chan struct{} // closed when no connection is left

	started atomic.Uint64 // number of the last commit begun
	fanned  atomic.Uint64 // number of the last commit offered to subscriptions

	shared  bool          // other processes store events too
	rounds  atomic.Uint64 // number of the last round begun (Follower)
	settled atomic.Uint64 // number of the last round that was offered
}

// committed is one commit on its way to the subscriptions, or events of other
// processes, or the end of a round.
type committed struct {
	number uint64 // of the commit, or 0
	round  uint64 // that ended, or 0
	batch  []*submission
	stored []*Record
}

func newCommitter(r *Relay) *committer {
	shared := r.store.shared
	return &committer{
		relay: r, shared: shared,
		in:   make(chan *submission, commitQueue),
		out:  make(chan committed, fanOutQueue),
		stop: make(chan struct{}),
	}
}

// enqueue takes the event; it waits while too many are waiting.
func (c *committer) enqueue(ctx context.Context, sub *submission) error {
	select {
	case c.in <- sub:
		return nil
	case <-ctx.Done():
		return errStopping
	}
}

// commit runs until stop is closed and everything enqueued is committed.
func (c *committer) commit() {
	defer close(c.out)
	for {
		select {
		case first := <-c.in:
			c.commitBatch(c.collect(first))
		case <-c.stop:
			select {
			case first := <-c.in:
				c.commitBatch(c.collect(first))
			default:
				return
			}
		}
	}
}

// collect takes what is waiting, up to one batch.
func (c *committer) collect(first *submission) []*submission {
	batch := append(make([]*submission, 0, len(c.in)+1), first)
	for len(batch) < maxBatch {
		select {
		case sub := <-c.in:
			batch = append(batch, sub)
		default:
			return batch
		}
	}
	return batch
}

// commitBatch stores the batch, answers every event of it and passes it on.
func (c *committer) commitBatch(batch []*submission) {
	r := c.relay
	done := committed{number: c.started.Add(1), batch: batch}
	begin := time.Now()
	outcomes, err := c.store(batch)
	r.metrics.commitDuration.Observe(time.Since(begin).Seconds())
	r.metrics.commitEvents.Observe(float64(len(batch)))
	if err != nil {
		r.log.ErrorContext(r.base, "committing events", "events", len(batch), "err", err)
	}
	for i, sub := range batch {
		a := refusal(commitFailed)
		if err == nil {
			a = answerOf(outcomes[i])
			if outcomes[i] == Stored {
				done.stored = append(done.stored, sub.rec)
			}
		}
		sub.session.answer(sub.rec.Event.ID, a)
	}
	c.out <- done
}

// store calls the store; a panic in it is an error of the whole batch.
func (c *committer) store(batch []*submission) (outcomes []Outcome, err error) {
	ctx := context.Background() // accepted events are stored whoever left
	defer func() {
		if p := recover(); p != nil {
			c.relay.panicked(ctx, p)
			err = errors.New("relay: panic in the store")
		}
	}()
	records := make([]*Record, len(batch))
	for i, sub := range batch {
		records[i] = sub.rec
	}
	return c.relay.store.Commit(ctx, records, c.relay.rules().WrapQuota)
}

// fanOut offers stored events to subscriptions in commit order, until commit
// has returned and everything was offered. Connections wait for it before
// they open or close a subscription, so the EVENTs they sent before are seen.
func (c *committer) fanOut() {
	for done := range c.out {
		before := c.offered()
		for _, rec := range done.stored {
			c.offer(live{rec, before})
		}
		c.fanned.Store(max(before.commits, done.number))
		c.settled.Store(max(before.rounds, done.round))
		for _, sub := range done.batch {
			sub.session.settle(sub)
		}
	}
}

// offered is the position up to which everything was offered.
func (c *committer) offered() position { return position{c.fanned.Load(), c.settled.Load()} }

// seam is the position up to which the events of a query that ended just now
// may be offered yet. Those of other processes are found by the next round at
// the latest.
func (c *committer) seam() position {
	p := position{commits: c.started.Load()}
	if c.shared {
		p.rounds = c.rounds.Load() + 1
	}
	return p
}

// Offer implements Follower.
func (c *committer) Offer(records []*Record) {
	c.relay.metrics.followed.Add(float64(len(records)))
	c.out <- committed{stored: records}
}

// Round implements Follower.
func (c *committer) Round() (settled func()) {
	n := c.rounds.Add(1)
	return func() { c.out <- committed{round: n} }
}

// offer gives one event to the subscriptions it matches.
func (c *committer) offer(l live) {
	defer func() {
		if p := recover(); p != nil {
			c.relay.panicked(context.Background(), p)
		}
	}()
	if !l.rec.expired(c.relay.opts.Now()) {
		c.relay.subscriptions.offer(l)
	}
}

// sweep removes what expired.
func (r *Relay) sweep(ctx context.Context) {
	for {
		n, err := r.store.Sweep(ctx, r.opts.Now(), sweepBatch)
		if err != nil {
			if ctx.Err() == nil {
				r.log.ErrorContext(ctx, "removing expired events", "err", err)
			}
			return
		}
		r.metrics.expired.Add(float64(n))
		if n < sweepBatch {
			return
		}
	}
}
