package agreement

import (
	"bytes"
	"fmt"
	"time"

	"github.com/parleykit/parley/protocol/canonical"
)

// Proofs of a decision, a closed set.
const (
	ProofParticipant = "participant-signature" // signed by the participant's own key in the roster
	ProofDelegate    = "delegate-signature"    // signed by the key the roster names as its delegate
	ProofVenue       = "venue-word"            // recorded by the venue, signed by nobody else
)

// Report is what a bundle proves.
type Report struct {
	Agreement       *Agreement `json:"agreement"`
	Digest          string     `json:"digest"`           // of the revision
	MarkdownDigest  string     `json:"markdown_digest"`  // of the exact Markdown
	ConsensusDigest string     `json:"consensus_digest"` // of CONSENSUS.md; "" unless reached
	Outcome         string     `json:"outcome"`
	LockedAt        time.Time  `json:"locked_at"` // by the venue's clock
	ClosedAt        time.Time  `json:"closed_at"` // by the venue's clock
	Events          int        `json:"events"`
	Head            string     `json:"head"`      // hash of the last event, signed by the venue
	Proposal        Decision   `json:"proposal"`  // the initiator's act that locked the revision
	Decisions       []Decision `json:"decisions"` // agree, disagree, abstain and withdraw, in order
	Warnings        []string   `json:"warnings"`

	Receipts *ReceiptReport `json:"receipts,omitzero"` // nil when there are none
}

// Decision is one act that counts, and how it is known.
type Decision struct {
	ParticipantID string    `json:"participant_id"`
	Label         string    `json:"label"` // text of the parties: escape before showing
	Kind          string    `json:"kind"`
	Action        string    `json:"action"`
	At            time.Time `json:"at"` // by the venue's clock
	Seq           int64     `json:"seq"`
	Assurance     string    `json:"assurance"`
	Proof         string    `json:"proof"`  // a Proof constant
	Signer        string    `json:"signer"` // the key that signed, hex; "" for ProofVenue
}

// Proven tells whether the decision stands by a signature of the participant
// or its delegate. If not, it rests on the venue's word alone.
func (d Decision) Proven() bool { return d.Proof != ProofVenue }

// OnVenueWord lists the acts that the venue alone vouches for.
func (r *Report) OnVenueWord() []Decision {
	var out []Decision
	for _, d := range append([]Decision{r.Proposal}, r.Decisions...) {
		if !d.Proven() {
			out = append(out, d)
		}
	}
	return out
}

// Verify checks a bundle offline, from its bytes alone: every rule of the room
// again, every signature, the chain, both renderings, the venue's closing
// signature, and the receipts with their log proofs. The bytes must be exactly canonical, so a bundle with any byte
// changed is refused. That the key in the agreement's venue is the venue one
// means is for the caller to know. Errors wrap ErrBundle.
func Verify(data []byte) (*Report, error) {
	b, r, err := replayBundle(data)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBundle, err)
	}
	receipts, err := checkEvidence(r, &b.Evidence, created(b.Signatures[0].Event()))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBundle, err)
	}
	out := report(r, b)
	out.Receipts = receipts
	return out, nil
}

func replayBundle(data []byte) (*Bundle, *Room, error) {
	b := new(Bundle)
	if err := decode(data, MaxBundleSize, b); err != nil {
		return nil, nil, err
	}
	a, err := ParseAgreement([]byte(b.Revision))
	if err != nil {
		return nil, nil, fmt.Errorf("revision: %w", err)
	}
	r, err := Replay(a, b.Events)
	if err != nil {
		return nil, nil, fmt.Errorf("events: %w", err)
	}
	if err := checkClosing(r, b.Signatures); err != nil {
		return nil, nil, fmt.Errorf("closing signature: %w", err)
	}
	return b, r, checkBytes(data, r, b)
}

// checkClosing verifies the venue's signature over the end of the chain.
func checkClosing(r *Room, signatures []Signature) error {
	switch {
	case !r.Closed():
		return refuse(CodeNotPermitted, "the room is pending")
	case r.agreement.Profile != ProfileParley:
		return refuse(CodeNotPermitted, "profile %s has no bundle", r.agreement.Profile)
	case len(signatures) != 1:
		return refuse(CodeInvalid, "%d signatures, must be 1", len(signatures))
	}
	ev := signatures[0].Event()
	if ref := verify(ev, closingTags(r), r.head, r.agreement.Venue); ref != nil {
		return ref
	}
	if created(ev).Before(r.events[len(r.events)-1].At.Time) {
		return refuse(CodeSignatureInvalid, "created_at is before the last event")
	}
	return nil
}

// checkBytes builds the bundle again from what was verified and compares.
func checkBytes(data []byte, r *Room, given *Bundle) error {
	built, err := bundleOf(r, given.Signatures[0], &given.Evidence)
	if err != nil {
		return err
	}
	want, err := canonical.Marshal(built)
	if err != nil {
		return err
	}
	switch {
	case built.Markdown != given.Markdown:
		return refuse(CodeInvalid, "markdown is not that of the revision")
	case built.Consensus != given.Consensus:
		return refuse(CodeInvalid, "consensus is not that of the events")
	case !bytes.Equal(data, want):
		return refuse(CodeInvalid, "not the canonical bytes of the room's bundle")
	}
	return nil
}

func report(r *Room, b *Bundle) *Report {
	last := r.events[len(r.events)-1]
	out := &Report{
		Agreement: r.agreement, Digest: r.digest, MarkdownDigest: canonical.Digest([]byte(b.Markdown)),
		Outcome: r.outcome, LockedAt: r.LockedAt(), ClosedAt: last.At.Time, Events: len(r.events), Head: r.head,
		Proposal: r.judge(r.events[0]), Warnings: Warnings(r.agreement),
	}
	if b.Consensus != "" {
		out.ConsensusDigest = canonical.Digest([]byte(b.Consensus))
	}
	for _, e := range r.events {
		if IsDecision(e.Action) || e.Action == ActionWithdraw {
			out.Decisions = append(out.Decisions, r.judge(e))
		}
	}
	return out
}

// judge says how an accepted event is known. Its signature, where it has one,
// has been verified.
func (r *Room) judge(e Event) Decision {
	p, _ := r.agreement.Participant(e.ParticipantID)
	d := Decision{
		ParticipantID: p.ID, Label: p.Label, Kind: p.Kind, Action: e.Action, At: e.At.Time, Seq: e.Seq,
		Assurance: e.Assurance, Proof: ProofVenue,
	}
	if e.Signature != nil {
		d.Proof, d.Signer = ProofParticipant, e.Signature.PubKey
		if e.Signature.PubKey == p.Delegate {
			d.Proof = ProofDelegate
		}
	}
	return d
}
