package venue

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/parleykit/parley/protocol/agreement"
)

func TestRation_forgetsAndStaysBounded(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	r := newRation()
	for i := range 3 * maxRationed {
		if !r.take(fmt.Sprint(i), 10, now) {
			t.Fatalf("participant %d has no ration", i)
		}
		if len(r.given) > maxRationed {
			t.Fatalf("%d participants are remembered", len(r.given))
		}
	}
	if r.take("greedy", rationBurst+1, now) {
		t.Error("more than a full ration was given")
	}
}

func TestOptions_missingAreNamed(t *testing.T) {
	if _, err := New(t.Context(), Options{}); err == nil {
		t.Error("New takes empty Options")
	}
}

func TestMetrics_knowEveryActionOfAParticipant(t *testing.T) {
	for _, action := range actions[:len(actions)-1] {
		if !agreement.IsAdvisory(action) && !agreement.IsDecision(action) && action != agreement.ActionWithdraw {
			t.Errorf("%s is no action of a participant", action)
		}
	}
}

// A deadline that is noted while Run waits for a later one, or just before it
// waits, is not slept through.
func TestAlarm_notedDeadlineEndsTheWait(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	clock := func() time.Time { return now }
	later := now.Add(time.Hour)
	a := newAlarm()
	for _, c := range []struct {
		in   time.Duration
		ring bool
	}{{2 * time.Minute, true}, {time.Minute, true}, {3 * time.Minute, false}} {
		a.note(now.Add(c.in))
		rang := false
		select {
		case <-a.bell:
			rang = true
		default:
		}
		if rang != c.ring {
			t.Errorf("a deadline in %s rang: %v", c.in, rang)
		}
	}
	now = now.Add(time.Minute)
	a.wait(t.Context(), clock, later) // the noted one has come
	a.passed(now)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	a.wait(ended, clock, time.Time{})
	if !a.noted.IsZero() {
		t.Error("a deadline that has come is still noted")
	}
}
