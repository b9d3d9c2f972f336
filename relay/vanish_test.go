package relay

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"
)

// vanishing is a request to vanish of the key.
func vanishing(n int, pubkey string, at nostr.Timestamp) *Record {
	ev := &nostr.Event{
		ID: fmt.Sprintf("%064x", 1<<40+n), PubKey: pubkey, CreatedAt: at, Kind: kindVanish,
		Tags: nostr.Tags{{"relay", everyRelay}}, Sig: fmt.Sprintf("%0128x", 0),
	}
	return &Record{Event: ev, JSON: appendEvent(nil, ev), Expires: 5000}
}

// wraps turns a third of the records into wraps for somebody.
func wraps(rng *rand.Rand, records []*Record) []*Record {
	for i, rec := range records {
		if i%3 != 0 || rec.Event.Kind == kindDeletion {
			continue
		}
		to := pick(rng, worldAuthors)
		rec.Event.Kind, rec.Event.PubKey, rec.Recipient = kindWrap, fmt.Sprintf("%064x", 1<<50+i), to
		rec.Event.Tags = nostr.Tags{{"p", to}}
		rec.JSON = appendEvent(nil, rec.Event)
	}
	return records
}

// goes is the rule: what the key published and the wraps for it up to a time.
func goes(ev *nostr.Event, pubkey string, at nostr.Timestamp) bool {
	own := ev.PubKey == pubkey || ev.Kind == kindWrap && ev.Tags.FindWithValue("p", pubkey) != nil
	return own && ev.CreatedAt <= at
}

func TestVanishTakesWhatTheKeyPublishedAndTheWrapsForItAndNothingElse(t *testing.T) {
	for _, oneBatch := range []bool{false, true} {
		eachStore(t, func(t *testing.T, open func(testing.TB) Store) {
			s, other := open(t), open(t)
			rng := rand.New(rand.NewPCG(11, 7))
			var records []*Record
			for range 500 {
				rec := randomRecord(rng)
				if rec.Event.Kind == kindDeletion {
					rec.Event.Tags = nil // what deletions do is told by another test
					rec.JSON = appendEvent(nil, rec.Event)
				}
				records = append(records, rec)
			}
			records = wraps(rng, records)
			commit(t, other, records...)
			before := stored(t, other)
			person := worldAuthors[0]
			var times []nostr.Timestamp
			for _, ev := range before {
				times = append(times, ev.CreatedAt)
			}
			slices.Sort(times)
			request := vanishing(1, person, times[len(times)/2])
			if oneBatch {
				commit(t, s, append(slices.Clone(records), request)...)
			} else {
				commit(t, s, records...)
				commit(t, s, request)
			}
			after := stored(t, s)
			gone := 0
			for id, ev := range before {
				_, left := after[id]
				if left == goes(ev, person, request.Event.CreatedAt) {
					t.Errorf("kind %d of %.4s at %d for %v is left: %v", ev.Kind, ev.PubKey, ev.CreatedAt, ev.Tags, left)
				}
				if !left {
					gone++
				}
			}
			if gone < 20 || len(after) < 100 || after[request.Event.ID] == nil {
				t.Errorf("%d events are gone, %d left", gone, len(after))
			}
			// Nothing of it comes back, wraps and requests included.
			for _, rec := range records {
				if !goes(rec.Event, person, request.Event.CreatedAt) || before[rec.Event.ID] == nil {
					continue
				}
				if got := commit(t, s, rec)[0]; got != Deleted {
					t.Errorf("kind %d came back: %v", rec.Event.Kind, got)
				}
				if got, err := s.Check(t.Context(), rec, 1000); err != nil || got != Deleted {
					t.Errorf("kind %d is checked as %v, %v", rec.Event.Kind, got, err)
				}
			}
		})
	}
}

