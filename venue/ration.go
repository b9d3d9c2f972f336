package venue

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// A ration is what one participant of one room may have sent to it by asking:
// twice the largest room at once, then one message in two seconds. It is kept
// in memory and full again after a restart.
const (
	rationBurst  = 2000
	rationRefill = rate.Limit(0.5) // messages a second
	maxRationed  = 4096            // participants remembered
)

type ration struct {
	mu    sync.Mutex
	given map[string]*rate.Limiter
}

func newRation() *ration { return &ration{given: make(map[string]*rate.Limiter)} }

// take uses up n messages of who's ration; false when it has not that many.
func (r *ration) take(who string, n int, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	limiter := r.given[who]
	if limiter == nil {
		r.makeRoom(now)
		limiter = rate.NewLimiter(rationRefill, rationBurst)
		r.given[who] = limiter
	}
	return limiter.AllowN(now, n)
}

// makeRoom forgets who has its full ration again, and if there is nobody half
// of all.
func (r *ration) makeRoom(now time.Time) {
	if len(r.given) < maxRationed {
		return
	}
	for who, limiter := range r.given {
		if limiter.TokensAt(now) >= rationBurst {
			delete(r.given, who)
		}
	}
	if len(r.given) < maxRationed {
		return
	}
	for who := range r.given {
		if len(r.given) <= maxRationed/2 {
			return
		}
		delete(r.given, who)
	}
}
