package conformance_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/parleykit/parley/internal/database/databasetest"
	"github.com/parleykit/parley/relay"
	"github.com/parleykit/parley/relay/conformance"
	"github.com/parleykit/parley/relay/relaytest"
)

// eachRelay runs the test on our relay over each of its stores.
func eachRelay(t *testing.T, test func(t *testing.T, start func(t *testing.T, o relay.Options) *relaytest.Server)) {
	t.Run("pebble", func(t *testing.T) { test(t, startEmbedded) })
	t.Run("postgres", func(t *testing.T) { test(t, startShared) })
}

func startEmbedded(t *testing.T, o relay.Options) *relaytest.Server {
	t.Helper()
	return relaytest.Start(t, o)
}

func startShared(t *testing.T, o relay.Options) *relaytest.Server {
	t.Helper()
	store, err := relay.OpenPostgres(t.Context(), databasetest.NewPostgres(t), relay.PostgresOptions{})
	if err != nil {
		t.Fatal(err)
	}
	o.Store = store
	return relaytest.Start(t, o)
}

// The relay takes neither of the kinds of the first two; the last asks for
// more events than are sent.
var notOffered = []string{
	"nip01.regular-events-are-all-kept",
	"nip01.ephemeral-event-is-passed-on-not-stored",
	"limits.max-limit-is-kept",
}

func TestRelayPassesEveryCheckOfWhatItAdvertises(t *testing.T) {
	eachRelay(t, func(t *testing.T, start func(*testing.T, relay.Options) *relaytest.Server) {
		secret, public := administrator(t)
		var done int
		results, err := conformance.Run(t.Context(), start(t, relay.Options{Policy: relay.Policy{Admins: []string{public}}}).URL, conformance.Options{
			Admin: secret, Parallel: 8, Timeout: 20 * time.Second,
			Done: func(_ conformance.Result, n, _ int) { done = n },
		})
		if err != nil {
			t.Fatal(err)
		}
		if done != len(results) || done != len(conformance.Checks()) {
			t.Errorf("%d results, %d were told of, want %d", len(results), done, len(conformance.Checks()))
		}
		for _, r := range results {
			skipped := r.Verdict == conformance.Skip && (r.Level == conformance.Conditional || slices.Contains(notOffered, r.Name))
			if r.Verdict != conformance.Pass && !skipped {
				t.Errorf("%s: %s %s", r.Name, r.Verdict, r.Detail)
			}
		}
	})
}

func TestRelayThatAsksForWorkPassesItsChecks(t *testing.T) {
	eachRelay(t, func(t *testing.T, start func(*testing.T, relay.Options) *relaytest.Server) {
		s := start(t, relay.Options{Policy: relay.Policy{Work: 8, Kinds: append(relay.DefaultKinds(), 1)}})
		for _, only := range []string{"nip13.*", "nip01.regular-events-are-all-kept", "nip62.*"} {
			results, err := conformance.Run(t.Context(), s.URL, conformance.Options{Only: only, Parallel: 8, Timeout: 20 * time.Second})
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range results {
				if r.Verdict != conformance.Pass {
					t.Errorf("%s: %s %s", r.Name, r.Verdict, r.Detail)
				}
			}
		}
	})
}

func TestRelayKeepsASmallMaxLimit(t *testing.T) {
	t.Parallel()
	s := startEmbedded(t, relay.Options{Limits: relay.Limits{Results: 40}})
	results, err := conformance.Run(t.Context(), s.URL, conformance.Options{Only: "limits.max-limit-is-kept"})
	if err != nil {
		t.Fatal(err)
	}
	if results[0].Verdict != conformance.Pass {
		t.Error(results[0])
	}
}

func TestRateLimitedRelayIsWaitedFor(t *testing.T) {
	t.Parallel()
	s := startEmbedded(t, relay.Options{Limits: relay.Limits{EventRate: 2, EventBurst: 1, RequestRate: 2, RequestBurst: 1}})
	results, err := conformance.Run(t.Context(), s.URL, conformance.Options{Only: "nip01.replaceable-newer-replaces"})
	if err != nil {
		t.Fatal(err)
	}
	if results[0].Verdict != conformance.Pass {
		t.Error(results[0])
	}
}

func TestRunNeedsARelayAndACheck(t *testing.T) {
	s := startEmbedded(t, relay.Options{})
	for name, tc := range map[string]struct {
		url, only string
		options   bool
	}{
		"other scheme": {s.HTTP, "", true},
		"no host":      {"ws://", "", true},
		"bad pattern":  {s.URL, "[", true},
		"no check":     {s.URL, "nip99.*", true},
		"nobody there": {"ws://127.0.0.1:1", "", false},
	} {
		_, err := conformance.Run(t.Context(), tc.url, conformance.Options{Only: tc.only})
		if err == nil || errors.Is(err, conformance.ErrOptions) != tc.options {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	s := startEmbedded(t, relay.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	_, err := conformance.Run(ctx, s.URL, conformance.Options{Done: func(conformance.Result, int, int) { cancel() }})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want it canceled", err)
	}
}

func TestNamesOfChecksAreUnique(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range conformance.Checks() {
		if seen[c.Name] || c.Property == "" || c.NIP == 0 || (c.Level == conformance.Conditional) != (c.Needs != 0) {
			t.Errorf("%+v", c)
		}
		seen[c.Name] = true
	}
}
