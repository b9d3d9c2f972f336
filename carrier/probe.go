package carrier

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/parleykit/parley/protocol/envelope"
	"github.com/parleykit/parley/protocol/message"
)

// ErrNoCarrier means that no carrier of the address's scheme is there.
var ErrNoCarrier = errors.New("carrier: no carrier of this scheme")

// probeLife is how long an envelope to oneself may be under way.
const probeLife = 10 * time.Minute

// Probe sends an envelope to the agent itself by one address and waits until
// the carrier of its scheme brings it back, for which Run must be at work. The
// message is an ack that names nothing: it leaves no row. The error is that of
// Send, or of ctx when nothing came in time; sent tells the two apart.
func (e *Engine) Probe(ctx context.Context, to Address) (sent bool, err error) {
	c := e.carriers[to.Scheme]
	if c == nil {
		return false, fmt.Errorf("%w: %s", ErrNoCarrier, to.Scheme)
	}
	id, err := uuid.NewV7()
	if err != nil {
		return false, fmt.Errorf("carrier: making an id: %w", err)
	}
	m, err := message.New(message.TypeAck, e.me, e.me, message.Ack{ID: id.String()}, e.now(), probeLife)
	if err != nil {
		return false, err
	}
	s, err := e.seal(m, e.now())
	if err != nil {
		return false, err
	}
	wrap := s.wraps[0] // an ack fits one
	back := e.probes.expect(probe{wrap.ID, to.Scheme})
	defer e.probes.forget(probe{wrap.ID, to.Scheme})
	t := &target{to: to}
	pieces, err := t.pieces(c, [][]byte{wrap.Bytes})
	if err != nil {
		return false, err
	}
	for _, piece := range pieces {
		if err := e.sendPiece(ctx, c, to, piece); err != nil {
			return false, err
		}
	}
	select {
	case <-back:
		return true, nil
	case <-ctx.Done():
		return true, context.Cause(ctx)
	}
}

// probe is a wrap that shall come back by a carrier.
type probe struct{ wrapID, scheme string }

// probes are those under way.
type probes struct {
	mu      sync.Mutex
	waiting map[probe]chan struct{}
}

func (p *probes) expect(one probe) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiting == nil {
		p.waiting = make(map[probe]chan struct{})
	}
	back := make(chan struct{})
	p.waiting[one] = back
	return back
}

func (p *probes) forget(one probe) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.waiting, one)
}

// arrived reports whether an opened wrap is a probe, and tells who waits.
func (p *probes) arrived(opened *envelope.Opened, scheme string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	one := probe{opened.WrapID, scheme}
	back, waited := p.waiting[one]
	if waited {
		close(back)
		delete(p.waiting, one)
	}
	return waited
}
