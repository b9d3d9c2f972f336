package carrier

import (
	"errors"
	"fmt"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func TestVerdictFollowsFromEveryAddress(t *testing.T) {
	resend, lookup, end := noon.Add(time.Minute), noon.Add(5*time.Second), noon.Add(time.Hour)
	later := noon.Add(30 * time.Second)
	sent := func() *target { return &target{Delivery: Delivery{State: StateSent}, tried: true} }
	open := func(attempts int) *target {
		return &target{Delivery: Delivery{State: StateQueued, Reason: "busy", Attempts: attempts}, retryAt: later}
	}
	dead := func() *target { return &target{Delivery: Delivery{State: StateDead, Reason: "gone"}} }
	for name, test := range map[string]struct {
		attempt attempt
		now     time.Time
		want    verdict
	}{
		"taken, nobody acks":             {attempt{targets: []*target{sent(), dead()}}, noon, verdict{state: StateSent, again: true}},
		"taken, an ack is awaited":       {attempt{targets: []*target{sent()}, wantsAck: true}, noon, verdict{state: StateSent, due: resend, again: true}},
		"taken, another address is busy": {attempt{targets: []*target{sent(), open(1)}}, noon, verdict{StateSent, "busy", later, true}},
		"taken, the other is hopeless":   {attempt{targets: []*target{sent(), open(5)}}, noon, verdict{state: StateSent, reason: "busy", again: true}},
		"ack awaited, other is hopeless": {attempt{targets: []*target{sent(), open(5)}, wantsAck: true}, noon, verdict{StateSent, "busy", later, true}},
		"ack awaited, one is untried":    {attempt{targets: []*target{sent(), {Delivery: Delivery{State: StateQueued}}}, wantsAck: true}, noon, verdict{state: StateSent, due: noon.Add(20 * time.Second), again: true}},
		"no look-up, one is untried":     {attempt{reason: "down", sentAt: noon.Add(-time.Hour), targets: []*target{{Delivery: Delivery{State: StateQueued}}}, wantsAck: true}, noon, verdict{StateSent, "down", lookup, false}},
		"taken before, now all busy":     {attempt{targets: []*target{open(9)}, sentAt: noon, wantsAck: true}, noon, verdict{StateSent, "busy", later, false}},
		"none has taken it":              {attempt{targets: []*target{open(3), dead()}}, noon, verdict{StateQueued, "busy", later, false}},
		"all refused":                    {attempt{targets: []*target{dead()}}, noon, verdict{state: StateDead, reason: "gone"}},
		"no address":                     {attempt{reason: unknownReason}, noon, verdict{StateQueued, unknownReason, lookup, false}},
		"no address now, refused before": {attempt{reason: unknownReason, targets: []*target{dead()}}, noon, verdict{StateQueued, unknownReason, lookup, false}},
		"never beyond the expiry":        {attempt{targets: []*target{open(0)}}, end.Add(-time.Second), verdict{StateQueued, "busy", later, false}},
		"expired unsent":                 {attempt{state: StateQueued}, end, verdict{state: StateExpired, reason: "not delivered in time"}},
		"expired unacked":                {attempt{state: StateSent, wantsAck: true}, end, verdict{state: StateExpired, reason: "not acknowledged in time"}},
		"expired, nobody was to ack":     {attempt{state: StateSent}, end, verdict{state: StateSent}},
	} {
		a := test.attempt
		a.expiresAt = end
		if a.state == "" {
			a.state = StateQueued
		}
		if got := a.judge(test.now, resend, lookup, 20*time.Second); got != test.want {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
	a := attempt{state: StateQueued, expiresAt: noon.Add(time.Second), targets: []*target{open(0)}}
	if v := a.judge(noon, resend, lookup, 20*time.Second); !v.due.Equal(a.expiresAt) {
		t.Errorf("due at %v, want the expiry", v.due)
	}
}

func TestBackoffStaysWithinItsBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := Backoff{
			Base: time.Duration(rapid.Int64Range(1, int64(time.Hour)).Draw(t, "base")),
			Cap:  time.Duration(rapid.Int64Range(1, int64(24*time.Hour)).Draw(t, "cap")),
		}
		n := rapid.IntRange(0, 100).Draw(t, "n")
		bound := b.Cap
		if n < 20 {
			bound = min(b.Cap, b.Base<<n)
		}
		if d := b.Delay(n); d < 0 || d > bound {
			t.Fatalf("Delay(%d) = %v, bound %v", n, d, bound)
		}
	})
}

func TestReasonsAreCutBetweenCharacters(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringN(0, 400, -1).Draw(t, "reason")
		got := shorten(text)
		if len(got) > maxReason || !utf8.ValidString(got) || len(text) <= maxReason && got != text {
			t.Fatalf("shorten(%q) = %q", text, got)
		}
	})
}

func TestRateLimitIsATransientError(t *testing.T) {
	err := fmt.Errorf("sending: %w", &RateLimited{After: time.Second})
	if !errors.Is(err, ErrTransient) || errors.Is(err, ErrPermanent) {
		t.Errorf("%v is not a transient error", err)
	}
}

func FuzzWrapID(f *testing.F) {
	f.Add([]byte(`{"id":"0000000000000000000000000000000000000000000000000000000000000000","pubkey"`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if id, ok := wrapID(data); ok && len(id) != 64 {
			t.Fatalf("id %q", id)
		}
	})
}
