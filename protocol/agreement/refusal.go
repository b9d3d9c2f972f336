package agreement

import "fmt"

// Codes of a Refusal, a closed set (docs/spec/agreement.md, "Refusals").
const (
	CodeInvalid            = "invalid"             // shape, limits or an action the profile does not have
	CodeUnknownAgreement   = "unknown_agreement"   // no such agreement, or another one than the room's
	CodeUnknownParticipant = "unknown_participant" // not in the roster
	CodeStaleDigest        = "stale_digest"        // another revision or digest than the locked one
	CodeClosed             = "closed"              // the room has an outcome
	CodeExpired            = "expired"             // the deadline has come
	CodeAlreadyDecided     = "already_decided"     // a second agree, disagree or abstain
	CodeEventLimit         = "event_limit"         // no event left for this participant
	CodeKeyConflict        = "key_conflict"        // idempotency key reused for other bytes; for the venue
	CodeSignatureRequired  = "signature_required"  // an act that counts only when signed
	CodeSignatureInvalid   = "signature_invalid"   // a signature that does not prove the act
	CodeNotPermitted       = "not_permitted"       // the act exists, this participant may not do it now
	CodeCap                = "cap"                 // a limit of the venue's own policy; for the venue
)

// Refusal is the typed answer to an act that is not accepted. Nothing has
// changed when one is returned. Detail is a short plain sentence that names a
// place or a limit and never repeats text of the parties.
type Refusal struct {
	Code   string `json:"code"`
	Detail string `json:"detail"`
}

// Error implements error.
func (r *Refusal) Error() string { return "agreement: " + r.Code + ": " + r.Detail }

// Is lets errors.Is compare by code: errors.Is(err, &Refusal{Code: CodeClosed}).
func (r *Refusal) Is(target error) bool {
	other, ok := target.(*Refusal)
	return ok && other.Code == r.Code && (other.Detail == "" || other.Detail == r.Detail)
}

func refuse(code, format string, args ...any) *Refusal {
	return &Refusal{Code: code, Detail: fmt.Sprintf(format, args...)}
}
