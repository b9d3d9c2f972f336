package carrier

import (
	"errors"
	"math/rand/v2"
	"sync"
	"time"
)

// Backoff is exponential with full jitter: the n-th delay is chosen evenly
// between 0 and the smaller of Base·2ⁿ and Cap.
type Backoff struct {
	Base time.Duration // bound of the first delay
	Cap  time.Duration // bound of every delay
	// Jitter chooses a delay up to its argument; nil chooses evenly at random.
	Jitter func(bound time.Duration) time.Duration
}

func (b *Backoff) setDefaults(base, limit time.Duration) {
	setDefault(&b.Base, base)
	setDefault(&b.Cap, limit)
}

// Delay is how long to wait after n failures in a row have come before this one.
func (b Backoff) Delay(n int) time.Duration {
	bound := b.Cap
	if n < 30 && b.Base<<n > 0 {
		bound = min(b.Cap, b.Base<<n)
	}
	if b.Jitter != nil {
		return b.Jitter(bound)
	}
	return rand.N(bound + 1)
}

// Bounds of what a server may ask for with RateLimited.After.
const (
	minRateLimit = time.Second
	maxRateLimit = time.Hour
	noRateLimit  = 30 * time.Second // when it does not say
)

func rateLimit(err *RateLimited) time.Duration {
	if err.After <= 0 {
		return noRateLimit
	}
	return min(max(err.After, minRateLimit), maxRateLimit)
}

// maxEndpoints bounds the addresses whose trouble is remembered.
const maxEndpoints = 1024

// endpoints remembers, in memory, which addresses are in trouble, so that a
// thousand messages to one dead server cause one attempt at a time and not a
// thousand.
type endpoints struct {
	backoff Backoff
	mu      sync.Mutex
	known   map[endpoint]trouble
}

type endpoint struct{ scheme, address string }

type trouble struct {
	failures int
	until    time.Time
}

func newEndpoints(b Backoff) *endpoints {
	return &endpoints{backoff: b, known: make(map[endpoint]trouble)}
}

// blockedUntil is the time before which the address is not to be tried; zero
// when it may be tried at now.
func (s *endpoints) blockedUntil(to Address, now time.Time) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.known[endpoint{to.Scheme, to.Address}]
	if t.until.After(now) {
		return t.until
	}
	return time.Time{}
}

// report notes the outcome of one Send and returns when the address may be
// tried again.
func (s *endpoints) report(to Address, err error, now time.Time) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := endpoint{to.Scheme, to.Address}
	if err == nil || errors.Is(err, ErrPermanent) {
		delete(s.known, key) // it answered
		return now
	}
	t := s.known[key]
	var limited *RateLimited
	if errors.As(err, &limited) {
		t.until = now.Add(rateLimit(limited))
	} else {
		t.until = now.Add(s.backoff.Delay(t.failures))
		t.failures++
	}
	s.makeRoom(now)
	s.known[key] = t
	return t.until
}

// makeRoom drops what is over, and if that is not enough anything.
func (s *endpoints) makeRoom(now time.Time) {
	if len(s.known) < maxEndpoints {
		return
	}
	for key, t := range s.known {
		if t.until.Before(now.Add(-maxRateLimit)) {
			delete(s.known, key)
		}
	}
	for key := range s.known {
		if len(s.known) < maxEndpoints {
			return
		}
		delete(s.known, key)
	}
}
