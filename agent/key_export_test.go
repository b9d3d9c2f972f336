package agent

import (
	"testing"

	"github.com/nbd-wtf/go-nostr"

	"github.com/parleykit/parley/internal/keys"
)

// Places where StopMove leaves a succession.
const (
	StopPublished = iota // both cards are out
	StopRecorded         // and the succession is recorded
)

// StopMove does the first steps of a succession, as if the program had been
// killed after them.
func StopMove(t *testing.T, a *Agent, stop int) {
	t.Helper()
	next, err := a.keyDir.NextNostr(keys.Agent)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.publishMove(t.Context(), next, ""); err != nil {
		t.Fatal(err)
	}
	if stop == StopPublished {
		return
	}
	if err := a.setMoves(t.Context(), moves{{Old: a.PublicKey(), New: next.PublicKey()}}); err != nil {
		t.Fatal(err)
	}
}

// RefreshOnce publishes the own card again where it is time.
func RefreshOnce(t *testing.T, a *Agent) error {
	t.Helper()
	return a.refreshOnce(t.Context())
}

// Query asks a relay.
func Query(t *testing.T, a *Agent, relay string, filter nostr.Filter) ([]*nostr.Event, error) {
	t.Helper()
	return a.queryEvents(t.Context(), relay, filter)
}
