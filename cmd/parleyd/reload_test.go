package main

import (
	"io"
	"net/http"
	"regexp"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/parleykit/parley/internal/config"
	"github.com/parleykit/parley/internal/httpserver"
	"github.com/parleykit/parley/relay"
)

// hangUp: SIGHUP to every program in the background.
func hangUp(ts *testscript.TestScript, _ bool, _ []string) {
	for _, cmd := range ts.BackgroundCmds() {
		ts.Check(cmd.Process.Signal(syscall.SIGHUP))
	}
}

// until URL PATTERN: asks again until the body of a GET matches.
func until(ts *testscript.TestScript, _ bool, args []string) {
	pattern, last := regexp.MustCompile("(?m)"+args[1]), ""
	for range 1500 {
		req, err := http.NewRequest(http.MethodGet, args[0], nil)
		ts.Check(err)
		req.Header.Set("Accept", "application/nostr+json")
		if resp, err := http.DefaultClient.Do(req); err == nil {
			body, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			if last = string(body); pattern.Match(body) {
				return
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
	ts.Fatalf("%s does not come to match %s; last\n%s", args[0], args[1], last)
}

func TestDefaultsOfTheFileAreThoseOfTheRelay(t *testing.T) {
	cfg := config.Default()
	if err := checkPolicy(&cfg); err != nil {
		t.Error(err)
	}
	p, limits, defaults := policyOf(&cfg.Relay, httpserver.Origin{}), relayLimits(&cfg.Relay), relay.DefaultLimits()
	if !slices.Equal(p.Kinds, relay.DefaultKinds()) || p.WrapQuota != relay.DefaultWrapQuota || p.WrapRetention != relay.DefaultWrapRetention {
		t.Errorf("the policy is %+v", p)
	}
	if limits.EventRate != defaults.EventRate || limits.EventBurst != defaults.EventBurst || limits.AddressEventRate != defaults.AddressEventRate ||
		limits.AddressEventBurst != defaults.AddressEventBurst || limits.KeyEventRate != defaults.KeyEventRate || limits.KeyEventBurst != defaults.KeyEventBurst ||
		limits.EventTags != defaults.EventTags || limits.CreatedAhead != defaults.CreatedAhead {
		t.Errorf("the limits are %+v", limits)
	}
}

func TestKeysThatNeedARestartAreNamed(t *testing.T) {
	old := config.Default()
	changed := config.Default()
	changed.Listen, changed.Log.Level, changed.Venue.DailyCap = "127.0.0.1:1", "debug", 1
	changed.Relay.Store, changed.Relay.Plugin.Command = config.StoreDatabase, []string{"x"}
	changed.Relay.Name, changed.Relay.Kinds, changed.Relay.MaxTags = "other", nil, 17
	changed.Receipts.Contact, changed.Receipts.WitnessLogs = "ops@parley.example", []string{"x"}
	if got, want := needRestart(&old, &changed), []string{"listen", "log", "relay.store", "relay.plugin", "venue", "receipts.witness_logs"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := needRestart(&old, &old); got != nil {
		t.Errorf("nothing differs, got %v", got)
	}
}
