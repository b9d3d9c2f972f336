package canonical

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/nbd-wtf/go-nostr"
)

// ErrShape is wrapped when a document is I-JSON but not what was asked for: an
// unknown name, a wrong type, a null where a value belongs.
var ErrShape = errors.New("canonical: unexpected shape")

// Decode reads one JSON document into v, which must be a pointer. Names match
// to the letter; an unknown name, a wrong type, a null for anything but an
// interface or a raw value, or a document the gate refuses is an error that
// names its place as a JSON pointer: what is optional is left out, never null.
// A nostr.Event anywhere in v is read as strictly as DecodeEvent does. Absent
// names leave v as it was: whether one is required is for the caller to say.
func Decode(data []byte, v any) error {
	if err := Check(data); err != nil {
		return err
	}
	return unmarshal(data, v)
}

// unmarshal is Decode after the gate.
func unmarshal(data []byte, v any) error {
	err := json.Unmarshal(data, v, json.RejectUnknownMembers(true), json.WithUnmarshalers(strictness))
	if err == nil {
		return nil
	}
	if semantic, ok := errors.AsType[*json.SemanticError](err); ok {
		return shapeError(semantic)
	}
	return fmt.Errorf("%w: %w", ErrShape, err)
}

// shapeError gives a decoder's error a text that is bounded, free of Go's type
// names and always the same.
func shapeError(err *json.SemanticError) error {
	at := place(err.JSONPointer)
	switch {
	case errors.Is(err.Err, json.ErrUnknownName):
		return fmt.Errorf("%w: unknown name at %s", ErrShape, at)
	case err.Err != nil:
		return fmt.Errorf("%w: %w at %s", ErrShape, err.Err, at)
	}
	return fmt.Errorf("%w: %s of the wrong type at %s", ErrShape, kindName(err.JSONKind), at)
}

func kindName(kind jsontext.Kind) string {
	switch kind {
	case 'n':
		return "null"
	case 't', 'f':
		return "boolean"
	case '"':
		return "string"
	case '0':
		return "number"
	case '{':
		return "object"
	case '[':
		return "array"
	}
	return "value"
}

var errNull = errors.New("null")

// strictness closes what the decoder leaves open: events bring a lenient
// decoder of their own, and null would silently mean a zero value.
var strictness *json.Unmarshalers

func init() { // not in the declaration, which would refer to itself
	strictness = json.JoinUnmarshalers(
		json.UnmarshalFromFunc(unmarshalEvent),
		json.UnmarshalFromFunc(refuseNull),
	)
}

func unmarshalEvent(dec *jsontext.Decoder, ev *nostr.Event) error {
	data, err := dec.ReadValue()
	if err != nil {
		return err
	}
	decoded, err := decodeEvent(data)
	if err != nil {
		return err
	}
	*ev = *decoded
	return nil
}

func refuseNull(dec *jsontext.Decoder, v any) error {
	if dec.PeekKind() == 'n' && !nullable(v) {
		return errNull
	}
	return errors.ErrUnsupported // not ours: the decoder goes on
}

// nullable reports whether null is a value of its own for the target v.
func nullable(v any) bool {
	_, raw := v.(*jsontext.Value)
	return raw || reflect.TypeOf(v).Elem().Kind() == reflect.Interface
}
