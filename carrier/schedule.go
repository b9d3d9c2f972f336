package carrier

import (
	"math/rand/v2"
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
