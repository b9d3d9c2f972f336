package carrier

import (
	"errors"
	"sync"
	"time"
)

// maxEndpoints bounds the addresses whose trouble is remembered.
const maxEndpoints = 1024

// endpoints is a circuit breaker for each address, in memory. After every
// transient failure an address rests for a backoff; what fails during the rest
// was under way before, so one cut connection counts once however many messages
// it carried. When the rest is over one message probes the address, and the
// others ask again every Base until the outcome is known. So a thousand messages
// to one dead server cause one attempt at a time and not a thousand, and a
// silent one holds one sender. After threshold failures in a row its circuit is
// open, which the operator is shown.
type endpoints struct {
	backoff   Backoff
	threshold int
	patience  time.Duration              // longest wait for the outcome of a probe
	longest   time.Duration              // of any rest
	changed   func(scheme string, n int) // told how many circuits a scheme has opened (1) or closed (-1)
	mu        sync.Mutex
	known     map[endpoint]trouble
}

type endpoint struct{ scheme, address string }

// trouble is what is remembered of an address that failed.
type trouble struct {
	failures int       // in a row
	until    time.Time // it rests, or the outcome of a probe is known at the latest
	open     bool      // failures reached the threshold
	probing  bool      // one message tries it after a rest
}

// resting reports whether nothing may be sent. A rest beyond the longest was
// noted by a clock that was ahead.
func (s *endpoints) resting(t trouble, now time.Time) bool {
	return t.until.After(now) && !t.until.After(now.Add(s.longest))
}

func newEndpoints(o *Options, changed func(scheme string, n int)) *endpoints {
	return &endpoints{
		backoff: o.Retry, threshold: o.BreakAfter, patience: o.SendTimeout, longest: o.longestPause(), changed: changed,
		known: make(map[endpoint]trouble),
	}
}

// enter asks to use the address at now. The answer is zero for yes, which the
// caller follows by report or leave, or else the time to ask again. For an
// address that failed, yes makes the caller the probe.
func (s *endpoints) enter(to Address, now time.Time) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := endpoint{to.Scheme, to.Address}
	t, inTrouble := s.known[key]
	if s.resting(t, now) {
		if t.probing {
			return soonest(t.until, now.Add(s.backoff.Base))
		}
		return t.until
	}
	if inTrouble {
		t.until, t.probing = now.Add(s.patience), true
		s.known[key] = t
	}
	return time.Time{}
}

// leave ends the use of an address about which nothing was learnt.
func (s *endpoints) leave(to Address, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := endpoint{to.Scheme, to.Address}
	if t, ok := s.known[key]; ok && t.probing {
		t.until, t.probing = now, false
		s.known[key] = t
	}
}

// report notes the outcome of one Send and returns when the address may be
// tried again.
func (s *endpoints) report(to Address, err error, now time.Time) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := endpoint{to.Scheme, to.Address}
	if err == nil || errors.Is(err, ErrPermanent) || errors.Is(err, ErrRecipient) {
		s.forget(key) // it answered
		return now
	}
	t, known := s.known[key]
	var limited *RateLimited
	switch {
	case errors.As(err, &limited):
		t.until = now.Add(rateLimit(limited))
	case s.resting(t, now) && !t.probing:
		return t.until
	default:
		t.until = now.Add(s.backoff.Delay(t.failures))
		t.failures++
		if !t.open && t.failures >= s.threshold {
			t.open = true
			s.changed(to.Scheme, 1)
		}
	}
	t.probing = false
	if !known {
		s.makeRoom(now)
	}
	s.known[key] = t
	return t.until
}

// forget closes the circuit; the caller holds mu.
func (s *endpoints) forget(key endpoint) {
	if s.known[key].open {
		s.changed(key.scheme, -1)
	}
	delete(s.known, key)
}

// makeRoom drops what is over, and if that is not enough anything; the caller
// holds mu.
func (s *endpoints) makeRoom(now time.Time) {
	if len(s.known) < maxEndpoints {
		return
	}
	for key, t := range s.known {
		if t.until.Before(now.Add(-maxRateLimit)) {
			s.forget(key)
		}
	}
	for key := range s.known {
		if len(s.known) < maxEndpoints {
			return
		}
		s.forget(key)
	}
}
