package conformance

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"

	"github.com/nbd-wtf/go-nostr"
)

// shelf is three stored events of three authors: profiles at three times.
type shelf struct {
	c    *client
	keys [3]*key
	ev   [3]nostr.Event // oldest first
	at   nostr.Timestamp
}

// shelve publishes a shelf; event i has the tags that tags returns for it.
func (t *trial) shelve(tags func(i int) nostr.Tags) *shelf {
	s := &shelf{c: t.dial(), at: nostr.Now() - 100}
	for i := range s.ev {
		s.keys[i] = t.key()
		s.ev[i] = t.profile(s.keys[i], s.at+nostr.Timestamp(10*i), tags(i)...)
		s.c.accept(s.ev[i])
	}
	return s
}

func noTags(int) nostr.Tags { return nil }

// finds is a check that a filter finds exactly these of the shelf's events.
func finds(name, property string, tags func(int) nostr.Tags, build func(t *trial, s *shelf) []filter, want ...int) Check {
	return required(name, 1, property, func(t *trial) {
		s := t.shelve(tags)
		var ids []string
		for _, i := range want {
			ids = append(ids, s.ev[i].ID)
		}
		t.expect("found", s.c.stored(build(t, s)...), ids...)
	})
}

// xy gives event i an x tag x<i>, all a y tag, the first two a z tag.
func xy(i int) nostr.Tags {
	tags := nostr.Tags{{"x", fmt.Sprint("x", i), "second"}, {"y", "all"}}
	if i < 2 {
		tags = append(tags, nostr.Tag{"z", "Two"})
	}
	return tags
}

// filterChecks are about what a filter finds (NIP-01).
var filterChecks = []Check{
	finds("nip01.filter-by-ids", "ids finds the events of these ids", noTags, func(_ *trial, s *shelf) []filter {
		return []filter{{"ids": []string{s.ev[0].ID, s.ev[2].ID}}}
	}, 0, 2),
	finds("nip01.filter-by-authors", "authors finds the events of these authors", noTags, func(t *trial, s *shelf) []filter {
		return []filter{t.with("authors", []string{s.keys[1].pub, s.keys[2].pub})}
	}, 1, 2),
	required("nip01.filter-by-kinds", 1, "kinds finds the events of these kinds", func(t *trial) {
		c, k := t.dial(), t.key()
		a, b := t.profile(k, nostr.Now()), t.addressable(k, "a", nostr.Now())
		c.accept(a, b)
		t.expect("one kind", c.stored(t.with("kinds", []int{a.Kind})), a.ID)
		t.expect("both kinds", c.stored(t.with("kinds", []int{b.Kind, a.Kind})), a.ID, b.ID)
	}),
	finds("nip01.filter-by-tag", "a tag filter finds the events with that value", xy, func(t *trial, _ *shelf) []filter {
		return []filter{t.with("#x", []string{"x1"})}
	}, 1),
	finds("nip01.tag-values-are-alternatives", "several values of a tag filter are alternatives", xy, func(t *trial, _ *shelf) []filter {
		return []filter{t.with("#x", []string{"x0", "nowhere", "x2"})}
	}, 0, 2),
	finds("nip01.tag-filters-are-joined", "two tag filters must both match", xy, func(t *trial, _ *shelf) []filter {
		f := t.with("#x", []string{"x1", "x2"})
		f["#z"] = []string{"Two"}
		return []filter{f}
	}, 1),
	finds("nip01.conditions-are-joined", "all conditions of a filter must match", noTags, func(t *trial, s *shelf) []filter {
		f := t.with("authors", []string{s.keys[0].pub, s.keys[1].pub})
		f["since"] = s.ev[1].CreatedAt
		return []filter{f}
	}, 1),
	finds("nip01.filters-are-alternatives", "several filters of a REQ are alternatives", noTags, func(_ *trial, s *shelf) []filter {
		return []filter{{"ids": []string{s.ev[0].ID}}, {"authors": []string{s.keys[2].pub}}}
	}, 0, 2),
	optional("nip01.event-of-two-filters-comes-once", 1, "a stored event that two filters match comes once", func(t *trial) {
		s := t.shelve(noTags)
		found := s.c.stored(filter{"ids": []string{s.ev[0].ID}}, t.with("authors", []string{s.keys[0].pub}), t.all())
		t.expect("found", found, s.ev[0].ID, s.ev[1].ID, s.ev[2].ID)
	}),
	finds("nip01.since-is-inclusive", "since finds events of exactly that second", noTags, func(t *trial, s *shelf) []filter {
		return []filter{t.with("since", s.ev[2].CreatedAt)}
	}, 2),
	finds("nip01.since-leaves-older-out", "since leaves older events out", noTags, func(t *trial, s *shelf) []filter {
		return []filter{t.with("since", s.ev[0].CreatedAt+1)}
	}, 1, 2),
	finds("nip01.until-is-inclusive", "until finds events of exactly that second", noTags, func(t *trial, s *shelf) []filter {
		return []filter{t.with("until", s.ev[0].CreatedAt)}
	}, 0),
	finds("nip01.until-leaves-newer-out", "until leaves newer events out", noTags, func(t *trial, s *shelf) []filter {
		return []filter{t.with("until", s.ev[2].CreatedAt-1)}
	}, 0, 1),
	finds("nip01.since-and-until-are-a-window", "since and until together are a window", noTags, func(t *trial, s *shelf) []filter {
		f := t.with("since", s.ev[0].CreatedAt+1)
		f["until"] = s.ev[2].CreatedAt - 1
		return []filter{f}
	}, 1),
	finds("nip01.only-the-first-value-of-a-tag-counts", "a tag filter does not look at the third element of a tag", xy, func(t *trial, _ *shelf) []filter {
		return []filter{t.with("#x", []string{"second"})}
	}),
	finds("nip01.tag-names-have-a-case", "#X does not find x tags", xy, func(t *trial, _ *shelf) []filter {
		return []filter{t.with("#X", []string{"x1"})}
	}),
	finds("nip01.tag-values-have-a-case", "the value of a tag is compared to the letter", xy, func(t *trial, _ *shelf) []filter {
		return []filter{t.with("#z", []string{"two", "Tw", "Two "})}
	}),
	finds("nip01.nothing-found-is-answered", "a filter that finds nothing is answered with EOSE alone", noTags, func(t *trial, _ *shelf) []filter {
		return []filter{t.with("authors", []string{t.key().pub})}
	}),
	optional("nip01.empty-list-finds-nothing", 1, "an empty list of values finds nothing", func(t *trial) {
		s := t.shelve(xy)
		for _, name := range []string{"ids", "authors", "kinds", "#x"} {
			if events, _ := s.c.request("e", t.with(name, []string{})); len(events) > 0 {
				t.failf("%s: %d events", name, len(events))
			}
		}
	}),
	optional("nip01.unknown-element-is-not-ignored", 1, "an element of a filter that the relay does not know is refused or finds nothing", func(t *trial) {
		s := t.shelve(noTags)
		if events, _ := s.c.request("u", t.with("no-such-element", []string{"x"})); len(events) > 0 {
			t.failf("%d events came as if it were not there", len(events))
		}
	}),
	malformed("nip01.short-id-in-filter-finds-nothing", "a filter whose ids are prefixes finds nothing", func(s *shelf) string {
		return `{"ids":["` + s.ev[0].ID[:32] + `"]}`
	}),
	malformed("nip01.filter-of-wrong-types-finds-nothing", "a filter whose kinds are strings finds nothing", func(s *shelf) string {
		return `{"kinds":["0"],"authors":["` + s.keys[0].pub + `"]}`
	}),
	malformed("nip01.filter-that-is-a-list-finds-nothing", "a list in the place of a filter finds nothing", func(*shelf) string { return `[]` }),
	required("nip01.hundred-values-are-taken", 1, "a filter of 100 authors is answered", func(t *trial) {
		s := t.shelve(noTags)
		authors := []string{s.keys[1].pub}
		for range 99 {
			authors = append(authors, randomHex(32))
		}
		t.expect("found", s.c.stored(t.with("authors", authors)), s.ev[1].ID)
	}),
	required("nip01.ten-filters-are-taken", 1, "a REQ of ten filters is answered", func(t *trial) {
		s := t.shelve(noTags)
		filters := []filter{{"ids": []string{s.ev[0].ID}}}
		for range 9 {
			filters = append(filters, filter{"ids": []string{randomHex(32)}})
		}
		t.expect("found", s.c.stored(filters...), s.ev[0].ID)
	}),
	required("nip01.random-filters-find-what-they-match", 1, "60 random filters find what a plain reading of NIP-01 finds", randomFilters),
}

