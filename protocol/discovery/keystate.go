package discovery

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// KeyState is where a signing key is in its life.
type KeyState string

// States of a key.
const (
	KeyPending    KeyState = "PENDING"    // made, not published
	KeyActive     KeyState = "ACTIVE"     // published, signs
	KeyDeprecated KeyState = "DEPRECATED" // published, signs no more
	KeyRetired    KeyState = "RETIRED"    // no longer published
	KeyRevoked    KeyState = "REVOKED"    // not to be believed
)

// Overlap is how long a deprecated key stays published at the least. A key set
// must not be cached for longer.
const Overlap = 30 * 24 * time.Hour

// ErrKeyState is wrapped where a key cannot go from its state to another.
var ErrKeyState = errors.New("discovery: no such change of a key's state")

// Published reports whether the key belongs into the key set.
func (s KeyState) Published() bool { return s == KeyActive || s == KeyDeprecated }

// IssuerKey is what an issuer knows about one of its keys.
type IssuerKey struct {
	Key
	State  KeyState
	Since  time.Time // when it came into the state
	Reason string    // of a revocation, or ""
}

// keySteps are the changes of a life without accidents. A key is never active
// again: a new key has a new name.
var keySteps = map[KeyState]KeyState{
	KeyPending:    KeyActive,
	KeyActive:     KeyDeprecated,
	KeyDeprecated: KeyRetired,
}

// To is the key in its next state. A deprecated key retires after Overlap, not
// before. Every key that was ever published can be revoked, and none twice.
func (k IssuerKey) To(next KeyState, now time.Time) (IssuerKey, error) {
	revoked := next == KeyRevoked && k.State != KeyPending && k.State != KeyRevoked
	if !revoked && (keySteps[k.State] != next || next == "") {
		return k, fmt.Errorf("%w: %s to %s", ErrKeyState, k.State, next)
	}
	if next == KeyRetired && now.Sub(k.Since) < Overlap {
		return k, fmt.Errorf("%w: deprecated for less than %d days", ErrKeyState, Overlap/(24*time.Hour))
	}
	k.State, k.Since = next, now
	return k, nil
}

// Publish is what an issuer says about its keys: the set of those to verify
// with, and the revoked ones, newest first, as many as the document holds.
func Publish(keys []IssuerKey) (KeySet, []RevokedKey) {
	var set KeySet
	var revoked []RevokedKey
	for _, k := range keys {
		switch {
		case k.State.Published():
			set = append(set, k.Key)
		case k.State == KeyRevoked:
			revoked = append(revoked, RevokedKey{KeyID: k.ID, RevokedAt: k.Since, Reason: k.Reason})
		}
	}
	slices.SortStableFunc(revoked, func(a, b RevokedKey) int { return b.RevokedAt.Compare(a.RevokedAt) })
	return set, revoked[:min(len(revoked), MaxRevoked)]
}