func TestVanishHoldsForGoodAndTheLatestCounts(t *testing.T) {
	eachStore(t, func(t *testing.T, open func(testing.TB) Store) {
		s, key := open(t), worldAuthors[1]
		event := func(n, kind int, at nostr.Timestamp, tags ...nostr.Tag) *Record {
			ev := &nostr.Event{ID: fmt.Sprintf("%064x", n), PubKey: key, CreatedAt: at, Kind: kind, Tags: tags, Sig: fmt.Sprintf("%0128x", 0)}
			return &Record{Event: ev, JSON: appendEvent(nil, ev), Expires: 5000}
		}
		older, newer := vanishing(1, key, 20), vanishing(2, key, 30)
		got := commit(t, s, event(1, kindProfile, 10), older, event(2, kindProfile, 25), newer, older, newer)
		if want := []Outcome{Stored, Stored, Stored, Stored, Stale, Duplicate}; !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		if left := stored(t, s); len(left) != 1 || left[newer.Event.ID] == nil {
			t.Errorf("%d events are left, want the later request", len(left))
		}
		// A deletion request does not bring anything back, and does not delete it.
		got = commit(t, s, event(3, kindDeletion, 40, nostr.Tag{"e", newer.Event.ID}), event(2, kindProfile, 25))
		if want := []Outcome{Stored, Deleted}; !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		if stored(t, s)[newer.Event.ID] == nil {
			t.Error("the request was deleted")
		}
		// Nor does the end of the request.
		if _, err := s.Sweep(t.Context(), time.Unix(6000, 0), 100); err != nil {
			t.Fatal(err)
		}
		got = commit(t, s, event(2, kindProfile, 25), event(4, kindDeletion, 30), newer, event(5, kindProfile, 31))
		if want := []Outcome{Deleted, Deleted, Stale, Stored}; !slices.Equal(got, want) {
			t.Errorf("after the request expired: got %v, want %v", got, want)
		}
	})
}

func TestVanishAsksForThisRelay(t *testing.T) {
	const origin = "https://relay.example"
	for value, want := range map[string]string{
		everyRelay: "", "wss://relay.example": "", "wss://relay.example/": "", "WSS://Relay.Example:443/": "",
		"ws://relay.example/": "blocked", "wss://relay.example/path": "blocked", "all_relays": "blocked", "": "blocked", "%zz": "blocked",
	} {
		got := checkVanish(&nostr.Event{Kind: kindVanish, Tags: nostr.Tags{{"relay", "wss://other.example"}, {"relay", value}}}, origin)
		if (got == "") != (want == "") {
			t.Errorf("%q: %q", value, got)
		}
	}
	for _, tags := range []nostr.Tags{nil, {{"relay"}}, {{"r", everyRelay}}} {
		if got := checkVanish(&nostr.Event{Kind: kindVanish, Tags: tags}, origin); got == "" || got[:8] != "invalid:" {
			t.Errorf("%v: %q", tags, got)
		}
	}
}

func FuzzVanishTags(f *testing.F) {
	for _, s := range []string{everyRelay, "wss://relay.example/", "wss://relay.example:443", "%zz", "//", "wss://relay.example/?x", "\x00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, value string) {
		got := checkVanish(&nostr.Event{Kind: kindVanish, Tags: nostr.Tags{{"relay", value}}}, "https://relay.example")
		if got == "" && value != everyRelay && !sameRelay(value, "https://relay.example") {
			t.Errorf("%q is taken for this relay", value)
		}
	})
}

func TestRemovedEventsMayComeAgain(t *testing.T) {
	eachStore(t, func(t *testing.T, open func(testing.TB) Store) {
		s := open(t)
		rng := rand.New(rand.NewPCG(5, 5))
		var records []*Record
		var list []string
		for range 60 {
			rec := randomRecord(rng)
			if rec.Event.Kind != kindDeletion {
				records, list = append(records, rec), append(list, rec.Event.ID)
			}
		}
		commit(t, s, wraps(rng, records)...)
		before := stored(t, s)
		n, err := s.Remove(t.Context(), append(list, fmt.Sprintf("%064x", 1<<45)))
		if err != nil || n != len(before) {
			t.Fatalf("removed %d of %d, %v", n, len(before), err)
		}
		if left := stored(t, s); len(left) != 0 {
			t.Errorf("%d events are left", len(left))
		}
		if n := leftovers(t, s); n != 0 {
			t.Errorf("%d rows are left", n)
		}
		for id := range before {
			i := slices.Index(list, id)
			if got := commit(t, s, records[i])[0]; got != Stored {
				t.Fatalf("sent again: %v", got)
			}
		}
	})
}

