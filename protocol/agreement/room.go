package agreement

import (
	"slices"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/parleykit/parley/protocol/canonical"
)

// Outcomes of a room, a closed set. Every one but OutcomePending is final.
const (
	OutcomePending     = "pending"      // open, before its deadline or not yet expired
	OutcomeReached     = "reached"      // every participant agreed
	OutcomeDisagreed   = "disagreed"    // one participant disagreed
	OutcomeNoConsensus = "no_consensus" // one abstained, or the initiator withdrew
	OutcomeExpired     = "expired"      // the deadline came first
)

// Limits of one room.
const (
	// MaxEvents bounds the events of one participant. The last one is kept for
	// a decision, so talk never blocks it.
	MaxEvents = 100
	// MaxEventBytes bounds the canonical bytes of one participant's advisory
	// events in parley/1, so that a bundle of the whole room can be read.
	MaxEventBytes = 192 << 10
)

// Room is the state of one agreement: the locked revision and the events on
// it. It is for one goroutine at a time.
type Room struct {
	agreement *Agreement
	digest    string
	events    []Event
	head      string // Hash of the last event
	outcome   string
	decisions map[string]int // participant id → index of its decision
	counts    map[string]int // participant id → its events
	bytes     map[string]int // participant id → canonical bytes of its advisory events
}

// Open locks a parley/1 agreement: it checks the initiator's signature of the
// proposal, made at most MaxSkew after now, and makes the first event. How long
// ago it was made does not matter: slow carriers take days, and the agreement's
// id lets it be locked once only.
// Errors are *Refusal.
func Open(a *Agreement, signature nostr.Event, now time.Time) (*Room, error) {
	return open(a, &signature, AssuranceNostrKey, now)
}

// OpenUnsigned locks a consensus/1 agreement, whose initiator has no key.
// assurance is how the venue knows the initiator. Errors are *Refusal.
func OpenUnsigned(a *Agreement, assurance string, now time.Time) (*Room, error) {
	return open(a, nil, assurance, now)
}

func open(a *Agreement, sig *nostr.Event, assurance string, now time.Time) (*Room, error) {
	if err := a.Check(); err != nil {
		return nil, err
	}
	r := &Room{
		agreement: a, digest: a.Digest(), head: ZeroHash, outcome: OutcomePending,
		decisions: map[string]int{}, counts: map[string]int{}, bytes: map[string]int{},
	}
	cmd := r.command(a.Participants[0].ID, ActionPropose)
	if !now.Before(a.Deadline.Time) {
		return nil, refuse(CodeExpired, "the deadline has come by the venue's clock")
	}
	if ref := r.checkProof(cmd, sig, assurance, now); ref != nil {
		return nil, ref
	}
	if _, err := r.append(cmd, sig, assurance, now); err != nil {
		return nil, err
	}
	return r, nil
}

