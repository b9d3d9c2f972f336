package ntfybridge

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/parleykit/parley/carrier"
)

// Allowance is what a server of one's own takes more than a public one.
type Allowance struct {
	Inline int  // frames of one envelope; 0 is Options.MaxInline
	Rate   Rate // zero fields are those of a stock server
}

const (
	maxBuckets   = 1024 // servers whose limits are remembered
	publicInline = 4    // frames of one envelope on a public server
)

// publisher publishes within the limits of each server.
type publisher struct {
	client     *Client
	allowances map[string]Allowance // by origin
	inline     int
	binary     bool

	mu      sync.Mutex
	buckets map[string]*bucket // by origin
	woken   map[Address]time.Time
}

func newPublisher(client *Client, allowances map[string]Allowance, inline int, binary bool) (*publisher, error) {
	if inline <= 0 {
		inline = publicInline
	}
	p := &publisher{
		client: client, inline: inline, binary: binary, allowances: make(map[string]Allowance),
		buckets: make(map[string]*bucket), woken: make(map[Address]time.Time),
	}
	for origin, allowance := range allowances {
		parsed, err := ParseOrigin(origin)
		if err != nil {
			return nil, fmt.Errorf("ntfybridge: the origin of an allowance: %w", err)
		}
		p.allowances[parsed] = allowance
	}
	return p, nil
}

func (p *publisher) bucket(origin string) *bucket {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := p.buckets[origin]
	if b == nil {
		if len(p.buckets) >= maxBuckets {
			for other := range p.buckets {
				delete(p.buckets, other)
				break
			}
		}
		b = newBucket(p.allowances[origin].Rate, p.client.now())
		p.buckets[origin] = b
	}
	return b
}

// frame is the most bytes of one message.
func (p *publisher) frame() int {
	if p.binary {
		return MaxBinary
	}
	return MaxText
}

// maxInline is how many frames of one envelope a server gets.
func (p *publisher) maxInline(origin string) int {
	if own := p.allowances[origin].Inline; own > 0 {
		return own
	}
	return p.inline
}

// framesOf is how many messages an envelope of a size takes.
func (p *publisher) framesOf(size int) int {
	if size <= p.frame() {
		return 1
	}
	payload := MaxBinary - carrier.FrameHeader
	if !p.binary {
		payload = MaxText/4*3 + MaxText%4*3/4 - carrier.FrameHeader
	}
	return (size + payload - 1) / payload
}

// checkInline refuses a frame of an envelope that takes more messages than the
// server gets.
func (p *publisher) checkInline(origin string, data []byte) error {
	size := len(data)
	if carrier.IsFrame(data) {
		f, err := carrier.ParseFrame(data)
		if err != nil {
			return fmt.Errorf("%w: %w", carrier.ErrPermanent, err)
		}
		size = f.Total
	}
	if n, most := p.framesOf(size), p.maxInline(origin); n > most {
		return fmt.Errorf("%w: an envelope in %d frames, this server gets %d", carrier.ErrPermanent, n, most)
	}
	return nil
}

// publish gives one body to a topic, unless the server's limit is used up.
func (p *publisher) publish(ctx context.Context, to Address, body []byte) error {
	return p.within(to.Origin, func() error {
		_, err := p.client.publish(ctx, to, body, p.binary)
		return err
	})
}

// within does one publication inside the server's limits.
func (p *publisher) within(origin string, publish func() error) error {
	b := p.bucket(origin)
	err := error(nil)
	if wait := b.take(p.client.now()); wait > 0 {
		err = &carrier.RateLimited{After: wait}
	} else if err = publish(); err == nil {
		b.accepted()
	}
	var answer *answerError
	if errors.As(err, &answer) && answer.status == http.StatusTooManyRequests {
		err = &carrier.RateLimited{After: b.refused(p.client.now(), answer.after)}
	}
	p.client.metrics.published.WithLabelValues(publishResult(err)).Inc()
	return err
}

const (
	wakePause     = 30 * time.Second // between two wake-ups to one topic
	maxRemembered = 10_000
)

// wakeUp gives a wake-up to a topic, unless it had one just now: whoever is
// awake reads everything.
func (p *publisher) wakeUp(ctx context.Context, to Address, text string) error {
	if !p.claimWakeUp(to) {
		return nil
	}
	err := p.publish(ctx, to, []byte(text))
	if err != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.woken, to)
	}
	return err
}

func (p *publisher) claimWakeUp(to Address) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.client.now()
	if last, known := p.woken[to]; known && now.Before(last.Add(wakePause)) && !now.Before(last) {
		return false
	}
	if len(p.woken) >= maxRemembered {
		for other, last := range p.woken {
			if !now.Before(last.Add(wakePause)) || now.Before(last) {
				delete(p.woken, other)
			}
		}
		if len(p.woken) >= maxRemembered {
			clear(p.woken)
		}
	}
	p.woken[to] = now
	return true
}
