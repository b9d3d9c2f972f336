package receipt

import (
	"errors"
	"fmt"
)

// Error is a refusal: the code of the protocol's registry, the place as a JSON
// pointer (RFC 6901; "" when the whole document is meant) and a text for
// people. The text repeats nothing of the input but names, cut short.
type Error struct {
	Code    Code
	Pointer string
	Detail  string
}

// Error is the refusal on one line.
func (e *Error) Error() string {
	text := "receipt: " + string(e.Code)
	if e.Pointer != "" {
		text += " at " + quoted(e.Pointer)
	}
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	return text
}

// CodeOf is the code of the first Error in err's chain, "" when there is none.
func CodeOf(err error) Code {
	if refusal, ok := errors.AsType[*Error](err); ok && refusal != nil {
		return refusal.Code
	}
	return ""
}

// refuse makes a refusal.
func refuse(code Code, pointer, format string, args ...any) *Error {
	return &Error{Code: code, Pointer: pointer, Detail: fmt.Sprintf(format, args...)}
}
