package agreement

import (
	"slices"
	"strings"

	"github.com/parleykit/parley/protocol/canonical"
)

// Assurances, a closed set: how the venue knows that an act is the
// participant's. They are recorded as they are and never rounded up.
const (
	AssuranceRecipientEmailProof = "recipient-email-proof-possession"
	AssuranceInviteLink          = "invite-link-possession"
	AssuranceNostrKey            = "nostr-key-signature"
	AssuranceEmailReplyDKIMA     = "email-reply-dkim-a"
	AssuranceEmailReplyDKIMB     = "email-reply-dkim-b"
	AssuranceLocalOperator       = "local-operator"
)

// Assurances returns the closed set.
func Assurances() []string {
	return []string{
		AssuranceRecipientEmailProof, AssuranceInviteLink, AssuranceNostrKey,
		AssuranceEmailReplyDKIMA, AssuranceEmailReplyDKIMB, AssuranceLocalOperator,
	}
}

// ZeroHash is prev of the first event.
var ZeroHash = strings.Repeat("0", 64)

// MaxEventSize bounds an event/v1 in bytes before parsing.
const MaxEventSize = 128 << 10

// Event is event/v1: one accepted act. Each event carries the hash of the one
// before it, so an event list proves its own order and completeness.
type Event struct {
	Schema         string         `json:"schema"`
	AgreementID    string         `json:"agreement_id"`
	Seq            int64          `json:"seq"`  // 1, 2, 3, …
	Prev           string         `json:"prev"` // Hash of the previous event; ZeroHash for the first
	At             canonical.Time `json:"at"`   // the venue's clock
	ParticipantID  string         `json:"participant_id"`
	Action         string         `json:"action"`
	Body           string         `json:"body"`
	Revision       int64          `json:"revision"`
	RevisionDigest string         `json:"revision_digest"`
	Assurance      string         `json:"assurance"`
	Signature      *Signature     `json:"signature,omitzero"`
	ReceiptRef     string         `json:"receipt_ref,omitempty"`
}

// ParseEvent reads one event/v1 document strictly. The rules of the room, the
// signature among them, are checked by Replay. Errors are *Refusal with
// CodeInvalid.
func ParseEvent(data []byte) (*Event, error) {
	e := new(Event)
	if err := decode(data, MaxEventSize, e); err != nil {
		return nil, err
	}
	if r := e.check(); r != nil {
		return nil, r
	}
	return e, nil
}

func (e *Event) check() *Refusal {
	switch {
	case !validSchema(e.Schema, schemaEvent):
		return refuse(CodeInvalid, "/schema: not an http or https origin with %s", schemaEvent)
	case !canonical.IsUUID(e.AgreementID, 7):
		return refuse(CodeInvalid, "/agreement_id: not a lower-case UUID of version 7")
	case e.Seq < 1:
		return refuse(CodeInvalid, "/seq: below 1")
	case !canonical.IsHex(e.Prev, 32):
		return refuse(CodeInvalid, "/prev: not 64 lower-case hex characters")
	case !validParticipantID(e.ParticipantID) && e.ParticipantID != VenueID:
		return refuse(CodeInvalid, "/participant_id: neither p1 to p%d nor %s", MaxParticipants, VenueID)
	case !canonical.IsHex(e.RevisionDigest, 32):
		return refuse(CodeInvalid, "/revision_digest: not 64 lower-case hex characters")
	case !slices.Contains(Assurances(), e.Assurance):
		return refuse(CodeInvalid, "/assurance: unknown")
	case e.ReceiptRef != "" && !canonical.IsHex(e.ReceiptRef, 32):
		return refuse(CodeInvalid, "/receipt_ref: not 64 lower-case hex characters")
	}
	return checkBody(e.Action, e.Body)
}

// Canonical returns the RFC 8785 bytes of the event.
func (e Event) Canonical() ([]byte, error) { return canonical.Marshal(e) }

// Hash is the lowercase hex SHA-256 of the canonical bytes: what the next
// event names as prev. It is empty for a value without a canonical form.
func (e Event) Hash() string {
	data, err := e.Canonical()
	if err != nil {
		return ""
	}
	return canonical.Digest(data)
}

// command is the command that the event answers.
func (e *Event) command(origin string) Command {
	return Command{
		Schema: origin + schemaCommand, AgreementID: e.AgreementID, ParticipantID: e.ParticipantID,
		Action: e.Action, Body: e.Body, Revision: e.Revision, RevisionDigest: e.RevisionDigest,
	}
}
