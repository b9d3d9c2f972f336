package message

import (
	"github.com/go-json-experiment/json/jsontext"
	"github.com/nbd-wtf/go-nostr"
)

// AgreementPropose asks a venue to open a room for a revision.
type AgreementPropose struct {
	Revision  string      `json:"revision"`  // canonical bytes of the revision
	Signature nostr.Event `json:"signature"` // the initiator's, kind 1418, action propose
}

// Type is TypeAgreementPropose.
func (AgreementPropose) Type() string { return TypeAgreementPropose }

// Validate implements Body.
func (b AgreementPropose) Validate() error { return checkSigned(b.Revision, b.Signature) }

// AgreementInvite brings a locked revision to a participant; the receiver
// renders the Markdown itself.
type AgreementInvite struct {
	Revision  string      `json:"revision"`  // canonical bytes of the revision
	Signature nostr.Event `json:"signature"` // the initiator's, kind 1418, action propose
}

// Type is TypeAgreementInvite.
func (AgreementInvite) Type() string { return TypeAgreementInvite }

// Validate implements Body.
func (b AgreementInvite) Validate() error { return checkSigned(b.Revision, b.Signature) }

// AgreementCommand is a participant's command to a room.
type AgreementCommand struct {
	Command   jsontext.Value `json:"command"`            // a room-command/v1 object
	Key       string         `json:"key"`                // idempotency key, [A-Za-z0-9._:-]{8,128}
	Signature *nostr.Event   `json:"signature,omitzero"` // kind 1418 over the command
}

// Type is TypeAgreementCommand.
func (AgreementCommand) Type() string { return TypeAgreementCommand }

// Validate implements Body.
func (b AgreementCommand) Validate() error {
	if !IsIdempotencyKey(b.Key) {
		return invalid("body/key", "must be 8 to 128 of A-Z a-z 0-9 . _ : -")
	}
	if b.Signature != nil && b.Signature.Sig == "" {
		return invalid("body/signature", "must be a signed event")
	}
	return checkObject("command", b.Command)
}

// AgreementResult answers a propose or a command: the event it became, or why
// it was refused. Exactly one of the two is there.
type AgreementResult struct {
	InReplyTo   string         `json:"in_reply_to"`           // the message answered
	AgreementID string         `json:"agreement_id,omitzero"` // required with an event
	Event       jsontext.Value `json:"event,omitzero"`        // an event/v1 object
	Refusal     *Refusal       `json:"refusal,omitzero"`
}

// Refusal is why a venue did not do what it was asked.
type Refusal struct {
	Code   string `json:"code"`            // of docs/spec/agreement.md
	Detail string `json:"detail,omitzero"` // for a person, at most MaxDetail
}

// Type is TypeAgreementResult.
func (AgreementResult) Type() string { return TypeAgreementResult }

// Validate implements Body.
func (b AgreementResult) Validate() error {
	if err := checkID("in_reply_to", b.InReplyTo); err != nil {
		return err
	}
	if b.AgreementID != "" || b.Refusal == nil {
		if err := checkID("agreement_id", b.AgreementID); err != nil {
			return err
		}
	}
	switch {
	case (b.Event == nil) == (b.Refusal == nil):
		return invalid("body", "must have exactly one of event and refusal")
	case b.Refusal != nil:
		return checkReason(b.Refusal.Code, b.Refusal.Detail)
	}
	return checkObject("event", b.Event)
}

// AgreementEvent tells a participant what happened in a room.
type AgreementEvent struct {
	Event   jsontext.Value `json:"event"`   // an event/v1 object
	Outcome string         `json:"outcome"` // of the room after the event
}

// Type is TypeAgreementEvent.
func (AgreementEvent) Type() string { return TypeAgreementEvent }

// Validate implements Body.
func (b AgreementEvent) Validate() error {
	if !isName(b.Outcome) {
		return invalid("body/outcome", "must be an outcome")
	}
	return checkObject("event", b.Event)
}

// AgreementQuery asks a venue for events, or for the whole room.
type AgreementQuery struct {
	AgreementID string `json:"agreement_id"`
	From        int64  `json:"from,omitzero"` // first seq wanted; 0 asks for the invite, every event and, once closed, the bundle
}

// Type is TypeAgreementQuery.
func (AgreementQuery) Type() string { return TypeAgreementQuery }

// Validate implements Body.
func (b AgreementQuery) Validate() error {
	if b.From < 0 || b.From > maxSeq {
		return invalid("body/from", "must be 0 to 2^53-1")
	}
	return checkID("agreement_id", b.AgreementID)
}

// AgreementArtifact brings a closed room's bundle.
type AgreementArtifact struct {
	AgreementID string `json:"agreement_id"`
	Bundle      string `json:"bundle"` // canonical bytes of a bundle/v1
}

// Type is TypeAgreementArtifact.
func (AgreementArtifact) Type() string { return TypeAgreementArtifact }

// Validate implements Body.
func (b AgreementArtifact) Validate() error {
	if b.Bundle == "" {
		return invalid("body/bundle", "is required")
	}
	return checkID("agreement_id", b.AgreementID)
}

func checkSigned(revision string, signature nostr.Event) error {
	if revision == "" {
		return invalid("body/revision", "is required")
	}
	if signature.Sig == "" {
		return invalid("body/signature", "must be a signed event")
	}
	return nil
}

func checkObject(member string, value jsontext.Value) error {
	if value.Kind() != '{' {
		return invalid("body/"+member, "must be an object")
	}
	return nil
}
