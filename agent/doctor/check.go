package doctor

import (
	"errors"
	"fmt"
	"net/url"
)

// Verdict is what a check found.
type Verdict string

// The verdicts, a closed set.
const (
	Good    Verdict = "good"
	Warning Verdict = "warning" // it works, and will trouble somebody
	Bad     Verdict = "bad"
	Skipped Verdict = "skipped" // it could not be looked at
)

// Check is one thing that was looked at.
type Check struct {
	Name    string  `json:"name"`           // such as "tls"
	Verdict Verdict `json:"verdict"`        // what was found
	Detail  string  `json:"detail"`         // one line, safe to show; may quote the server
	Hint    string  `json:"hint,omitempty"` // what to do about it
}

func good(name, format string, args ...any) Check {
	return Check{Name: name, Verdict: Good, Detail: fmt.Sprintf(format, args...)}
}

func warning(name, hint, format string, args ...any) Check {
	return Check{Name: name, Verdict: Warning, Detail: fmt.Sprintf(format, args...), Hint: hint}
}

func bad(name, hint, format string, args ...any) Check {
	return Check{Name: name, Verdict: Bad, Detail: fmt.Sprintf(format, args...), Hint: hint}
}

func skipped(name, reason string) Check {
	return Check{Name: name, Verdict: Skipped, Detail: reason}
}

// cause is an error without the address, which an URL error repeats.
func cause(err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		return wrapped.Err
	}
	return err
}
