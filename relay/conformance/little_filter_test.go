package conformance_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/nbd-wtf/go-nostr"

	"github.com/parleykit/parley/relay/conformance"
)

// query is one filter.
type query struct {
	nostr.Filter
	search  *string
	limited bool
	odd     bool // holds something unknown
}

// parseQuery reads a filter strictly. The error is the text of a refusal.
func (l *little) parseQuery(data []byte, s *session) (query, error) {
	q := query{Filter: nostr.Filter{Tags: nostr.TagMap{}}}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(data, &members); err != nil || members == nil {
		if l.is("a bad filter means all") {
			return q, nil
		}
		return q, errors.New("invalid: filter")
	}
	var err error
	for name, value := range members {
		switch {
		case name == "ids":
			err = errors.Join(err, json.Unmarshal(value, &q.IDs))
		case name == "authors":
			err = errors.Join(err, json.Unmarshal(value, &q.Authors))
		case name == "kinds":
			err = errors.Join(err, json.Unmarshal(value, &q.Kinds))
		case name == "since":
			err = errors.Join(err, json.Unmarshal(value, &q.Since))
		case name == "until":
			err = errors.Join(err, json.Unmarshal(value, &q.Until))
		case name == "limit":
			err = errors.Join(err, json.Unmarshal(value, &q.Limit))
			q.limited, q.LimitZero = true, q.Limit == 0
		case name == "search":
			err = errors.Join(err, json.Unmarshal(value, &q.search))
		case len(name) == 2 && name[0] == '#':
			var values []string
			err = errors.Join(err, json.Unmarshal(value, &values))
			q.Tags[name[1:]] = values
		default:
			q.odd = true
		}
	}
	for _, id := range append(slices.Clone(q.IDs), q.Authors...) {
		if !hex64.MatchString(id) && !l.is("ids are prefixes") {
			err = errors.Join(err, errMessage)
		}
	}
	switch {
	case q.odd && !l.is("unknown elements are ignored"):
		return q, errors.New("unsupported: filter contains unknown elements")
	case err != nil && !l.is("a bad filter means all"):
		return q, errors.New("invalid: filter")
	case slices.Contains(q.Kinds, 1059) && len(s.keys) == 0 && !l.is("wraps are for all") && !l.is("naming wraps finds nothing"):
		return q, errors.New("auth-required: wraps")
	case len(q.Authors) > 50 && l.is("fifty values are enough"):
		return q, errors.New("invalid: too many")
	}
	return q, nil
}

// visible reports whether who holds the keys may see the event by the query.
func (l *little) visible(q query, ev *nostr.Event, keys []string, live bool) bool {
	if ev.Kind != 1059 || l.is("wraps are for all") || q.search != nil && l.is("wraps are searched") || l.is("live wraps are for all") && live {
		return true
	}
	if !slices.Contains(q.Kinds, 1059) {
		return l.is("wraps are found without kinds")
	}
	return slices.Contains(keys, tagValue(ev, "p")) || len(keys) > 0 && l.is("any key sees wraps")
}

// matches reports whether the query, its limit apart, matches.
func (l *little) matches(q query, ev *nostr.Event, live bool) bool {
	f := q.Filter
	f.Tags = nostr.TagMap{}
	for letter, values := range q.Tags {
		if l.tagMatches(letter, values, ev) {
			continue
		}
		return false
	}
	switch {
	case live && l.is("live events are not filtered by kind"):
		f.Kinds = nil
	case live && l.is("live events are not filtered by time"):
		f.Since = nil
	}
	empty := f.IDs != nil && len(f.IDs) == 0 || f.Authors != nil && len(f.Authors) == 0 || f.Kinds != nil && len(f.Kinds) == 0
	switch {
	case f.Since != nil && ev.CreatedAt == *f.Since && l.is("since is exclusive"), f.Until != nil && ev.CreatedAt == *f.Until && l.is("until is exclusive"):
		return false
	case l.is("since is ignored"):
		f.Since = nil
	case l.is("until is ignored"):
		f.Until = nil
	case l.is("kinds are ignored"):
		f.Kinds = nil
	case l.is("authors are ignored"):
		f.Authors = nil
	case l.is("ids are ignored"):
		f.IDs = nil
	case l.is("empty lists are ignored") && empty:
		return true
	}
	if l.is("ids are prefixes") && len(f.IDs) > 0 {
		if !slices.ContainsFunc(f.IDs, func(p string) bool { return strings.HasPrefix(ev.ID, p) }) {
			return false
		}
		f.IDs = nil
	}
	return conformance.Matches(f, ev) && l.found(q, ev) && (!expired(ev) || l.is("expired events are served") || l.is("expired events are taken and served"))
}

