package bridge

import (
	"context"
	"sync"
	"time"
)

// waiting is a queued item without its bytes.
type waiting struct {
	seq      int64
	lane     string
	attempts int
	due      int64 // unix milliseconds
	size     int64
}

// queue is what waits in one direction, a chain for each recipient: the first of a
// chain is written before the next. The table holds the same, and the events.
type queue struct {
	now     func() time.Time
	changed chan struct{} // signalled when a chain is ready

	mu    sync.Mutex
	known map[int64]bool // until the note of their end is stored
	lanes map[string][]*waiting
	ready []string // chains whose first may be written
	rest  time.Time
	bytes int64
}

func newQueue(now func() time.Time) *queue {
	return &queue{now: now, changed: make(chan struct{}, 1), known: make(map[int64]bool), lanes: make(map[string][]*waiting)}
}

// add appends an item to its chain; false when it is known.
func (q *queue) add(w *waiting) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.known[w.seq] {
		return false
	}
	q.known[w.seq] = true
	q.bytes += w.size
	chain := q.lanes[w.lane]
	q.lanes[w.lane] = append(chain, w)
	if len(chain) == 0 {
		q.schedule(w)
	}
	return true
}

// schedule makes a chain ready at the time of its first; the caller holds mu.
func (q *queue) schedule(w *waiting) {
	if wait := time.UnixMilli(w.due).Sub(q.now()); w.due > 0 && wait > 0 {
		time.AfterFunc(wait, func() {
			q.mu.Lock()
			defer q.mu.Unlock()
			q.push(w.lane)
		})
		return
	}
	q.push(w.lane)
}

func (q *queue) push(lane string) {
	q.ready = append(q.ready, lane)
	q.signal()
}

func (q *queue) signal() {
	select {
	case q.changed <- struct{}{}:
	default:
	}
}

// take waits for items to write and returns up to n, each of another chain; none
// when ctx ended.
func (q *queue) take(ctx context.Context, n int) []*waiting {
	for {
		q.mu.Lock()
		rest := q.rest.Sub(q.now())
		if len(q.ready) > 0 && rest <= 0 {
			n = min(n, len(q.ready))
			taken := make([]*waiting, n)
			for i, lane := range q.ready[:n] {
				taken[i] = q.lanes[lane][0]
			}
			q.ready = q.ready[n:]
			q.mu.Unlock()
			return taken
		}
		q.mu.Unlock()
		if rest > 0 {
			pause(ctx, min(rest, time.Second))
		}
		if rest <= 0 {
			select {
			case <-q.changed:
			case <-ctx.Done():
			}
		}
		if ctx.Err() != nil {
			return nil
		}
	}
}

// next makes a chain go on behind its first, which was taken.
func (q *queue) next(w *waiting) {
	q.mu.Lock()
	defer q.mu.Unlock()
	chain := q.lanes[w.lane][1:]
	if len(chain) == 0 {
		delete(q.lanes, w.lane)
		return
	}
	q.lanes[w.lane] = chain
	q.schedule(chain[0])
}

// again schedules the first of a chain, which was taken, once more.
func (q *queue) again(w *waiting, due int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	w.attempts++
	w.due = due
	q.schedule(w)
}

// forget ends an item whose end is stored.
func (q *queue) forget(w *waiting) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.known, w.seq)
	q.bytes -= w.size
}

// pauseUntil lets everything wait.
func (q *queue) pauseUntil(at time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if at.After(q.rest) {
		q.rest = at
	}
	q.signal()
}

func (q *queue) size() (items int, bytes int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.known), q.bytes
}
