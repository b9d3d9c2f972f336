package ntfybridge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/carrier/bridge"
	"github.com/parleykit/parley/internal/egress"
	"github.com/parleykit/parley/protocol/canonical"
	"github.com/parleykit/parley/protocol/envelope"
)

// SideOptions of NewSide. Dialer is required.
type SideOptions struct {
	// Topics are the full addresses that are read.
	Topics []string
	// Recipients are the topics that whole envelopes for a key go to.
	Recipients map[string]string
	// Target is the topic on the card of a key, which gets wake-ups; "" for
	// none. It may be nil.
	Target func(ctx context.Context, pubkey string) (string, error)

	Tokens     map[string]Credential // by origin
	Allowances map[string]Allowance  // by origin
	Dialer     *egress.Dialer        // the topics of cards go through its FromCard
	MaxInline  int                   // frames of one envelope to a server without an allowance; 0 is 4
	Binary     bool                  // publishes with up=1

	Logger     *slog.Logger          // nil discards
	Registerer prometheus.Registerer // nil leaves the metrics unregistered
	Now        func() time.Time      // nil is time.Now

	Reconnect carrier.Backoff // between two streams; zero fields are 1 s and 2 min
}

// Side is ntfy as one side of a bridge. It implements bridge.Side.
type Side struct {
	*Carrier
	recipients map[string]Address
	target     func(ctx context.Context, pubkey string) (string, error)
	now        func() time.Time

	mu   sync.Mutex
	sent map[string]int // frames of an event that were taken, by its id
}

var _ bridge.Side = (*Side)(nil)

// NewSide makes a side; it connects to nothing. Close it when it is no longer
// needed.
func NewSide(opts SideOptions) (*Side, error) {
	c, err := New(Options{
		Topics: opts.Topics, Tokens: opts.Tokens, Allowances: opts.Allowances, Dialer: opts.Dialer, MaxInline: opts.MaxInline,
		Binary: opts.Binary, Logger: opts.Logger, Registerer: opts.Registerer, Now: opts.Now, Reconnect: opts.Reconnect,
	})
	if err != nil {
		return nil, err
	}
	s := &Side{Carrier: c, recipients: make(map[string]Address), target: opts.Target, now: c.ear.client.now, sent: make(map[string]int)}
	for pubkey, text := range opts.Recipients {
		address, err := ParseAddress(text)
		if err != nil || !canonical.IsHex(pubkey, 32) {
			return nil, fmt.Errorf("ntfybridge: a recipient's topic: %w", errors.Join(err, errKey(pubkey)))
		}
		s.recipients[pubkey] = address
		c.ear.client.knows([]string{address.Origin})
	}
	return s, nil
}

func errKey(pubkey string) error {
	if canonical.IsHex(pubkey, 32) {
		return nil
	}
	return errors.New("the key is not 64 hex characters")
}

// Name implements bridge.Side.
func (s *Side) Name() string { return Scheme }

// Read implements bridge.Side: it hands on the envelopes and frames of the
// topics, and nothing with a cursor alone.
func (s *Side) Read(ctx context.Context, from carrier.Cursor, handle func(ctx context.Context, data []byte, next carrier.Cursor) error) error {
	return s.Receive(ctx, from, handle)
}

// Write implements bridge.Side. It gives the item to its recipient: the
// envelope itself to a topic that is configured for them, or there a pointer if
// it is too long, or else a wake-up to the topic of their card.
func (s *Side) Write(ctx context.Context, item bridge.Item) error {
	switch {
	case item.Kind != envelope.KindWrap || !canonical.IsHex(item.Recipient, 32) || !canonical.IsHex(item.ID, 32):
		return fmt.Errorf("%w: only envelopes go to ntfy", carrier.ErrPermanent)
	case !item.Expires.IsZero() && !s.now().Before(item.Expires):
		return fmt.Errorf("%w: the envelope has expired", carrier.ErrPermanent)
	}
	to, ok := s.recipients[item.Recipient]
	if !ok {
		return s.wake(ctx, item.Recipient)
	}
	if s.sender.framesOf(len(item.Event)) > s.sender.maxInline(to.Origin) {
		return s.sender.wakeUp(ctx, to, Pointer(item.ID))
	}
	return s.writeFrames(ctx, to, item.ID, item.Event)
}

// wake gives a wake-up to the topic of a card.
func (s *Side) wake(ctx context.Context, recipient string) error {
	if s.target == nil {
		return fmt.Errorf("%w: no topic for the recipient", carrier.ErrPermanent)
	}
	text, err := s.target(ctx, recipient)
	if err != nil {
		return fmt.Errorf("%w: looking up the recipient's topic: %w", carrier.ErrTransient, err)
	}
	if text == "" {
		return fmt.Errorf("%w: no topic for the recipient", carrier.ErrPermanent)
	}
	to, err := ParseAddress(text)
	if err != nil {
		return err
	}
	return s.sender.wakeUp(ctx, to, WakeUp)
}

// writeFrames publishes an envelope, in frames if it is too long, and goes on
// after those that were taken in an earlier try.
func (s *Side) writeFrames(ctx context.Context, to Address, id string, event []byte) error {
	pieces := [][]byte{event}
	if len(event) > s.sender.frame() {
		var err error
		if pieces, err = carrier.Split(event, s.sender.frame(), !s.sender.binary); err != nil {
			return fmt.Errorf("%w: %w", carrier.ErrPermanent, err)
		}
	}
	for i := s.taken(id); i < len(pieces); i++ {
		if err := s.sender.publish(ctx, to, pieces[i]); err != nil {
			s.take(id, i)
			return err
		}
	}
	s.take(id, 0)
	return nil
}

// maxStarted bounds the events whose first frames are remembered as taken.
const maxStarted = 1024

func (s *Side) taken(id string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sent[id]
}

// take remembers how many frames of an event were taken; none forgets it.
func (s *Side) take(id string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sent, id)
	if n == 0 {
		return
	}
	if len(s.sent) >= maxStarted {
		clear(s.sent) // their frames are sent again
	}
	s.sent[id] = n
}
