package bridge

import (
	"context"
	"sync"
	"time"

	gonostr "github.com/nbd-wtf/go-nostr"

	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/protocol/canonical"
)

const (
	maxHandles = 64      // events of a relay that are stored at a time
	maxTaken   = 100_000 // ids of a reading that are not handed on again
)

// reading hands on what one Read finds, many events at a time and those of a recipient
// in order. What it has handed on it leaves out the next time.
type reading struct {
	ctx    context.Context // of Read: what was begun is not undone by the end of a question
	fail   context.CancelCauseFunc
	handle func(ctx context.Context, data []byte, next carrier.Cursor) error
	slots  chan struct{}
	group  sync.WaitGroup

	mu    sync.Mutex
	taken map[string]bool          // ids
	tails map[string]chan struct{} // closed when the last event of a recipient is stored
	whole map[string]time.Time     // when everything for a recipient was read
}

func newReading(ctx context.Context, fail context.CancelCauseFunc, handle func(context.Context, []byte, carrier.Cursor) error) *reading {
	return &reading{
		ctx: ctx, fail: fail, handle: handle, slots: make(chan struct{}, maxHandles),
		taken: make(map[string]bool), tails: make(map[string]chan struct{}), whole: make(map[string]time.Time),
	}
}

// take hands an event on without waiting for the disk. A failure ends the reading.
func (r *reading) take(ctx context.Context, ev *gonostr.Event) error {
	data, err := canonical.EncodeEvent(ev)
	if err != nil {
		return nil //nolint:nilerr // the client has decoded it from such bytes
	}
	select {
	case r.slots <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	lane := ev.PubKey
	if tag := ev.Tags.Find("p"); len(tag) > 1 {
		lane = tag[1]
	}
	before, stored := r.enter(ev.ID, lane)
	if stored == nil {
		<-r.slots
		return nil
	}
	r.group.Go(func() {
		defer func() { <-r.slots }()
		defer r.leave(lane, stored)
		if before != nil {
			<-before
		}
		if r.ctx.Err() != nil {
			return
		}
		if err := r.handle(r.ctx, data, ""); err != nil {
			r.fail(err)
		}
	})
	return nil
}

// enter queues an event behind the last of its recipient; stored is nil when it was
// taken before.
func (r *reading) enter(id, lane string) (before, stored chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.taken[id] {
		return nil, nil
	}
	if len(r.taken) >= maxTaken {
		clear(r.taken) // a repetition is only work
	}
	r.taken[id] = true
	before, stored = r.tails[lane], make(chan struct{})
	r.tails[lane] = stored
	return before, stored
}

func (r *reading) leave(lane string, stored chan struct{}) {
	close(stored)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.tails[lane] == stored {
		delete(r.tails, lane)
	}
}

// split tells recipients of whom everything is to be read from the others.
func (r *reading) split(recipients []string, now time.Time) (unread, read []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, pubkey := range recipients {
		if at, ok := r.whole[pubkey]; ok && now.Sub(at).Abs() < wholePeriod {
			read = append(read, pubkey)
		} else {
			unread = append(unread, pubkey)
		}
	}
	return unread, read
}

func (r *reading) mark(recipients []string, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, pubkey := range recipients {
		r.whole[pubkey] = now
	}
}