func TestRulingsAreKeptInTheirPlaceAndToldByVersion(t *testing.T) {
	eachStore(t, func(t *testing.T, open func(testing.TB) Store) {
		s := open(t)
		all, none, err := s.Rulings(t.Context(), "")
		if err != nil || len(all) != 0 || none == "" {
			t.Fatalf("new store: %v, %q, %v", all, none, err)
		}
		a := Ruling{List: BannedKeys, Subject: worldAuthors[0], Text: "why\u2028not", Admin: worldAuthors[1], At: 7}
		b := Ruling{List: BannedEvents, Subject: worldAuthors[0], Admin: worldAuthors[1], At: 8}
		if err := s.Rule(t.Context(), []Ruling{a, b}, nil); err != nil {
			t.Fatal(err)
		}
		a.Text = "another reason"
		if err := s.Rule(t.Context(), []Ruling{a}, []Ruling{{List: BannedEvents, Subject: "none"}}); err != nil {
			t.Fatal(err)
		}
		all, version, err := s.Rulings(t.Context(), none)
		slices.SortFunc(all, func(a, b Ruling) int { return int(a.At - b.At) })
		if err != nil || !slices.Equal(all, []Ruling{a, b}) {
			t.Errorf("got %v, %v", all, err)
		}
		if all, same, err := s.Rulings(t.Context(), version); err != nil || all != nil || same != version {
			t.Errorf("unchanged: %v, %q, %v", all, same, err)
		}
		if err := s.Rule(t.Context(), nil, []Ruling{a}); err != nil {
			t.Fatal(err)
		}
		all, next, err := s.Rulings(t.Context(), version)
		if err != nil || !slices.Equal(all, []Ruling{b}) || next == version {
			t.Errorf("withdrawn: %v, %q, %v", all, next, err)
		}
	})
}

func TestVanishLeavesOneMarkAndOneOfEachWrap(t *testing.T) {
	eachStore(t, func(t *testing.T, open func(testing.TB) Store) {
		s, key := open(t), worldAuthors[2]
		var records []*Record
		for i := range 30 {
			ev := &nostr.Event{ID: fmt.Sprintf("%064x", i+1), PubKey: key, CreatedAt: 10, Kind: kindCard, Tags: nostr.Tags{{"d", fmt.Sprint(i)}}, Sig: fmt.Sprintf("%0128x", 0)}
			rec := &Record{Event: ev, Expires: 5000}
			switch i % 3 {
			case 0:
				ev.Kind, ev.Tags = kindDeletion, nil
			case 1:
				ev.Kind, ev.PubKey, ev.Tags, rec.Recipient = kindWrap, fmt.Sprintf("%064x", 1<<50+i), nostr.Tags{{"p", key}}, key
			}
			rec.JSON = appendEvent(nil, ev)
			records = append(records, rec)
		}
		commit(t, s, records...)
		commit(t, s, vanishing(1, key, 20))
		if n := tombstones(t, s); n != 1+10 {
			t.Errorf("%d marks are kept of 30 events, 10 of them wraps, want 11", n)
		}
		for i, got := range commit(t, s, records...) {
			if got != Deleted {
				t.Errorf("event %d came back: %v", i, got)
			}
		}
	})
}

func TestWrapsThatComeAfterARequestToVanishAreTakenWhateverTheirTime(t *testing.T) {
	eachStore(t, func(t *testing.T, open func(testing.TB) Store) {
		s, key := open(t), worldAuthors[3]
		wrapAt := func(n int, at nostr.Timestamp) *Record {
			ev := &nostr.Event{ID: fmt.Sprintf("%064x", n), PubKey: fmt.Sprintf("%064x", 1<<50+n), CreatedAt: at, Kind: kindWrap, Tags: nostr.Tags{{"p", key}}, Sig: fmt.Sprintf("%0128x", 0)}
			return &Record{Event: ev, JSON: appendEvent(nil, ev), Expires: 9e6, Recipient: key}
		}
		const request = 1e6
		before, later := wrapAt(1, request-100), wrapAt(2, request+100)
		if got := commit(t, s, before, later, vanishing(1, key, request)); !slices.Equal(got, []Outcome{Stored, Stored, Stored}) {
			t.Fatal(got)
		}
		backdated := wrapAt(3, request-48*3600)
		if got := commit(t, s, backdated, before); !slices.Equal(got, []Outcome{Stored, Deleted}) {
			t.Errorf("a wrap set back two days, and one that was removed: %v", got)
		}
		// The same request again takes nothing along.
		commit(t, s, vanishing(1, key, request), vanishing(2, key, request-1))
		left := stored(t, s)
		if left[later.Event.ID] == nil || left[backdated.Event.ID] == nil || left[before.Event.ID] != nil {
			t.Errorf("%d events are left", len(left))
		}
	})
}
