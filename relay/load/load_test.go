package load_test

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/parleykit/parley/relay"
	"github.com/parleykit/parley/relay/load"
	"github.com/parleykit/parley/relay/relaytest"
)

func TestEveryScenarioMeasuresSomething(t *testing.T) {
	s := relaytest.Start(t, relay.Options{})
	names := []string{"ingest-2", "lookup-2", "tag-2", "inbox-2", "fanout-40", "burst-40", "stopped-2", "idle-5", "soak-2"}
	results, err := load.Run(t.Context(), s.URL, load.Options{
		Scenarios: names, Duration: 200 * time.Millisecond, Soak: 400 * time.Millisecond, PID: os.Getpid(),
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(results) != len(names) {
		t.Fatalf("%d results, want %d", len(results), len(names))
	}
	for i, r := range results {
		if r.Scenario != names[i] || r.Operations == 0 || r.Rate <= 0 || r.Unit == "" {
			t.Errorf("result %d of %s is %+v", i, names[i], r)
		}
		if r.Refused != 0 || r.Missing != 0 {
			t.Errorf("%s: %d refused, %d missing: %s", r.Scenario, r.Refused, r.Missing, r.Reason)
		}
	}
}

func TestRefusalsAreCountedAndDoNotEndTheRun(t *testing.T) {
	s := relaytest.Start(t, relay.Options{Limits: relay.Limits{EventRate: 1, EventBurst: 3}})
	results, err := load.Run(t.Context(), s.URL, load.Options{Scenarios: []string{"ingest-1"}, Duration: 200 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if r := results[0]; r.Operations < 3 || r.Refused == 0 || r.Reason == "" {
		t.Errorf("result is %+v, want three cards and refusals with a reason", r)
	}
}

func TestUnknownScenariosAreNamed(t *testing.T) {
	for _, name := range []string{"ingest", "ingest-0", "dance-4", "lookup-x", "idle-100000000"} {
		_, err := load.Run(t.Context(), "ws://127.0.0.1:1", load.Options{Scenarios: []string{name}})
		if !errors.Is(err, load.ErrScenario) {
			t.Errorf("%s: error is %v, want ErrScenario", name, err)
		}
	}
}
