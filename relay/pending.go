package relay

import (
	"context"
	"sync"
)

// pending counts the EVENTs of one connection whose commit is awaited. One
// goroutine adds; any may wait or report one done.
type pending struct {
	max int

	mu      sync.Mutex
	n       int
	closed  bool
	changed chan struct{} // closed when n becomes smaller; nil when nobody waits
}

func newPending(limit int) *pending { return &pending{max: limit} }

// add counts one event, after waiting until there are less than the limit.
func (p *pending) add(ctx context.Context) error {
	if err := p.until(ctx, p.max-1); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return errStopping
	}
	p.n++
	return nil
}

// close makes every later add fail.
func (p *pending) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
}

// done takes one event back.
func (p *pending) done() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.n--
	if p.changed != nil {
		close(p.changed)
		p.changed = nil
	}
}

// wait returns when no event is awaited.
func (p *pending) wait(ctx context.Context) error { return p.until(ctx, 0) }

// until returns when at most n events are awaited.
func (p *pending) until(ctx context.Context, n int) error {
	for {
		p.mu.Lock()
		if p.n <= n {
			p.mu.Unlock()
			return nil
		}
		if p.changed == nil {
			p.changed = make(chan struct{})
		}
		changed := p.changed
		p.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
