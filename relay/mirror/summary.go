package mirror

import (
	"maps"
	"slices"
)

// Summary counts events by what became of them.
type Summary struct {
	Read      int64 `json:"read"` // events, and lines that are none
	Accepted  int64 `json:"accepted"`
	Duplicate int64 `json:"duplicate"`
	Stale     int64 `json:"stale"`
	Expired   int64 `json:"expired"`
	Deleted   int64 `json:"deleted"`
	// Refused counts the other outcomes, those that occurred.
	Refused map[Outcome]int64 `json:"refused"`
}

// add counts one event.
func (s *Summary) add(o Outcome) {
	s.Read++
	switch o {
	case Accepted:
		s.Accepted++
	case Duplicate:
		s.Duplicate++
	case Stale:
		s.Stale++
	case Expired:
		s.Expired++
	case Deleted:
		s.Deleted++
	default:
		if s.Refused == nil {
			s.Refused = map[Outcome]int64{}
		}
		s.Refused[o]++
	}
}

// RefusedTotal is the number of refused events.
func (s *Summary) RefusedTotal() (n int64) {
	for _, count := range s.Refused {
		n += count
	}
	return n
}

// clone is a copy that does not change any more; its map is never nil, so that
// JSON shows it.
func (s *Summary) clone() Summary {
	copied := *s
	copied.Refused = maps.Clone(s.Refused)
	if copied.Refused == nil {
		copied.Refused = map[Outcome]int64{}
	}
	return copied
}

// Reasons are the outcomes in Refused, in the order of their names.
func (s *Summary) Reasons() []Outcome { return slices.Sorted(maps.Keys(s.Refused)) }
