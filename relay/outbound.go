package relay

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/coder/websocket"
)

var (
	// errOutboundClosed says that nothing more is sent on this connection.
	errOutboundClosed = errors.New("relay: connection is closing")
	// errTick says that pop waited until the tick.
	errTick = errors.New("relay: tick")
)

// outgoing is one message to the peer: a whole message in head, or the head
// of an EVENT and an event, which other connections may send as well.
type outgoing struct {
	head  []byte
	rec   *Record
	close *websocket.CloseError // last message: close the connection
}

func (o outgoing) size() int {
	if o.rec == nil {
		return len(o.head)
	}
	return len(o.head) + len(o.rec.JSON)
}

// appendTo appends the message as it goes over the wire.
func (o outgoing) appendTo(buf []byte) []byte {
	buf = append(buf, o.head...)
	if o.rec != nil {
		buf = append(append(buf, o.rec.JSON...), ']')
	}
	return buf
}

// outbound is the queue of messages to one peer, bounded by number and bytes.
// Many goroutines push, one pops.
type outbound struct {
	maxMessages, maxBytes int
	account               *account

	mu     sync.Mutex
	queue  []outgoing
	bytes  int
	closed bool
	ready  chan struct{} // one token: the queue may hold something
	room   chan struct{} // one token: the queue may have room
}

func newOutbound(maxMessages, maxBytes int, a *account) *outbound {
	return &outbound{
		maxMessages: maxMessages, maxBytes: maxBytes, account: a,
		ready: make(chan struct{}, 1), room: make(chan struct{}, 1),
	}
}

// push queues o without waiting and reports whether there was room. A closed
// queue takes everything and sends nothing.
func (q *outbound) push(o outgoing) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return true
	}
	if len(q.queue) >= q.maxMessages || (q.bytes+o.size() > q.maxBytes && q.bytes > 0) {
		return false
	}
	q.add(o)
	return true
}

// pushWait queues o as soon as the queue is less than half full: the other
// half stays free for live events. Only one goroutine of a connection calls
// it.
func (q *outbound) pushWait(ctx context.Context, o outgoing) error {
	if err := q.gather(ctx, o); err != nil {
		return err
	}
	signal(q.ready)
	return nil
}

// gather is pushWait for a message that others follow at once: it may wait for
// them until there is enough for one write. The last one comes by pushWait.
func (q *outbound) gather(ctx context.Context, o outgoing) error {
	for {
		q.mu.Lock()
		if q.closed {
			q.mu.Unlock()
			return errOutboundClosed
		}
		if 2*len(q.queue) < q.maxMessages && 2*q.bytes < q.maxBytes {
			q.append(o)
			enough := q.bytes >= popBytes
			q.mu.Unlock()
			if enough {
				signal(q.ready)
			}
			return nil
		}
		q.mu.Unlock()
		signal(q.ready)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-q.room:
		}
	}
}

// finish queues the end of the connection behind everything that waits.
func (q *outbound) finish(code websocket.StatusCode, reason string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.closed {
		q.add(outgoing{close: &websocket.CloseError{Code: code, Reason: reason}})
		q.closed = true
	}
}

// add appends o and tells so; the caller holds the lock.
func (q *outbound) add(o outgoing) {
	q.append(o)
	signal(q.ready)
}

func (q *outbound) append(o outgoing) {
	q.queue = append(q.queue, o)
	q.bytes += o.size()
	q.account.hold(o)
}

// end gives back what waits and takes nothing more.
func (q *outbound) end() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, o := range q.queue {
		q.account.release(o)
	}
	q.queue, q.bytes, q.closed = nil, 0, true
}

// finished reports whether finish was called.
func (q *outbound) finished() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.closed
}

// Bounds of what pop takes at once, so that a full queue is not doubled on its
// way out.
const (
	popMessages = 256
	popBytes    = 64 << 10
	// keepMessages is how long a list may be that an idle connection keeps.
	keepMessages = 32
)

// pop waits for messages, or for a tick, and appends the next ones to batch: at
// least one, more as far as they are small.
func (q *outbound) pop(ctx context.Context, tick <-chan time.Time, batch []outgoing) ([]outgoing, error) {
	for {
		q.mu.Lock()
		if len(q.queue) > 0 {
			batch = q.take(batch)
			q.mu.Unlock()
			return batch, nil
		}
		q.mu.Unlock()
		select {
		case <-ctx.Done():
			return batch, ctx.Err()
		case <-tick:
			return batch, errTick
		case <-q.ready:
		}
	}
}

// take moves the next messages to batch; the caller holds the lock.
func (q *outbound) take(batch []outgoing) []outgoing {
	n, bytes := 0, 0
	for n < len(q.queue) && n < popMessages && (n == 0 || bytes+q.queue[n].size() <= popBytes) {
		bytes += q.queue[n].size()
		n++
	}
	batch = append(batch, q.queue[:n]...)
	clear(q.queue[:n])
	switch {
	case n < len(q.queue):
		q.queue = q.queue[n:]
	case cap(q.queue) <= keepMessages:
		q.queue = q.queue[:0]
	default:
		q.queue = nil
	}
	q.bytes -= bytes
	signal(q.room)
	return batch
}

// signal leaves a token unless one is there.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
