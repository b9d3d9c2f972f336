package crashtest

import (
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/parleykit/parley/internal/drilltest"
)

// Drill is a seeded series of kills.
type Drill struct {
	Points int    // how often to kill
	Seed   uint64 // PARLEY_SEED of this run
	*rand.Rand
}

// NewDrill reads PARLEY_DRILL and PARLEY_SEED and logs the seed.
func NewDrill(t testing.TB) *Drill {
	t.Helper()
	d := &Drill{Points: drilltest.Points(), Seed: uint64(time.Now().UnixNano())}
	if text := os.Getenv("PARLEY_SEED"); text != "" {
		var err error
		if d.Seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("reading PARLEY_SEED: %v", err)
		}
	}
	d.Rand = rand.New(rand.NewPCG(d.Seed, 0))
	t.Logf("PARLEY_SEED=%d, %d points", d.Seed, d.Points)
	return d
}

// Moment is up to three milliseconds, so that a kill after the nth answer
// falls anywhere in the work that follows it.
func (d *Drill) Moment() time.Duration { return time.Duration(d.Int64N(int64(3 * time.Millisecond))) }

// Countdown tells when to kill; the zero value never does. Any goroutine may
// call Answer.
type Countdown struct {
	moment time.Duration
	mu     sync.Mutex
	left   int
	done   chan struct{}
}

// Answers counts down from a chance number between 1 and limit.
func (d *Drill) Answers(limit int) *Countdown {
	return &Countdown{moment: d.Moment(), left: 1 + d.IntN(limit), done: make(chan struct{})}
}

// Answer counts one answer that came.
func (c *Countdown) Answer() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left--; c.left == 0 {
		close(c.done)
	}
}
