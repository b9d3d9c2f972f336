package agent_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parleykit/parley/agent"
	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/relay"
)

const twoDays = 48 * time.Hour

// skewed is the machine's clock with an error that the test sets.
type skewed struct{ by atomic.Int64 }

func (s *skewed) off(d time.Duration) { s.by.Store(int64(d)) }
func (s *skewed) now() time.Time      { return time.Now().Add(time.Duration(s.by.Load())) }

const checkClock = "check this machine's clock"

func TestAnAgentWithAWrongClockIsToldSoAndWorksOnceItIsRight(t *testing.T) {
	t.Parallel()
	var clock skewed
	r := newRemote(t, relay.Options{})
	a, other := r.agent(t, agent.Options{Now: clock.now}), r.agent(t, agent.Options{})
	to, err := other.Status(t.Context(), agent.Empty{})
	if err != nil {
		t.Fatal(err)
	}
	clock.off(twoDays)
	_, err = a.PublishCard(t.Context(), agent.PublishCardRequest{})
	wantUnavailable(t, "publishing", err)
	if err == nil || !strings.Contains(err.Error(), checkClock) || !strings.Contains(err.Error(), "2 days ahead") {
		t.Errorf("publishing: %v", err)
	}
	d, err := a.SendText(t.Context(), agent.SendRequest{To: to.PubKey, Text: "x"})
	if err != nil || d.State != string(carrier.StateQueued) || !strings.Contains(d.Reason, checkClock) {
		t.Errorf("sending: %+v, %v", d, err)
	}
	if err := a.Sync(t.Context()); err == nil || !strings.Contains(err.Error(), checkClock) {
		t.Errorf("receiving: %v", err)
	}
	clock.off(0)
	if _, err := a.PublishCard(t.Context(), agent.PublishCardRequest{}); err != nil {
		t.Errorf("publishing by the right clock: %v", err)
	}
	wantSent(t, a, to.PubKey, "by the right clock")
}

func TestAServersWrongClockOnlyDelaysWhatAnAgentSends(t *testing.T) {
	t.Parallel()
	for _, by := range []time.Duration{-3 * 24 * time.Hour, 40 * 24 * time.Hour} {
		var clock skewed
		r := newRemote(t, relay.Options{Now: clock.now})
		a, other := r.agent(t, agent.Options{}), r.agent(t, agent.Options{})
		to, err := other.Status(t.Context(), agent.Empty{})
		if err != nil {
			t.Fatal(err)
		}
		clock.off(by)
		d, err := a.SendText(t.Context(), agent.SendRequest{To: to.PubKey, Text: "x"})
		if err != nil || d.State != string(carrier.StateQueued) || !strings.Contains(d.Reason, checkClock) {
			t.Errorf("sending: %+v, %v", d, err)
		}
		clock.off(0)
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
			if err := a.Sync(t.Context()); err != nil {
				t.Fatal(err)
			}
			list, err := a.Outbox(t.Context(), agent.OutboxRequest{All: true})
			if err != nil {
				t.Fatal(err)
			}
			if len(list.Messages) == 1 && list.Messages[0].State == string(carrier.StateSent) {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("a server's clock that was %s off: %+v", by, list.Messages)
			}
		}
	}
}

// wantSent sends a text and demands that the relay has taken it; the address
// may have to rest for a moment first.
func wantSent(t *testing.T, a *agent.Agent, to, text string) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		d, err := a.SendText(t.Context(), agent.SendRequest{To: to, Text: text})
		if err != nil {
			t.Fatal(err)
		}
		if d.State == string(carrier.StateSent) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%+v", d)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
