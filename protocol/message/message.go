package message

import (
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"github.com/parleykit/parley/protocol/canonical"
)

// Limits of a message.
const (
	Version     = 1
	MaxSize     = 1 << 20             // bytes of the JSON document
	MaxLifetime = 30 * 24 * time.Hour // from sent_at to expires_at
	MaxSkew     = 15 * time.Minute    // how far sent_at may lie ahead
)

// Errors of Parse, New, Encode and Check. Errors of the JSON itself wrap
// canonical.ErrNotIJSON or canonical.ErrShape beside ErrMalformed.
var (
	ErrMalformed = errors.New("message: malformed")              // not the document of docs/spec/message.md
	ErrTooLarge  = errors.New("message: too large")              // document or body over its limit
	ErrType      = errors.New("message: body of another type")   // DecodeBody or New with the wrong body
	ErrExpired   = errors.New("message: expired")                // expires_at has passed
	ErrFuture    = errors.New("message: sent in the future")     // sent_at beyond MaxSkew
	ErrLifetime  = errors.New("message: lifetime out of bounds") // expires_at not after sent_at, or beyond MaxLifetime
)

// Message is one message as it travels, docs/spec/message.md section 1.
type Message struct {
	V         int            `json:"v"`          // always Version
	ID        string         `json:"id"`         // UUIDv7, lowercase
	Type      string         `json:"type"`       // one of Types, or unknown: [a-z0-9._-], at most 64
	Thread    string         `json:"thread"`     // UUIDv7 of the thread's first message
	From      string         `json:"from"`       // sender's public key, 64 lowercase hex
	To        string         `json:"to"`         // recipient's public key, 64 lowercase hex
	Seq       int64          `json:"seq"`        // sender's counter within the thread, 0 when it keeps none
	SentAt    canonical.Time `json:"sent_at"`    // sender's clock
	ExpiresAt canonical.Time `json:"expires_at"` // after it nobody stores, sends or processes the message
	Body      jsontext.Value `json:"body"`       // an object; DecodeBody reads it
}

// New makes a message of the given type from one key to another that expires
// after ttl. Its id is fresh and starts a thread; a reply sets Thread. body is
// a Body, a jsontext.Value or anything else that encodes as a JSON object.
func New(typ, from, to string, body any, now time.Time, ttl time.Duration) (*Message, error) {
	if typed, ok := body.(Body); ok {
		if typed.Type() != typ {
			return nil, fmt.Errorf("%w: %s in a message of type %q", ErrType, typed.Type(), typ)
		}
		if err := typed.Validate(); err != nil {
			return nil, err
		}
	}
	data, err := canonical.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("%w: body: %w", ErrMalformed, err)
	}
	id, err := uuid.NewV7()
	if err != nil {
		return nil, fmt.Errorf("message: making an id: %w", err)
	}
	m := &Message{
		V: Version, ID: id.String(), Type: typ, Thread: id.String(), From: from, To: to,
		SentAt: canonical.At(now), ExpiresAt: canonical.At(now.Add(ttl)), Body: data,
	}
	if err := m.validate(); err != nil {
		return nil, err
	}
	return m, m.Check(now)
}

// Parse reads a message without tolerance: size, shape, the spelling of ids,
// keys and times, and the size of its body, for a known type also the body's
// own rules. It does not look at the clock; Check does.
func Parse(data []byte) (*Message, error) {
	if len(data) > MaxSize {
		return nil, fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, len(data), MaxSize)
	}
	m := &Message{Seq: -1} // an absent seq must not read as 0
	if err := canonical.Decode(data, m); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if err := m.validate(); err != nil {
		return nil, err
	}
	return m, nil
}

// Encode returns the canonical bytes (RFC 8785), or an error when m is not a
// valid message.
func (m *Message) Encode() ([]byte, error) {
	if err := m.validate(); err != nil {
		return nil, err
	}
	data, err := canonical.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if len(data) > MaxSize {
		return nil, fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, len(data), MaxSize)
	}
	return data, nil
}

// Check compares the message's times with each other and with now: ErrLifetime,
// ErrFuture or ErrExpired. A message is expired from the instant expires_at on.
func (m *Message) Check(now time.Time) error {
	lifetime := m.ExpiresAt.Sub(m.SentAt.Time)
	switch {
	case lifetime <= 0 || lifetime > MaxLifetime:
		return fmt.Errorf("%w: %s to %s", ErrLifetime, m.SentAt, m.ExpiresAt)
	case m.SentAt.After(now.Add(MaxSkew)):
		return fmt.Errorf("%w: at %s", ErrFuture, m.SentAt)
	case !now.Before(m.ExpiresAt.Time):
		return fmt.Errorf("%w: at %s", ErrExpired, m.ExpiresAt)
	}
	return nil
}

// validate checks everything that needs no clock.
func (m *Message) validate() error {
	switch {
	case m.V != Version:
		return invalid("v", "must be 1")
	case !canonical.IsUUID(m.ID, 7):
		return invalid("id", "must be a lowercase UUIDv7")
	case !isName(m.Type):
		return invalid("type", "must be 1 to 64 of a-z 0-9 . _ -")
	case !canonical.IsUUID(m.Thread, 7):
		return invalid("thread", "must be a lowercase UUIDv7")
	case !canonical.IsHex(m.From, 32):
		return invalid("from", "must be a public key in lowercase hex")
	case !canonical.IsHex(m.To, 32):
		return invalid("to", "must be a public key in lowercase hex")
	case m.Seq < 0 || m.Seq > maxSeq:
		return invalid("seq", "must be 0 to 2^53-1")
	case m.SentAt.IsZero():
		return invalid("sent_at", "is required")
	case m.ExpiresAt.IsZero():
		return invalid("expires_at", "is required")
	}
	return m.validateBody()
}

func (m *Message) validateBody() error {
	if limit := maxBody(m.Type); len(m.Body) > limit {
		return fmt.Errorf("%w: body of %d bytes, at most %d for type %q", ErrTooLarge, len(m.Body), limit, m.Type)
	}
	if m.Body.Kind() != '{' {
		return invalid("body", "must be an object")
	}
	body := newBody(m.Type)
	if body == nil {
		return nil
	}
	return DecodeBody(m, body)
}

// invalid names the member that is wrong by its JSON pointer.
func invalid(member, rule string) error {
	return fmt.Errorf("%w: /%s %s", ErrMalformed, member, rule)
}