// Replay builds the room from its events and checks every rule again:
// sequence, chain, times, limits, signatures and outcome. A list that the
// engine would not have made is refused. Errors are *Refusal.
func Replay(a *Agreement, events []Event) (*Room, error) {
	if len(events) == 0 || len(events) > MaxParticipants*MaxEvents+1 {
		return nil, refuse(CodeInvalid, "%d events, must be 1 to %d", len(events), MaxParticipants*MaxEvents+1)
	}
	var sig *nostr.Event
	if events[0].Signature != nil {
		ev := events[0].Signature.Event()
		sig = &ev
	}
	r, err := open(a, sig, events[0].Assurance, events[0].At.Time)
	if err != nil {
		return nil, err
	}
	if err := r.matches(0, events[0]); err != nil {
		return nil, err
	}
	for i, e := range events[1:] {
		if err := r.repeat(e); err != nil {
			return nil, err
		}
		if err := r.matches(i+1, e); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// repeat applies the act of a recorded event.
func (r *Room) repeat(e Event) error {
	if e.ParticipantID == VenueID {
		if _, ok := r.Expire(e.At.Time); !ok || e.Action != ActionExpire {
			return refuse(CodeInvalid, "event %d: not an act of the venue at this point", e.Seq)
		}
		return nil
	}
	var sig *nostr.Event
	if e.Signature != nil {
		ev := e.Signature.Event()
		sig = &ev
	}
	_, err := r.Apply(e.command(r.agreement.Origin()), sig, e.Assurance, e.At.Time)
	return err
}

// matches compares the event at index i with the recorded one, by bytes. A
// receipt reference is the one thing that the room itself never writes.
func (r *Room) matches(i int, recorded Event) error {
	if ref := recorded.check(); ref != nil {
		return ref
	}
	r.events[i].ReceiptRef = recorded.ReceiptRef
	r.head = r.events[i].Hash()
	if r.head != recorded.Hash() {
		return refuse(CodeInvalid, "event %d: not the event that the rules give", i+1)
	}
	return nil
}

// Agreement is the locked revision. It must not be changed.
func (r *Room) Agreement() *Agreement { return r.agreement }

// Digest is the digest of the locked revision.
func (r *Room) Digest() string { return r.digest }

// Outcome is one of the Outcome constants. It does not look at a clock: call
// Expire first.
func (r *Room) Outcome() string { return r.outcome }

// Closed tells whether the outcome is final.
func (r *Room) Closed() bool { return r.outcome != OutcomePending }

// Events returns a copy of the event list, the proposal first.
func (r *Room) Events() []Event { return slices.Clone(r.events) }

// Head is the Hash of the last event.
func (r *Room) Head() string { return r.head }

// LockedAt is the time of the first event.
func (r *Room) LockedAt() time.Time { return r.events[0].At.Time }

// Decision returns the agree, disagree or abstain event of a participant.
func (r *Room) Decision(participantID string) (Event, bool) {
	i, ok := r.decisions[participantID]
	if !ok {
		return Event{}, false
	}
	return r.events[i], true
}

// Expire closes a pending room once now has reached the deadline and returns
// the venue's event. It returns false when there is nothing to do. Call it
// before Apply, and store the event.
func (r *Room) Expire(now time.Time) (Event, bool) {
	if r.Closed() || now.Before(r.agreement.Deadline.Time) {
		return Event{}, false
	}
	e, err := r.append(r.command(VenueID, ActionExpire), nil, AssuranceLocalOperator, now)
	return e, err == nil
}

func (r *Room) command(participantID, action string) Command {
	return Command{
		Schema: r.agreement.Origin() + schemaCommand, AgreementID: r.agreement.AgreementID,
		ParticipantID: participantID, Action: action, Revision: r.agreement.Revision, RevisionDigest: r.digest,
	}
}

// append adds the event of an accepted command. Time never runs backwards in a
// room: a clock behind the last event gives that event's time.
func (r *Room) append(c Command, sig *nostr.Event, assurance string, now time.Time) (Event, error) {
	e := Event{
		Schema: r.agreement.Origin() + schemaEvent, AgreementID: c.AgreementID, Seq: int64(len(r.events)) + 1,
		Prev: r.head, At: canonical.At(now), ParticipantID: c.ParticipantID, Action: c.Action, Body: c.Body,
		Revision: c.Revision, RevisionDigest: c.RevisionDigest, Assurance: assurance,
	}
	if sig != nil {
		s := SignatureOf(*sig)
		e.Signature = &s
	}
	if n := len(r.events); n > 0 && e.At.Before(r.events[n-1].At.Time) {
		e.At = r.events[n-1].At
	}
	data, err := e.Canonical()
	if err != nil {
		return Event{}, refuse(CodeInvalid, "text without a canonical form")
	}
	if ref := r.checkRoom(e, len(data)); ref != nil {
		return Event{}, ref
	}
	r.record(e, data)
	return e, nil
}

func (r *Room) record(e Event, data []byte) {
	r.events = append(r.events, e)
	r.head = canonical.Digest(data)
	r.counts[e.ParticipantID]++
	if IsAdvisory(e.Action) {
		r.bytes[e.ParticipantID] += len(data)
	}
	if IsDecision(e.Action) {
		r.decisions[e.ParticipantID] = len(r.events) - 1
	}
	r.outcome = r.after(e.Action)
}

// after is the outcome that an accepted action leaves.
func (r *Room) after(action string) string {
	switch {
	case action == ActionDisagree:
		return OutcomeDisagreed
	case action == ActionAbstain || action == ActionWithdraw:
		return OutcomeNoConsensus
	case action == ActionExpire:
		return OutcomeExpired
	case action == ActionAgree && len(r.decisions) == len(r.agreement.Participants):
		return OutcomeReached
	}
	return OutcomePending
}
