package relay

import (
	"errors"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/nbd-wtf/go-nostr"

	"github.com/parleykit/parley/protocol/canonical"
)

// Refusals of a filter; the texts are fit for the peer.
var (
	errUnknownElement = errors.New("filter contains unknown elements")
	errNotFilter      = errors.New("a filter is not a JSON object")
)

// parseFilter reads one filter (NIP-01, NIP-50). No limit in the filter means
// l.Results, as does one above it. An element this relay does not know is
// refused: leaving it out would answer more than was asked for.
func parseFilter(data []byte, l Limits) (nostr.Filter, error) {
	f := nostr.Filter{Limit: l.Results}
	var members map[string]jsontext.Value
	if err := json.Unmarshal(data, &members); err != nil || members == nil {
		return f, errNotFilter
	}
	for name, value := range members {
		if err := setElement(&f, name, value, l); err != nil {
			return f, err
		}
	}
	return f, nil
}

// setElement reads one member of a filter.
func setElement(f *nostr.Filter, name string, value jsontext.Value, l Limits) error {
	switch name {
	case "ids":
		return keyList(&f.IDs, name, value, l)
	case "authors":
		return keyList(&f.Authors, name, value, l)
	case "kinds":
		return list(&f.Kinds, name, value, l)
	case "since":
		return timestamp(&f.Since, name, value)
	case "until":
		return timestamp(&f.Until, name, value)
	case "limit":
		return limit(f, value, l)
	case "search":
		return searchText(f, value)
	}
	if len(name) != 2 || name[0] != '#' || !isTagLetter(name[1:]) {
		return errUnknownElement
	}
	var values []string
	if err := list(&values, name, value, l); err != nil {
		return err
	}
	if f.Tags == nil {
		f.Tags = nostr.TagMap{}
	}
	f.Tags[name[1:]] = values
	return nil
}

// list reads a list of at most l.FilterValues values. An empty list is kept:
// it matches nothing.
func list[T comparable](to *[]T, name string, value jsontext.Value, l Limits) error {
	if value.Kind() != '[' {
		return fmt.Errorf("%s is not a list", name)
	}
	values := []T{}
	if err := json.Unmarshal(value, &values); err != nil {
		return fmt.Errorf("%s holds a value of the wrong type", name)
	}
	if len(values) > l.FilterValues {
		return fmt.Errorf("%s holds more than %d values", name, l.FilterValues)
	}
	*to = values
	return nil
}

// keyList is list for ids and public keys.
func keyList(to *[]string, name string, value jsontext.Value, l Limits) error {
	if err := list(to, name, value, l); err != nil {
		return err
	}
	if slices.ContainsFunc(*to, func(s string) bool { return !canonical.IsHex(s, 32) }) {
		return fmt.Errorf("%s holds a value that is not 64 lowercase hex digits", name)
	}
	return nil
}

func timestamp(to **nostr.Timestamp, name string, value jsontext.Value) error {
	var t nostr.Timestamp
	if err := json.Unmarshal(value, &t); err != nil || value.Kind() != '0' {
		return fmt.Errorf("%s is not an integer", name)
	}
	*to = &t
	return nil
}

func limit(f *nostr.Filter, value jsontext.Value, l Limits) error {
	var n int
	if err := json.Unmarshal(value, &n); err != nil || value.Kind() != '0' || n < 0 {
		return errors.New("limit is not a positive integer or zero")
	}
	f.Limit, f.LimitZero = min(n, l.Results), n == 0
	return nil
}

// searchText reads a search; one without words sets no condition.
func searchText(f *nostr.Filter, value jsontext.Value) error {
	var text string
	if err := json.Unmarshal(value, &text); err != nil || value.Kind() != '"' {
		return errors.New("search is not a string")
	}
	parsed, err := parseSearch(text)
	f.Search = parsed
	return err
}

// scope is what one filter of a REQ may read: one or two filters that share
// one limit.
type scope struct {
	limit int
	parts []nostr.Filter
	keys  []string // whose wraps it may read
}

// searches reports whether the filter of the scope has a search.
func (s scope) searches() bool { return len(s.parts) > 0 && s.parts[0].Search != "" }

// searched cuts the scope of a filter with a search to the kinds that are
// searched.
func (s scope) searched(f nostr.Filter) scope {
	if f.Search == "" {
		return s
	}
	if f.Kinds == nil {
		f.Kinds = searchedKinds
	} else {
		f, _ = splitKinds(f, searchedKinds)
	}
	s.parts = []nostr.Filter{f}
	return s
}

// errAuthRequired says that a filter names wraps and nobody authenticated.
var errAuthRequired = errors.New("wraps are served to their authenticated recipients only")

// scopeOf cuts f to what a connection that may read the wraps for keys may
// read. Without kinds it means the open kinds: wraps are never part of it.
// Naming wraps adds the keys as recipients, for stored and for live events.
func scopeOf(f nostr.Filter, openKinds []int, keys []string) (scope, error) {
	s := scope{limit: f.Limit, keys: keys}
	if f.Kinds == nil {
		f.Kinds = openKinds
		s.parts = []nostr.Filter{f}
		return s, nil
	}
	open := slices.DeleteFunc(slices.Clone(f.Kinds), func(k int) bool { return k == kindWrap })
	if len(open) == len(f.Kinds) {
		s.parts = []nostr.Filter{f}
		return s, nil
	}
	if len(keys) == 0 {
		return s, errAuthRequired
	}
	if len(open) > 0 {
		rest := f
		rest.Kinds = open
		s.parts = append(s.parts, rest)
	}
	s.parts = append(s.parts, ownWraps(f, keys))
	return s, nil
}

// ownWraps cuts f to wraps for the keys.
func ownWraps(f nostr.Filter, keys []string) nostr.Filter {
	f = f.Clone()
	f.Kinds = []int{kindWrap}
	own := slices.Clone(keys)
	if asked, ok := f.Tags["p"]; ok {
		own = slices.DeleteFunc(own, func(k string) bool { return !slices.Contains(asked, k) })
	}
	if f.Tags == nil {
		f.Tags = nostr.TagMap{}
	}
	f.Tags["p"] = own
	return f
}
