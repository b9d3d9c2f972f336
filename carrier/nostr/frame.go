package nostr

import (
	"bytes"
	"errors"
	"io"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parleykit/parley/internal/negentropy"
)

// Labels of what a relay sends (NIP-01, NIP-42, NIP-77).
const (
	labelEvent  = "EVENT"
	labelOK     = "OK"
	labelEOSE   = "EOSE"
	labelClosed = "CLOSED"
	labelNotice = "NOTICE"
	labelAuth   = "AUTH"
	labelNegMsg = "NEG-MSG"
	labelNegErr = "NEG-ERR"
)

// frame is one message of a relay.
type frame struct {
	label string
	id    string // of the subscription, or of the event in an OK
	ok    bool
	text  string // reason, notice, challenge or hex of a reconciliation
	event []byte // raw JSON, not checked
}

// Bounds of the strings in a frame, in bytes.
const (
	maxID   = 64
	maxText = 4096
)

var errFrame = errors.New("nostr: malformed frame")

// parseFrame reads one message of a relay. Labels nobody knows give a frame
// with nothing but the label. The event's bytes are part of data.
func parseFrame(data []byte) (frame, error) {
	dec := jsontext.NewDecoder(bytes.NewReader(data))
	if tok, err := dec.ReadToken(); err != nil || tok.Kind() != '[' {
		return frame{}, errFrame
	}
	label, err := readString(dec, maxID)
	if err != nil {
		return frame{}, err
	}
	f := frame{label: label}
	if err := f.readArguments(dec); err != nil {
		return frame{}, err
	}
	return f, nil
}

func (f *frame) readArguments(dec *jsontext.Decoder) (err error) {
	switch f.label {
	case labelEvent:
		return f.readEvent(dec)
	case labelOK:
		return f.readOK(dec)
	case labelEOSE:
		f.id, err = readString(dec, maxID)
	case labelNegMsg:
		if f.id, err = readString(dec, maxID); err == nil {
			f.text, err = readString(dec, 2*negentropy.MaxMessage)
		}
	case labelNegErr: // some relays add a number
		if f.id, err = readString(dec, maxID); err == nil {
			f.text, err = optionalString(dec)
		}
		return err
	case labelClosed:
		if f.id, err = readString(dec, maxID); err == nil {
			f.text, err = optionalString(dec)
		}
	case labelNotice, labelAuth:
		f.text, err = readString(dec, maxText)
	default:
		return nil
	}
	if err != nil {
		return err
	}
	return readEnd(dec)
}

func (f *frame) readEvent(dec *jsontext.Decoder) (err error) {
	if f.id, err = readString(dec, maxID); err != nil {
		return err
	}
	value, err := dec.ReadValue()
	if err != nil || value.Kind() != '{' {
		return errFrame
	}
	f.event = bytes.Clone(value)
	return readEnd(dec)
}

func (f *frame) readOK(dec *jsontext.Decoder) (err error) {
	if f.id, err = readString(dec, maxID); err != nil {
		return err
	}
	tok, err := dec.ReadToken()
	if err != nil || tok.Kind() != 't' && tok.Kind() != 'f' {
		return errFrame
	}
	f.ok = tok.Bool()
	if f.text, err = optionalString(dec); err != nil {
		return err
	}
	return readEnd(dec)
}

func readString(dec *jsontext.Decoder, limit int) (string, error) {
	tok, err := dec.ReadToken()
	if err != nil || tok.Kind() != '"' {
		return "", errFrame
	}
	s := tok.String()
	if len(s) > limit {
		return "", errFrame
	}
	return s, nil
}

// optionalString reads a string that some relays leave out.
func optionalString(dec *jsontext.Decoder) (string, error) {
	if dec.PeekKind() == ']' {
		return "", nil
	}
	return readString(dec, maxText)
}

// readEnd wants the end of the array and of the data.
func readEnd(dec *jsontext.Decoder) error {
	if tok, err := dec.ReadToken(); err != nil || tok.Kind() != ']' {
		return errFrame
	}
	if _, err := dec.ReadToken(); !errors.Is(err, io.EOF) {
		return errFrame
	}
	return nil
}
