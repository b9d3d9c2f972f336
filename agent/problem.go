package agent

import (
	"errors"
	"fmt"
	"net/http"
)

// Code says what kind of failure an operation met. The set is closed; it
// decides the HTTP status on the socket and the exit code of the command line.
type Code string

// Codes of Error.
const (
	CodeInvalid     Code = "invalid"     // the request itself is wrong
	CodeRefused     Code = "refused"     // a check failed or the other side said no
	CodeNotFound    Code = "not_found"   // nothing of that name is known
	CodeTimeout     Code = "timeout"     // nothing failed, the answer is still out
	CodeUnavailable Code = "unavailable" // the home, the daemon or the server cannot be used now
	CodeInternal    Code = "internal"    // a fault of this program or its disk
)

// Error is what every operation returns when it fails.
type Error struct {
	Code   Code   // kind of failure
	Detail string // one plain sentence, safe to show; may quote text of others
	Hint   string // what to do next, often a command; may be empty
	err    error
}

// Error implements error.
func (e *Error) Error() string { return e.Detail }

// Unwrap returns the cause, or nil.
func (e *Error) Unwrap() error { return e.err }

func invalid(format string, args ...any) *Error { return problem(CodeInvalid, format, args...) }

func refused(format string, args ...any) *Error { return problem(CodeRefused, format, args...) }

func notFound(format string, args ...any) *Error { return problem(CodeNotFound, format, args...) }

func timedOut(format string, args ...any) *Error { return problem(CodeTimeout, format, args...) }

func unavailable(format string, args ...any) *Error { return problem(CodeUnavailable, format, args...) }

func problem(code Code, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Code: code, Detail: err.Error(), err: errors.Unwrap(err)}
}

func (e *Error) hint(format string, args ...any) *Error {
	e.Hint = fmt.Sprintf(format, args...)
	return e
}

// asError gives every error a code; unknown ones are internal.
func asError(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return &Error{Code: CodeInternal, Detail: err.Error(), err: err}
}

// status is the one mapping from codes to HTTP.
func (c Code) status() int {
	switch c {
	case CodeInvalid:
		return http.StatusBadRequest
	case CodeRefused:
		return http.StatusConflict
	case CodeNotFound:
		return http.StatusNotFound
	case CodeTimeout:
		return http.StatusGatewayTimeout
	case CodeUnavailable:
		return http.StatusServiceUnavailable
	default:
		return http.StatusInternalServerError
	}
}