func (l *little) tagMatches(letter string, values []string, ev *nostr.Event) bool {
	if l.is("one tag filter is enough") && letter != "t" {
		return true
	}
	if l.is("empty lists are ignored") && len(values) == 0 {
		return true
	}
	if l.is("only one value counts") {
		values = values[:min(1, len(values))]
	}
	return slices.ContainsFunc(ev.Tags, func(t nostr.Tag) bool {
		if len(t) < 2 {
			return false
		}
		same := t[0] == letter
		if l.is("tag names have no case") {
			same = strings.EqualFold(t[0], letter)
		}
		return same && slices.ContainsFunc(values, func(v string) bool {
			return v == t[1] || l.is("tag values have no case") && strings.EqualFold(v, t[1]) ||
				l.is("every value of a tag counts") && slices.Contains(t[1:], v)
		})
	})
}

// found reports whether the search finds the event (NIP-50).
func (l *little) found(q query, ev *nostr.Event) bool {
	if q.search == nil || l.is("search is ignored") {
		return true
	}
	if ev.Kind == 1059 && !l.is("wraps are searched") {
		return false
	}
	text := strings.ToLower(ev.Content)
	for _, tag := range ev.Tags {
		text += " " + strings.ToLower(strings.Join(tag, " "))
	}
	for _, word := range strings.Fields(strings.ToLower(*q.search)) {
		if strings.Contains(word, ":") && !l.is("extensions are words") {
			continue
		}
		if !strings.Contains(text, word) {
			return false
		}
	}
	return true
}

// find returns what the queries find, in order.
func (l *little) find(queries []query, keys []string) []*nostr.Event {
	sorted := slices.Clone(l.events)
	slices.SortStableFunc(sorted, func(a, b *nostr.Event) int {
		if l.is("oldest first") {
			a, b = b, a
		}
		if l.is("ids in no order") {
			return cmp.Compare(b.CreatedAt, a.CreatedAt)
		}
		return cmp.Or(cmp.Compare(b.CreatedAt, a.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	var out []*nostr.Event
	seen := map[string]bool{}
	total := 0
	for _, q := range queries {
		left := littleResults
		if q.limited && !l.is("limit is ignored") && !(q.search != nil && l.is("a search has no limit")) {
			left = min(q.Limit, littleResults)
		}
		if l.is("no limit of results") && q.Limit > littleResults || l.is("limit 0 means no limit") && q.LimitZero {
			left = 1000
		}
		for _, ev := range sorted {
			hidden := ev.Kind == 1059 && !l.visible(q, ev, keys, false)
			if !l.matches(q, ev, false) || hidden && !l.is("hidden wraps take places") {
				continue
			}
			if left--; left < 0 {
				break
			}
			if total++; hidden || seen[ev.ID] && !l.is("a stored copy for each filter") || total > 1 && l.is("one limit for all filters") && q.Limit == 1 {
				continue
			}
			seen[ev.ID] = true
			out = append(out, ev)
		}
		if l.is("only the first filter counts") {
			break
		}
	}
	if !l.is("filters one after the other") {
		slices.SortStableFunc(out, func(a, b *nostr.Event) int { return cmp.Compare(slices.Index(sorted, a), slices.Index(sorted, b)) })
	}
	return out
}
