package conformance

import (
	"math/rand/v2"
	"slices"

	"github.com/nbd-wtf/go-nostr"
)

// World is what random filters are made of. It is small, so that they hit.
// Every list but IDs must hold something.
type World struct {
	IDs, Authors []string
	Kinds        []int
	Letters      []string // names of tags
	Values       []string // of tags
	Times        [2]int64 // the first and the last second
}

func pick[T any](rng *rand.Rand, from []T) T { return from[rng.IntN(len(from))] }

// few picks up to most of them, with repetitions.
func few[T any](rng *rand.Rand, from []T, least, most int) []T {
	out := []T{}
	for range least + rng.IntN(most-least+1) {
		out = append(out, pick(rng, from))
	}
	return out
}

// Time is a random second of the world.
func (w *World) Time(rng *rand.Rand) nostr.Timestamp {
	return nostr.Timestamp(w.Times[0] + rng.Int64N(w.Times[1]-w.Times[0]+1))
}

// Tags are up to three random tags.
func (w *World) Tags(rng *rand.Rand) nostr.Tags {
	var tags nostr.Tags
	for range rng.IntN(4) {
		tags = append(tags, nostr.Tag{pick(rng, w.Letters), pick(rng, w.Values)})
	}
	return tags
}

// Filter is a random filter. Each element is left out more often than not; a
// list that is there holds at least one value.
func (w *World) Filter(rng *rand.Rand) nostr.Filter {
	f := nostr.Filter{Tags: nostr.TagMap{}}
	if len(w.IDs) > 0 && rng.IntN(6) == 0 {
		f.IDs = few(rng, w.IDs, 1, 4)
	}
	if rng.IntN(3) == 0 {
		f.Authors = few(rng, w.Authors, 1, 3)
	}
	if rng.IntN(2) == 0 {
		f.Kinds = few(rng, append([]int{1}, w.Kinds...), 1, 3)
	}
	for _, letter := range w.Letters {
		if rng.IntN(4) == 0 {
			f.Tags[letter] = few(rng, append([]string{"nowhere"}, w.Values...), 1, 3)
		}
	}
	if rng.IntN(4) == 0 {
		at := w.Time(rng)
		f.Since = &at
	}
	if rng.IntN(4) == 0 {
		at := w.Time(rng)
		f.Until = &at
	}
	if rng.IntN(2) == 0 {
		f.Limit = rng.IntN(20)
		f.LimitZero = f.Limit == 0
	}
	return f
}

// Matches is the plainest reading of NIP-01 there is: whether f, its limit
// apart, matches ev. A nil list sets no condition, an empty one matches
// nothing.
func Matches(f nostr.Filter, ev *nostr.Event) bool {
	ok := (f.IDs == nil || slices.Contains(f.IDs, ev.ID)) &&
		(f.Authors == nil || slices.Contains(f.Authors, ev.PubKey)) &&
		(f.Kinds == nil || slices.Contains(f.Kinds, ev.Kind)) &&
		(f.Since == nil || ev.CreatedAt >= *f.Since) && (f.Until == nil || ev.CreatedAt <= *f.Until)
	for letter, values := range f.Tags {
		ok = ok && slices.ContainsFunc(ev.Tags, func(t nostr.Tag) bool {
			return len(t) > 1 && t[0] == letter && slices.Contains(values, t[1])
		})
	}
	return ok
}

// WireFilter is f as the members of a JSON object, empty lists included.
func WireFilter(f nostr.Filter) map[string]any {
	w := map[string]any{}
	if f.IDs != nil {
		w["ids"] = f.IDs
	}
	if f.Authors != nil {
		w["authors"] = f.Authors
	}
	if f.Kinds != nil {
		w["kinds"] = f.Kinds
	}
	for letter, values := range f.Tags {
		w["#"+letter] = values
	}
	if f.Since != nil {
		w["since"] = *f.Since
	}
	if f.Until != nil {
		w["until"] = *f.Until
	}
	if f.Limit > 0 || f.LimitZero {
		w["limit"] = f.Limit
	}
	return w
}
