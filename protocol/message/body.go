package message

import (
	"fmt"
	"unicode/utf8"

	"github.com/parleykit/parley/protocol/canonical"
)

// Limits of bodies, in code points.
const (
	MaxText   = 16_000 // text of Text
	MaxDetail = 1_000  // explanations meant for a person
)

// Body is the decoded body of one type.
type Body interface {
	// Type is the message type the body belongs to.
	Type() string
	// Validate checks limits and required members; it wraps ErrMalformed.
	Validate() error
}

// DecodeBody reads m's body into body, which must be a pointer to the Body of
// m's type. Unknown members, wrong types and missing members are errors.
func DecodeBody(m *Message, body Body) error {
	if body.Type() != m.Type {
		return fmt.Errorf("%w: %q is not %s", ErrType, m.Type, body.Type())
	}
	if err := canonical.Decode(m.Body, body); err != nil {
		return fmt.Errorf("%w: body: %w", ErrMalformed, err)
	}
	return body.Validate()
}

// Text is plain text for a person or an agent.
type Text struct {
	Text string `json:"text"` // 1 to MaxText code points
}

// Type is TypeText.
func (Text) Type() string { return TypeText }

// Validate implements Body.
func (b Text) Validate() error { return checkText("text", b.Text, 1, MaxText) }

// Ack says that a message was stored durably. Never answered.
type Ack struct {
	ID string `json:"id"` // the stored message
}

// Type is TypeAck.
func (Ack) Type() string { return TypeAck }

// Validate implements Body.
func (b Ack) Validate() error { return checkID("id", b.ID) }

// MaxRanges bounds Nack.Missing: no message has more gaps.
const MaxRanges = 32

// Nack says that a message could not be put together. Either ID names it, or,
// when only some of its parts came, Digest does. Never answered.
type Nack struct {
	ID      string  `json:"id,omitzero"`      // the message that failed
	Digest  string  `json:"digest,omitzero"`  // SHA-256 of its JSON, 64 lowercase hex characters
	Reason  string  `json:"reason,omitzero"`  // for a person, at most MaxDetail
	Missing []Range `json:"missing,omitzero"` // with Digest: the parts that did not come, 1 to MaxRanges, ascending
}

// Range is the parts From to To of a message in parts, both included.
type Range struct {
	From int `json:"from"` // 1 to 64
	To   int `json:"to"`   // From to 64
}

// Type is TypeNack.
func (Nack) Type() string { return TypeNack }

// Validate implements Body.
func (b Nack) Validate() error {
	if err := checkText("reason", b.Reason, 0, MaxDetail); err != nil {
		return err
	}
	if b.Digest == "" {
		if b.Missing != nil {
			return invalid("body/missing", "needs a digest")
		}
		return checkID("id", b.ID)
	}
	if b.ID != "" || !canonical.IsHex(b.Digest, 32) {
		return invalid("body/digest", "must be 64 lowercase hex characters, without an id")
	}
	if len(b.Missing) < 1 || len(b.Missing) > MaxRanges {
		return invalid("body/missing", fmt.Sprintf("must have 1 to %d ranges", MaxRanges))
	}
	last := 0
	for _, r := range b.Missing {
		if r.From <= last || r.To < r.From || r.To > maxParts {
			return invalid("body/missing", fmt.Sprintf("must be ascending ranges within 1 to %d", maxParts))
		}
		last = r.To
	}
	return nil
}

// maxParts is the most wraps a message takes, as package envelope has it.
const maxParts = 64

// Error says that a stored message was not acted on. Never answered.
type Error struct {
	ID     string `json:"id"`              // the message in question
	Code   string `json:"code"`            // for a program: a-z 0-9 . _ -, at most 64
	Detail string `json:"detail,omitzero"` // for a person, at most MaxDetail
}

// Type is TypeError.
func (Error) Type() string { return TypeError }

// Validate implements Body.
func (b Error) Validate() error {
	if err := checkID("id", b.ID); err != nil {
		return err
	}
	return checkReason(b.Code, b.Detail)
}

// checkReason checks the pair of code and detail that refusals carry.
func checkReason(code, detail string) error {
	if !isName(code) {
		return invalid("body/code", "must be 1 to 64 of a-z 0-9 . _ -")
	}
	return checkText("detail", detail, 0, MaxDetail)
}

func checkText(member, text string, least, most int) error {
	if n := utf8.RuneCountInString(text); n < least || n > most {
		return invalid("body/"+member, fmt.Sprintf("has %d code points, allowed are %d to %d", n, least, most))
	}
	return nil
}

func checkID(member, id string) error {
	if !canonical.IsUUID(id, 7) {
		return invalid("body/"+member, "must be a lowercase UUIDv7")
	}
	return nil
}
