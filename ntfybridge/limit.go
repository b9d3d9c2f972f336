package ntfybridge

import (
	"cmp"
	"sync"
	"time"
)

// Rate is a bucket of publications.
type Rate struct {
	Burst  int           // at once; 0 is 60
	Refill time.Duration // until there is one more; 0 is 5 s
}

// Bounds of what a server's 429 can make us wait.
const (
	maxPenalty    = 10 * time.Minute // without Retry-After
	maxRetryAfter = 24 * time.Hour
)

// bucket mirrors the limit of one server, so that most refusals need not be
// asked for, and learns from those that come.
type bucket struct {
	mu      sync.Mutex
	rate    Rate
	tokens  float64
	filled  time.Time
	until   time.Time     // nothing before
	penalty time.Duration // of the last 429 without Retry-After
}

func newBucket(rate Rate, now time.Time) *bucket {
	rate.Burst, rate.Refill = cmp.Or(rate.Burst, 60), cmp.Or(rate.Refill, 5*time.Second)
	return &bucket{rate: rate, tokens: float64(rate.Burst), filled: now}
}

// take takes a token, or says how long there is none.
func (b *bucket) take(now time.Time) (wait time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if left := b.until.Sub(now); left > 0 {
		return min(left, maxRetryAfter) // a clock that was set back waits no longer
	}
	if passed := now.Sub(b.filled); passed > 0 {
		b.tokens = min(float64(b.rate.Burst), b.tokens+passed.Seconds()/b.rate.Refill.Seconds())
	}
	b.filled = now
	if b.tokens >= 1 {
		b.tokens--
		return 0
	}
	return max(time.Millisecond, time.Duration((1-b.tokens)*float64(b.rate.Refill)))
}

// refused notes a 429 and says when to try again. Without a hint of the server
// the pause doubles with each refusal in a row.
func (b *bucket) refused(now time.Time, hint time.Duration) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	wait := min(hint, maxRetryAfter)
	if hint <= 0 {
		b.penalty = min(maxPenalty, max(b.rate.Refill, 2*b.penalty))
		wait = b.penalty
	}
	b.tokens, b.filled, b.until = 1, now.Add(wait), now.Add(wait)
	return wait
}

// accepted notes that the server takes messages again.
func (b *bucket) accepted() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.penalty = 0
}
