package agreement

import (
	"slices"
	"time"

	"github.com/nbd-wtf/go-nostr"
)

// Apply accepts or refuses one command and returns the event it made. The
// order of the checks is part of the contract: shape, agreement, participant,
// deadline, closed room, revision and digest, second decision, event limit,
// permission, signature. Idempotency is the caller's, before this call.
//
// assurance is how the command came; sig is the participant's signature, nil
// where there is none. When now has reached the deadline of a pending room the
// answer is CodeExpired and the room stays as it is: the event belongs to
// Expire. Errors are *Refusal, and leave the room unchanged.
func (r *Room) Apply(c Command, sig *nostr.Event, assurance string, now time.Time) (Event, error) {
	if ref := r.checkCommand(c); ref != nil {
		return Event{}, ref
	}
	if ref := r.checkState(c, now); ref != nil {
		return Event{}, ref
	}
	if ref := r.checkProof(c, sig, assurance, now); ref != nil {
		return Event{}, ref
	}
	if sig != nil && created(*sig).Before(r.LockedAt()) {
		return Event{}, refuse(CodeSignatureInvalid, "created_at is before the revision was locked")
	}
	return r.append(c, sig, assurance, now)
}

// checkCommand holds what does not depend on time or earlier events.
func (r *Room) checkCommand(c Command) *Refusal {
	if ref := c.check(); ref != nil {
		return ref
	}
	switch {
	case c.AgreementID != r.agreement.AgreementID:
		return refuse(CodeUnknownAgreement, "another agreement than this room's")
	case c.Schema != r.agreement.Origin()+schemaCommand:
		return refuse(CodeInvalid, "/schema: not on the origin of the agreement's schema")
	case c.Action == ActionWithdraw && r.agreement.Profile != ProfileParley:
		return refuse(CodeInvalid, "/action: not in profile %s", r.agreement.Profile)
	}
	if _, ok := r.agreement.Participant(c.ParticipantID); !ok {
		return refuse(CodeUnknownParticipant, "not in the roster of this agreement")
	}
	return nil
}

// checkState holds what depends on the clock and on earlier events.
func (r *Room) checkState(c Command, now time.Time) *Refusal {
	_, decided := r.decisions[c.ParticipantID]
	switch {
	case r.outcome == OutcomeExpired || !r.Closed() && !now.Before(r.agreement.Deadline.Time):
		return refuse(CodeExpired, "the deadline has come by the venue's clock")
	case r.Closed():
		return refuse(CodeClosed, "the outcome is %s", r.outcome)
	case c.Revision != r.agreement.Revision || c.RevisionDigest != r.digest:
		return refuse(CodeStaleDigest, "not the locked revision and digest")
	case decided && IsDecision(c.Action):
		return refuse(CodeAlreadyDecided, "a decision is irreversible")
	case r.counts[c.ParticipantID] >= r.eventLimit(c, decided):
		return refuse(CodeEventLimit, "%d events of one participant are kept, the last for its decision", MaxEvents)
	case c.Action == ActionWithdraw && c.ParticipantID != r.agreement.Participants[0].ID:
		return refuse(CodeNotPermitted, "only the initiator may withdraw")
	case c.Action == ActionWithdraw && len(r.decisions) > 0:
		return refuse(CodeNotPermitted, "a decision has been made")
	}
	return nil
}

// eventLimit keeps the last event of a participant for its decision.
func (r *Room) eventLimit(c Command, decided bool) int {
	if IsAdvisory(c.Action) && !decided {
		return MaxEvents - 1
	}
	return MaxEvents
}

// checkRoom is the byte budget of one participant's text (parley/1 only: the
// other profile fixes the count alone).
func (r *Room) checkRoom(e Event, size int) *Refusal {
	if r.agreement.Profile == ProfileParley && IsAdvisory(e.Action) && r.bytes[e.ParticipantID]+size > MaxEventBytes {
		return refuse(CodeEventLimit, "%d bytes of one participant's text are kept", MaxEventBytes)
	}
	return nil
}

// checkProof holds the rules of assurance and signature.
func (r *Room) checkProof(c Command, sig *nostr.Event, assurance string, now time.Time) *Refusal {
	p, _ := r.agreement.Participant(c.ParticipantID)
	keyed := p.PubKey != "" || p.Delegate != ""
	switch {
	case !slices.Contains(Assurances(), assurance):
		return refuse(CodeInvalid, "unknown assurance")
	case assurance == AssuranceNostrKey && !keyed:
		return refuse(CodeInvalid, "assurance %s without a key in the roster", assurance)
	case sig == nil && p.PubKey != "" && !IsAdvisory(c.Action):
		return refuse(CodeSignatureRequired, "%s counts only with the participant's signature", c.Action)
	case sig == nil:
		return nil
	case !keyed:
		return refuse(CodeSignatureInvalid, "no key of this participant stands in the roster")
	}
	key, ref := signingKey(p, c.Action, sig.PubKey)
	if ref != nil {
		return ref
	}
	if err := VerifySignature(*sig, r.agreement, r.digest, c.Action, c.Body, key, now); err != nil {
		return err.(*Refusal)
	}
	return nil
}

// signingKey is the key that must have signed: the participant's own, or its
// delegate's where the signature claims that key. A delegate neither proposes
// nor withdraws.
func signingKey(p Participant, action, claimed string) (string, *Refusal) {
	if p.Delegate == "" || claimed != p.Delegate {
		if p.PubKey == "" {
			return "", refuse(CodeSignatureInvalid, "made by another key")
		}
		return p.PubKey, nil
	}
	if action == ActionPropose || action == ActionWithdraw {
		return "", refuse(CodeNotPermitted, "a delegate may comment and decide only")
	}
	return p.Delegate, nil
}
