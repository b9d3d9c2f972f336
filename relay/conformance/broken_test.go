package conformance_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nbd-wtf/go-nostr"
	"golang.org/x/sync/errgroup"

	"github.com/parleykit/parley/internal/drilltest"
	"github.com/parleykit/parley/relay/conformance"
)

// administrator is a fresh key: secret and public.
func administrator(t testing.TB) (secret, public string) {
	t.Helper()
	secret = nostr.GeneratePrivateKey()
	public, err := nostr.GetPublicKey(secret)
	if err != nil {
		t.Fatal(err)
	}
	return secret, public
}

// findings runs checks against a little relay with this behaviour and returns
// the names of those that found something.
func findings(t *testing.T, behaviour, only string, patience time.Duration) []string {
	t.Helper()
	secret, public := administrator(t)
	l := startLittle(t, behaviour, public)
	results, err := conformance.Run(t.Context(), l.url(), conformance.Options{Admin: secret, Only: only, Timeout: patience, Parallel: 16})
	if err != nil {
		t.Errorf("%s: %v", behaviour, err)
	}
	found := []string{}
	for _, r := range results {
		if r.Verdict == conformance.Fail || r.Verdict == conformance.Warn {
			found = append(found, r.Name)
		} else if only != "*" {
			t.Logf("%s, where %s: %s %s", r.Name, behaviour, r.Verdict, r.Detail)
		}
	}
	return found
}

func TestAFaultlessRelayPassesEveryCheck(t *testing.T) {
	t.Parallel()
	secret, public := administrator(t)
	results, err := conformance.Run(t.Context(), startLittle(t, "", public).url(), conformance.Options{Admin: secret, Parallel: 16})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		if r.Verdict != conformance.Pass {
			t.Errorf("%s: %s %s", r.Name, r.Verdict, r.Detail)
		}
	}
}

// atOnce runs the jobs beside each other: most of them wait.
func atOnce(jobs []func()) {
	var group errgroup.Group
	group.SetLimit(24)
	for _, job := range jobs {
		group.Go(func() error {
			job()
			return nil
		})
	}
	_ = group.Wait() // no job returns an error
}

func TestEachCheckFindsWhatIsBroken(t *testing.T) {
	t.Parallel()
	var jobs []func()
	add := func(table map[string][]string, patience time.Duration) {
		for behaviour, checks := range table {
			for _, check := range checks {
				jobs = append(jobs, func() {
					if len(findings(t, behaviour, check, patience)) != 1 {
						t.Errorf("%s does not find that %s", check, behaviour)
					}
				})
			}
		}
	}
	add(brokenWhole, time.Second)
	add(brokenParts, 30*time.Second)
	atOnce(jobs)
}

// byChance is a check that finds many things, but not always.
const byChance = "nip01.random-filters-find-what-they-match"

func TestNoOtherCheckFindsWhatIsBroken(t *testing.T) {
	if !drilltest.Long() {
		t.Skip("minutes of work; set PARLEY_DRILL=1")
	}
	for behaviour, checks := range brokenParts {
		want := slices.Sorted(slices.Values(checks))
		got := slices.Sorted(slices.Values(findings(t, behaviour, "*", 30*time.Second)))
		got = slices.DeleteFunc(got, func(name string) bool { return name == byChance })
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("findings where %s (-want +got):\n%s", behaviour, diff)
		}
	}
}

func TestEveryCheckIsSeenToFail(t *testing.T) {
	seen := map[string]bool{}
	for _, table := range []map[string][]string{brokenParts, brokenWhole} {
		for _, checks := range table {
			for _, check := range checks {
				seen[check] = true
			}
		}
	}
	for _, c := range conformance.Checks() {
		if !seen[c.Name] {
			t.Errorf("no broken behaviour is found by %s", c.Name)
		}
		delete(seen, c.Name)
	}
	for name := range seen {
		t.Errorf("there is no check %s", name)
	}
}
