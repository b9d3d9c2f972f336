package relay

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"
)

// about reports whether an event is by a person or for it.
func about(ev *nostr.Event, person string) bool {
	return ev.PubKey == person || slices.ContainsFunc(ev.Tags, func(tag nostr.Tag) bool {
		return len(tag) > 1 && tag[0] == "p" && tag[1] == person
	})
}

// population is a store with events of which many are about the first author.
func population(t *testing.T, s Store) (person string, records []*Record) {
	t.Helper()
	rng := rand.New(rand.NewPCG(7, 7))
	person = worldAuthors[0]
	for i := range 600 {
		rec := randomRecord(rng)
		if i%3 == 0 {
			rec.Event.Tags = append(rec.Event.Tags, nostr.Tag{"p", pick(rng, worldAuthors)}, nostr.Tag{"p", pick(rng, worldAuthors)})
		}
		if rec.Event.Kind == kindDeletion {
			rec.Event.Tags = nil // what deletions do is told by another test
		}
		rec.JSON = appendEvent(nil, rec.Event)
		records = append(records, rec)
	}
	commit(t, s, records...)
	return person, records
}

// stored are the ids of all stored events.
func stored(t *testing.T, s Store) map[string]*nostr.Event {
	t.Helper()
	all := make(map[string]*nostr.Event)
	for rec, err := range s.Query(t.Context(), nostr.Filter{}, time.Unix(0, 0), 1_000_000) {
		if err != nil {
			t.Fatal(err)
		}
		all[rec.Event.ID] = rec.Event
	}
	return all
}

func involved(t *testing.T, s Store, person string) (ids []string) {
	t.Helper()
	for rec, err := range s.Involving(t.Context(), person) {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, rec.Event.ID)
	}
	slices.Sort(ids)
	return ids
}

func eraseAll(t *testing.T, s Store, person string, now time.Time, limit int) (n int) {
	t.Helper()
	for {
		removed, err := s.Erase(t.Context(), person, now, limit)
		if err != nil {
			t.Fatal(err)
		}
		if removed > limit {
			t.Fatalf("Erase removed %d, at most %d were asked for", removed, limit)
		}
		if n += removed; removed == 0 {
			return n
		}
	}
}

func TestEraseTakesEveryEventByOrForAPersonAndNoOther(t *testing.T) {
	eachStore(t, func(t *testing.T, open func(testing.TB) Store) {
		s := open(t)
		person, records := population(t, s)
		before := stored(t, s)
		var want []string
		for id, ev := range before {
			if about(ev, person) {
				want = append(want, id)
			}
		}
		slices.Sort(want)
		if got := involved(t, s, person); !slices.Equal(got, want) || len(want) < 50 {
			t.Fatalf("Involving found %d events, want %d", len(got), len(want))
		}
		if n := eraseAll(t, s, person, time.Unix(1000, 0), 7); n != len(want) {
			t.Errorf("erased %d, want %d", n, len(want))
		}
		after := stored(t, s)
		for id, ev := range before {
			if _, left := after[id]; left == about(ev, person) {
				t.Errorf("event %s about the person: %v, still stored: %v", id[:8], about(ev, person), left)
			}
		}
		// Nothing of it comes back, also no older version of what was replaced.
		for _, rec := range records {
			if _, was := before[rec.Event.ID]; !was || !about(rec.Event, person) || rec.Event.Kind == kindDeletion {
				continue
			}
			if got := commit(t, s, rec)[0]; got != Deleted {
				t.Errorf("kind %d came back: %v", rec.Event.Kind, got)
			}
		}
	})
}

