package mirror

import (
	"context"
	"errors"

	"github.com/nbd-wtf/go-nostr"

	"github.com/parleykit/parley/protocol/canonical"
)

// kindWrap is a gift wrap (NIP-59).
const kindWrap = 1059

// Event is an event on its way, in its one spelling.
type Event struct {
	*nostr.Event
	// JSON is the event in NIP-01 JSON, as canonical.EncodeEvent writes it.
	JSON []byte
}

// Outcome is what became of one event, a closed set.
type Outcome string

// The outcomes of an event. The first five are no fault of anybody: with them
// the target is as the event wants it.
const (
	Accepted  Outcome = "accepted"  // stored now
	Duplicate Outcome = "duplicate" // stored before
	Stale     Outcome = "stale"     // a newer version is stored
	Expired   Outcome = "expired"   // its time is over (NIP-40)
	Deleted   Outcome = "deleted"   // its author deleted it (NIP-09)

	Malformed    Outcome = "malformed"     // no event in NIP-01 JSON, or too large
	WrongID      Outcome = "wrong_id"      // the id is not its hash
	WrongSig     Outcome = "wrong_sig"     // the signature is wrong
	Invalid      Outcome = "invalid"       // the kind asks for another form
	Blocked      Outcome = "blocked"       // the target does not take it
	Restricted   Outcome = "restricted"    // not from this client
	AuthRequired Outcome = "auth_required" // not from a client without a key
	RateLimited  Outcome = "rate_limited"  // the recipient has no room, or the relay kept asking to slow down
	NeedsWork    Outcome = "needs_work"    // the relay wants more work (NIP-13)
	Failed       Outcome = "failed"        // the target could not store it
)

// settled reports whether an outcome is no refusal.
func (o Outcome) settled() bool {
	switch o {
	case Accepted, Duplicate, Stale, Expired, Deleted:
		return true
	}
	return false
}

// Target takes events. Its methods are not called concurrently, except Check.
type Target interface {
	// Put offers events and returns the outcome of each, in their order. With
	// an error nothing is said about any of them: some may be stored.
	Put(ctx context.Context, events []Event) ([]Outcome, error)
}

// Checker is a Target that knows without a signature that it would not store
// an event. It is called concurrently.
type Checker interface {
	// Check returns the outcome of an event whose id is right, or "" when only
	// Put can tell.
	Check(ctx context.Context, ev Event) (Outcome, error)
}

// errNotEvent says that bytes are no event in NIP-01 JSON.
var errNotEvent = errors.New("mirror: not an event")

// parse reads one event and brings it into its one spelling.
func parse(data []byte) (Event, error) {
	ev, err := canonical.DecodeEvent(data)
	if err != nil {
		return Event{}, errNotEvent
	}
	return encode(ev)
}

func encode(ev *nostr.Event) (Event, error) {
	data, err := canonical.EncodeEvent(ev)
	if err != nil {
		return Event{}, errNotEvent
	}
	return Event{ev, data}, nil
}
