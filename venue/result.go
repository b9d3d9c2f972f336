package venue

import "github.com/parleykit/parley/protocol/agreement"

// Caller is who asks, as the transport has authenticated it. Exactly one of
// PubKey and ParticipantID is set.
type Caller struct {
	// PubKey sealed or signed the request, lower-case hex. The participant is
	// the roster entry whose own key or delegate it is.
	PubKey string
	// ParticipantID is the place in the roster that a credential of another
	// transport stands for, "p1" to "p8".
	ParticipantID string
	// Assurance is how a ParticipantID is known, one of agreement.Assurances.
	// A PubKey is always agreement.AssuranceNostrKey.
	Assurance string
}

// assurance is what an event of this caller records.
func (c Caller) assurance() string {
	if c.PubKey != "" {
		return agreement.AssuranceNostrKey
	}
	return c.Assurance
}

// Result answers a proposal or a command: exactly one of Event and Refusal is
// set. A refusal is an answer, not a failure: the transaction is committed.
type Result struct {
	AgreementID string
	Event       []byte             // canonical event/v1; for a proposal the first event
	Refusal     *agreement.Refusal // why nothing was done
	Replayed    bool               // the same request was answered before
	Outcome     string             // of the room afterwards; empty when the caller may not know
}

// refused makes a Result of a Refusal, or passes any other error on. Only a
// bare Refusal is an answer to the caller: one that is wrapped is the reason of
// a failure, such as a stored room that does not replay.
func refused(id string, err error) (*Result, error) {
	if refusal, bare := err.(*agreement.Refusal); bare { //nolint:errorlint // on purpose, see above
		return &Result{AgreementID: id, Refusal: refusal}, nil
	}
	return nil, err
}

func refuse(code, detail string) *agreement.Refusal {
	return &agreement.Refusal{Code: code, Detail: detail}
}

// unknown is the one answer to everything about a room that the caller takes
// no part in, whether it exists or not.
func unknown() *agreement.Refusal {
	return refuse(agreement.CodeUnknownAgreement, "no agreement of this id in which you take part")
}

// code is the label of a result in the metrics.
func (r *Result) code() string {
	switch {
	case r.Refusal != nil:
		return r.Refusal.Code
	case r.Replayed:
		return resultReplayed
	}
	return resultAccepted
}
