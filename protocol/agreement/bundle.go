package agreement

import (
	"errors"
	"fmt"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/parleykit/parley/protocol/canonical"
)

// MaxBundleSize bounds a bundle/v1 in bytes before parsing. Every room that
// the rules allow fits.
const MaxBundleSize = canonical.MaxSize

// ErrBundle is wrapped by every refusal of Verify.
var ErrBundle = errors.New("agreement: bundle does not verify")

// ErrVenueKey is returned when another key than the agreement's venue is asked
// to close it.
var ErrVenueKey = errors.New("agreement: not the venue's key")

// Bundle is bundle/v1: everything a stranger needs to check a closed room
// offline. A bundle is exactly its canonical bytes.
type Bundle struct {
	Schema     string      `json:"schema"`
	Revision   string      `json:"revision"`  // the canonical bytes of the agreement
	Markdown   string      `json:"markdown"`  // Agreement.Markdown
	Consensus  string      `json:"consensus"` // CONSENSUS.md; "" unless reached
	Events     []Event     `json:"events"`
	Signatures []Signature `json:"signatures"` // the venue's closing signature
	Evidence
}

// NewBundle closes a parley/1 room that has a final outcome: the venue signs
// the hash of the last event together with the outcome. evidence is taken as it
// is; nil for a room without receipts. It returns the bundle and its bytes.
// Errors: *Refusal with CodeNotPermitted for a pending room or another profile,
// ErrVenueKey, or what the signer says.
func NewBundle(r *Room, venue Signer, evidence *Evidence, now time.Time) (*Bundle, []byte, error) {
	switch {
	case !r.Closed():
		return nil, nil, refuse(CodeNotPermitted, "the room is pending")
	case r.agreement.Profile != ProfileParley:
		return nil, nil, refuse(CodeNotPermitted, "profile %s has no bundle", r.agreement.Profile)
	case venue.PublicKey() != r.agreement.Venue:
		return nil, nil, ErrVenueKey
	}
	if last := r.events[len(r.events)-1].At.Time; now.Before(last) {
		now = last
	}
	closing, err := sign(closingTags(r), r.head, venue, now)
	if err != nil {
		return nil, nil, err
	}
	if evidence == nil {
		evidence = new(Evidence)
	}
	b, err := bundleOf(r, SignatureOf(closing), evidence)
	if err != nil {
		return nil, nil, err
	}
	data, err := canonical.Marshal(b)
	if err != nil {
		return nil, nil, fmt.Errorf("agreement: encoding the bundle: %w", err)
	}
	return b, data, nil
}

// closingTags are the tags of the venue's closing signature, whose content is
// the hash of the last event.
func closingTags(r *Room) nostr.Tags {
	return signatureTags(r.agreement, r.digest, ActionClose, r.outcome)
}

// bundleOf is the one bundle of a closed room, a closing signature and what is
// said about its events.
func bundleOf(r *Room, closing Signature, evidence *Evidence) (*Bundle, error) {
	revision, err := r.agreement.Canonical()
	if err != nil {
		return nil, err
	}
	b := &Bundle{
		Schema: r.agreement.Origin() + schemaBundle, Revision: string(revision), Markdown: r.agreement.Markdown(),
		Events: r.Events(), Signatures: []Signature{closing}, Evidence: *evidence,
	}
	if r.outcome == OutcomeReached {
		doc, err := Consensus(r)
		if err != nil {
			return nil, err
		}
		b.Consensus = string(doc)
	}
	return b, nil
}
