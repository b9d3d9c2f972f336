package carrier

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func testEndpoints(open map[string]int) *endpoints {
	o := &Options{
		Retry:      Backoff{Base: time.Second, Cap: time.Minute, Jitter: func(d time.Duration) time.Duration { return d }},
		BreakAfter: 3, SendTimeout: 10 * time.Second,
	}
	return newEndpoints(o, func(scheme string, n int) { open[scheme] += n })
}

func TestAddressRestsLongerAfterEachFailure(t *testing.T) {
	s := testEndpoints(map[string]int{})
	to := Address{Scheme: "mem", Address: "a", Priority: 3}
	now := noon
	for _, want := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60} {
		until := s.report(to, ErrTransient, now)
		if got := until.Sub(now); got != want*time.Second {
			t.Errorf("blocked for %v, want %v s", got, int(want))
		}
		if again := s.report(to, ErrTransient, now); !again.Equal(until) {
			t.Errorf("a failure during the rest made it last until %v, want %v", again, until)
		}
		to.Priority = 0 // makes no difference
		if got := s.enter(to, now); !got.Equal(until) {
			t.Errorf("blocked until %v, want %v", got, until)
		}
		now = until
	}
	if !s.enter(to, now).IsZero() || !s.enter(Address{Scheme: "mem", Address: "b"}, noon).IsZero() {
		t.Error("blocked for too long, or the wrong address")
	}
	for _, limit := range []struct{ after, want time.Duration }{{0, noRateLimit}, {time.Millisecond, minRateLimit}, {48 * time.Hour, maxRateLimit}} {
		if got := s.report(to, fmt.Errorf("x: %w", &RateLimited{After: limit.after}), noon).Sub(noon); got != limit.want {
			t.Errorf("limited to %v: blocked for %v, want %v", limit.after, got, limit.want)
		}
	}
	for _, err := range []error{nil, ErrPermanent, fmt.Errorf("%w: %w", ErrTransient, ErrRecipient)} {
		s.report(to, ErrTransient, noon)
		s.report(to, err, noon)
		if !s.enter(to, noon).IsZero() {
			t.Errorf("blocked although it answered with %v", err)
		}
	}
}

func TestAddressThatFailedLetsOneProbeThroughAtATime(t *testing.T) {
	open := map[string]int{}
	s := testEndpoints(open)
	to := Address{Scheme: "mem", Address: "a"}
	now := s.report(to, ErrTransient, noon)
	for range 9 { // all of one cut connection
		s.report(to, ErrTransient, noon)
	}
	now = s.report(to, ErrTransient, now)
	if !s.enter(to, now).IsZero() || s.enter(to, now).IsZero() || open["mem"] != 0 {
		t.Fatal("two failures opened the circuit, which the third does, or let two messages through")
	}
	now = s.report(to, ErrTransient, now)
	if open["mem"] != 1 {
		t.Fatalf("%d circuits open after three failures, want 1", open["mem"])
	}
	if !s.enter(to, now).IsZero() {
		t.Fatal("no probe after the rest")
	}
	if until := s.enter(to, now); !until.Equal(now.Add(time.Second)) {
		t.Errorf("a second message asks again at %v, want after the shortest rest", until)
	}
	if until := s.enter(to, now.Add(9500*time.Millisecond)); !until.Equal(now.Add(10 * time.Second)) {
		t.Errorf("a second message asks again at %v, want the probe's longest time", until)
	}
	s.leave(to, now) // the probe learnt nothing
	if !s.enter(to, now).IsZero() {
		t.Error("no new probe after one that was given up")
	}
	s.report(to, nil, now)
	if open["mem"] != 0 || !s.enter(to, now).IsZero() || !s.enter(to, now).IsZero() {
		t.Error("the circuit is open after a probe that worked")
	}
}

func TestEndpointsAreBounded(t *testing.T) {
	open := map[string]int{}
	s := testEndpoints(open)
	for i := range 3 * maxEndpoints {
		now := noon
		for range 3 {
			now = s.report(Address{Scheme: "mem", Address: fmt.Sprint(i)}, ErrTransient, now)
		}
	}
	if len(s.known) > maxEndpoints || open["mem"] != len(s.known) {
		t.Errorf("%d addresses remembered, %d counted as open", len(s.known), open["mem"])
	}
}

func TestNoLaneStarvesAndTheBestLeaveFirst(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var due [lanes][]int64
		for lane := range lanes {
			for i := range rapid.IntRange(0, 40).Draw(t, "waiting") {
				due[lane] = append(due[lane], int64(lane*1000+i))
			}
		}
		limit := rapid.IntRange(1, 32).Draw(t, "limit")
		all := mergeLanes(due, limit)
		total, got := 0, [lanes]int{}
		for _, seq := range all {
			got[seq/1000]++
		}
		for lane, waiting := range due {
			total += len(waiting)
			if least := min(len(waiting), limit/share); got[lane] < least {
				t.Fatalf("lane %d has %d of its share of %d", lane, got[lane], least)
			}
		}
		if len(all) != min(limit, total) {
			t.Fatalf("%d taken of %d under a limit of %d", len(all), total, limit)
		}
		for i := 1; i < len(all); i++ {
			if all[i] < all[i-1] {
				t.Fatalf("order %v", all)
			}
		}
	})
}