func TestErasedPersonMayComeBackWithANewerCard(t *testing.T) {
	eachStore(t, func(t *testing.T, open func(testing.TB) Store) {
		s := open(t)
		card := func(n int, at int64) *Record {
			ev := &nostr.Event{
				ID: fmt.Sprintf("%064x", n), PubKey: worldAuthors[1], CreatedAt: nostr.Timestamp(at), Kind: kindCard,
				Tags: nostr.Tags{{"d", "default"}}, Sig: fmt.Sprintf("%0128x", 0),
			}
			return &Record{Event: ev, JSON: appendEvent(nil, ev), Expires: 5000}
		}
		commit(t, s, card(2, 20))
		eraseAll(t, s, worldAuthors[1], time.Unix(30, 0), 100)
		if got := commit(t, s, card(1, 10), card(2, 20), card(3, 30), card(4, 31)); !slices.Equal(got, []Outcome{Deleted, Deleted, Deleted, Stored}) {
			t.Errorf("versions 10, 20, 30 and 31 after an erase at 30: %v", got)
		}
	})
}

func TestWhatAnErasedPersonDeletedStaysDeleted(t *testing.T) {
	eachStore(t, func(t *testing.T, open func(testing.TB) Store) {
		s := open(t)
		event := func(n, kind int, tags nostr.Tags) *Record {
			ev := &nostr.Event{
				ID: fmt.Sprintf("%064x", n), PubKey: worldAuthors[2], CreatedAt: 10, Kind: kind, Tags: tags, Sig: fmt.Sprintf("%0128x", 0),
			}
			return &Record{Event: ev, JSON: appendEvent(nil, ev), Expires: 5000}
		}
		wrap := event(1, kindWrap, nostr.Tags{{"p", worldAuthors[3]}})
		commit(t, s, wrap, event(2, kindDeletion, nostr.Tags{{"e", wrap.Event.ID}}))
		eraseAll(t, s, worldAuthors[2], time.Unix(30, 0), 100)
		if got := commit(t, s, wrap)[0]; got != Deleted {
			t.Errorf("an event that its author deleted before the erase is %v again", got)
		}
		if n := leftovers(t, s); n != 0 {
			t.Errorf("%d rows are left beside tombstones", n)
		}
	})
}

func TestErasedBytesAreGoneFromTheEmbeddedStoreOnceItIsCompacted(t *testing.T) {
	dir := t.TempDir()
	reopen := func(s Store) Store { // what was in the log goes into tables
		if s != nil && s.Close() != nil {
			t.Fatal("the store does not close")
		}
		s, err := OpenPebble(dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := reopen(nil)
	rng := rand.New(rand.NewPCG(3, 3))
	var texts [3][]string // by author; random, so that compression leaves them as they are
	for i := range 300 {
		ev := &nostr.Event{
			ID: fmt.Sprintf("%064x", i), PubKey: worldAuthors[i%3], CreatedAt: 10, Kind: kindWrap,
			Tags: nostr.Tags{{"p", worldAuthors[3]}}, Sig: fmt.Sprintf("%0128x", 0), Content: randomText(rng),
		}
		texts[i%3] = append(texts[i%3], ev.Content)
		commit(t, s, &Record{Event: ev, JSON: appendEvent(nil, ev), Recipient: worldAuthors[3], Expires: 5000})
	}
	s = reopen(s)
	eraseAll(t, s, worldAuthors[0], time.Unix(30, 0), 64)
	if err := s.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := len(involved(t, s, worldAuthors[3])); n != 200 {
		t.Errorf("%d events of others are left, want 200", n)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if n := found(t, dir, texts[0]); n > 0 {
		t.Errorf("%d of 100 erased texts are still in the files", n)
	}
	if n := found(t, dir, texts[1]); n < 90 {
		t.Errorf("the search finds %d of 100 texts that are stored", n)
	}
}

func randomText(rng *rand.Rand) string {
	data := make([]byte, 96)
	for i := range data {
		data[i] = byte(rng.Uint32())
	}
	return base64.StdEncoding.EncodeToString(data)
}

// found counts the texts that are in some file below a folder.
func found(t testing.TB, dir string, texts []string) (n int) {
	t.Helper()
	var all []byte
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		all = append(all, data...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range texts {
		if bytes.Contains(all, []byte(text)) {
			n++
		}
	}
	return n
}
