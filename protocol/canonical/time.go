package canonical

import (
	"errors"
	"fmt"
	"time"
)

// timeLayout is RFC 3339 in UTC, to the second, with the letter Z: the only
// spelling of an instant in a Parley document.
const timeLayout = "2006-01-02T15:04:05Z"

// Time is an instant as documents write it: a JSON string such as
// "2026-11-30T12:00:00Z".
type Time struct{ time.Time }

// At is t in UTC, cut to the second.
func At(t time.Time) Time { return Time{t.UTC().Truncate(time.Second)} }

// String is the spelling used in documents.
func (t Time) String() string { return t.UTC().Format(timeLayout) }

// MarshalText implements encoding.TextMarshaler. A year beyond 9999 has no
// spelling.
func (t Time) MarshalText() ([]byte, error) {
	if year := t.UTC().Year(); year < 0 || year > 9999 {
		return nil, fmt.Errorf("canonical: year %d has no RFC 3339 form", year)
	}
	return []byte(t.String()), nil
}

// UnmarshalText implements encoding.TextUnmarshaler. Another zone, a fraction
// of a second or a lower-case letter is an error.
func (t *Time) UnmarshalText(text []byte) error {
	parsed, err := time.Parse(timeLayout, string(text))
	if err != nil || parsed.Format(timeLayout) != string(text) {
		return errors.New("time is not of the form YYYY-MM-DDThh:mm:ssZ")
	}
	*t = Time{parsed.UTC()}
	return nil
}

// MarshalJSON keeps the embedded time.Time's own form out of documents.
func (t Time) MarshalJSON() ([]byte, error) {
	text, err := t.MarshalText()
	if err != nil {
		return nil, err
	}
	return []byte(`"` + string(text) + `"`), nil
}

// UnmarshalJSON accepts only the spelling of String.
func (t *Time) UnmarshalJSON(data []byte) error {
	if len(data) < 2 || data[0] != '"' || data[len(data)-1] != '"' {
		return errors.New("time must be a string")
	}
	return t.UnmarshalText(data[1 : len(data)-1])
}
