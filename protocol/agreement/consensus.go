package agreement

import "fmt"

// Consensus is the exact CONSENSUS.md of a reached room (docs/spec/agreement.md,
// "CONSENSUS.md"). Any other room gives a *Refusal with CodeNotPermitted.
func Consensus(r *Room) ([]byte, error) {
	if r.outcome != OutcomeReached {
		return nil, refuse(CodeNotPermitted, "the outcome is %s", r.outcome)
	}
	a := r.agreement
	var p page
	p.heading("#", escapeLine(a.Title))
	p.block("Consensus was reached: every participant agreed to the revision with the digest below.",
		"Times are those that the venue observed.")
	p.fields(append(a.identity(), r.evidence()...))
	p.terms(a)
	p.heading("##", "Participants")
	for i, m := range a.Participants {
		e, _ := r.Decision(m.ID)
		p.item(i+1, m.describe()+", assurance "+code(e.Assurance), m.Label)
	}
	p.heading("##", "Decisions")
	n := 0
	for _, e := range r.events {
		if IsDecision(e.Action) {
			n++
			p.block(fmt.Sprintf("%d. ", n) + e.describe())
		}
	}
	return []byte(p.String()), nil
}

// evidence are the fields that a reached room adds to the agreement's own.
func (r *Room) evidence() []field {
	last := r.events[len(r.events)-1]
	return []field{
		{"Revision digest", code(r.digest)},
		{"Outcome", r.outcome},
		{"Locked", r.events[0].At.String()},
		{"Reached", last.At.String()},
		{"Events", fmt.Sprint(len(r.events))},
		{"Last event", code(r.head)},
	}
}

// describe is one decision in a line.
func (e Event) describe() string {
	s := fmt.Sprintf("%s, %s, %s, event %d, assurance %s", code(e.ParticipantID), e.Action, e.At, e.Seq, code(e.Assurance))
	if e.Signature == nil {
		s += ", without a signature"
	} else {
		s += ", signed by " + code(e.Signature.PubKey) + ", signature " + code(e.Signature.ID)
	}
	if e.ReceiptRef != "" {
		s += ", receipt " + code(e.ReceiptRef)
	}
	return s
}
