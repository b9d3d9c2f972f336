package relay_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/parleykit/parley/relay"
	"github.com/parleykit/parley/relay/relaytest"
)

func expiring(k *key, in nostr.Timestamp) nostr.Event {
	return k.event(0, nostr.Now(), "", nostr.Tags{{"expiration", fmt.Sprint(nostr.Now() + in)}})
}

func TestExpiredEventIsRefused(t *testing.T) {
	c := dial(t, start(t))
	c.refuse(expiring(newKey(t), -1), "invalid: the event is expired")
	c.refuse(expiring(newKey(t), 0), "invalid: the event is expired")
	c.accept(expiring(newKey(t), 600))
}

func TestEventIsNotServedAfterItExpired(t *testing.T) {
	clock := newClock()
	s := relaytest.Start(t, relay.Options{Now: clock.Now, SweepInterval: time.Hour})
	c := dial(t, s)
	ev := expiring(newKey(t), 600)
	c.accept(ev)
	for _, f := range []nostr.Filter{{}, {IDs: []string{ev.ID}}, {Authors: []string{ev.PubKey}, Kinds: []int{0}}} {
		if got := c.stored(f); len(got) != 1 {
			t.Fatalf("before: found %d, want 1", len(got))
		}
	}
	clock.advance(601 * time.Second)
	for _, f := range []nostr.Filter{{}, {IDs: []string{ev.ID}}, {Authors: []string{ev.PubKey}, Kinds: []int{0}}} {
		if got := c.stored(f); len(got) != 0 {
			t.Errorf("after: found %v", ids(got))
		}
	}
}

func TestExpiredEventsAreRemovedFromTheStore(t *testing.T) {
	clock, dir := newClock(), t.TempDir()
	reg := prometheus.NewRegistry()
	s := relaytest.Start(t, relay.Options{Dir: dir, Now: clock.Now, SweepInterval: time.Millisecond, Registerer: reg})
	c := dial(t, s)
	for range 3 {
		c.accept(expiring(newKey(t), 600))
	}
	kept := newKey(t).note(nostr.Now(), "kept")
	c.accept(kept)
	clock.advance(601 * time.Second)
	eventually(t, func() bool { return counter(t, reg, "parley_relay_expired_events_total") == 3 })
	s.Stop()

	store, err := relay.OpenPebble(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	var left []string
	for rec, err := range store.Query(t.Context(), nostr.Filter{}, time.Unix(0, 0), 100) {
		if err != nil {
			t.Fatal(err)
		}
		left = append(left, rec.Event.ID)
	}
	if len(left) != 1 || left[0] != kept.ID {
		t.Errorf("store holds %v, want %s", left, kept.ID)
	}
}

// counter reads one number without labels.
func counter(t *testing.T, reg *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	total := 0.0
	for _, f := range families {
		if f.GetName() == name {
			for _, m := range f.GetMetric() {
				total += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return total
}

func TestMetricsFollowTheNamingRules(t *testing.T) {
	reg := prometheus.NewRegistry()
	relaytest.Start(t, relay.Options{Registerer: reg})
	problems, err := testutil.GatherAndLint(reg)
	if err != nil || len(problems) > 0 {
		t.Errorf("lint: %v %v", problems, err)
	}
	if n, _ := testutil.GatherAndCount(reg); n < 30 {
		t.Errorf("%d series at the start, want every label value to start at 0", n)
	}
}