// malformed is a check that a filter that cannot be read is not read as one
// that finds more.
func malformed(name, property string, text func(s *shelf) string) Check {
	return required(name, 1, property, func(t *trial) {
		s := t.shelve(noTags)
		s.c.sendRaw(`["REQ","m",` + text(s) + `]`)
		s.c.answer(func(m *message) bool { return ending("m")(m) || m.label == "NOTICE" })
		if n := len(s.c.take(labelled("EVENT", "m"))); n > 0 {
			t.failf("%d events came", n)
		}
	})
}

func randomFilters(t *trial) {
	rng := rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	c, now := t.dial(), nostr.Now()
	var stored []*nostr.Event
	w := World{Values: []string{"red", "green", "", "rot grün"}, Letters: []string{"x", "y"}, Times: [2]int64{int64(now) - 20, int64(now)}}
	for range 16 {
		k := t.key()
		tags := append(t.marks(now), w.Tags(rng)...)
		ev := k.sign(t.options.Kinds.Replaceable, w.Time(rng), "{}", tags)
		if rng.IntN(2) == 0 {
			ev = t.addressable(k, "a", w.Time(rng), w.Tags(rng)...)
		}
		c.accept(ev)
		stored = append(stored, &ev)
		w.IDs, w.Authors, w.Kinds = append(w.IDs, ev.ID), append(w.Authors, k.pub), append(w.Kinds, ev.Kind)
	}
	for range 60 {
		f := w.Filter(rng)
		f.Limit, f.LimitZero = 0, false
		f.Tags["t"] = []string{t.word}
		var want []string
		for _, ev := range stored {
			if Matches(f, ev) {
				want = append(want, ev.ID)
			}
		}
		wire := WireFilter(f)
		text, _ := json.Marshal(wire)
		t.expect(string(text), c.stored(wire), want...)
		if t.info.supports(45) {
			c.counts(string(text), len(want), wire)
		}
	}
}
