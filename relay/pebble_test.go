package relay

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/nbd-wtf/go-nostr"
)

// keys counts the keys of each table.
func (s *pebbleStore) keys(t *testing.T) map[byte]int {
	t.Helper()
	it, err := s.db.NewIter(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer it.Close()
	n := map[byte]int{}
	for valid := it.First(); valid; valid = it.Next() {
		n[it.Key()[0]]++
	}
	return n
}

func commit(t testing.TB, s Store, records ...*Record) []Outcome {
	t.Helper()
	outcomes, err := s.Commit(context.Background(), records, 1000)
	if err != nil {
		t.Fatal(err)
	}
	return outcomes
}

func TestCommittedEventsSurviveACrashOfTheMachine(t *testing.T) {
	fs := vfs.NewCrashableMem()
	store, err := openPebble("store", nil, fs)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	rng := rand.New(rand.NewPCG(3, 3))
	var mu sync.Mutex
	var answered []string
	writers := sync.WaitGroup{}
	for w := range 3 {
		writers.Go(func() {
			rng := rand.New(rand.NewPCG(3, uint64(w)))
			for range 60 {
				rec := randomRecord(rng)
				rec.Event.Kind = kindDeletion
				rec.JSON = appendEvent(nil, rec.Event)
				if _, err := store.Commit(context.Background(), []*Record{rec}, 10); err != nil {
					t.Error(err)
				}
				mu.Lock()
				answered = append(answered, rec.Event.ID)
				mu.Unlock()
			}
		})
	}
	for range 5 {
		mu.Lock()
		want := len(answered)
		ids := append([]string(nil), answered...)
		mu.Unlock()
		after, err := openPebble("store", nil, fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: rng}))
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range ids {
			if got := query(t, after, nostr.Filter{IDs: []string{id}}, 0); len(got) != 1 {
				t.Fatalf("event %s of %d committed ones is gone", id, want)
			}
		}
		after.Close()
		time.Sleep(time.Millisecond) // lets the writers go on; nothing depends on it
	}
	writers.Wait()
}

func TestRemovedEventsLeaveNoKeysBehind(t *testing.T) {
	s := memoryStore(t)
	rng := rand.New(rand.NewPCG(5, 5))
	for i := range 300 {
		rec := randomRecord(rng)
		rec.Expires = 100
		if i%3 == 0 {
			rec.Recipient = worldAuthors[i%6]
		}
		commit(t, s, rec)
	}
	for {
		n, err := s.Sweep(t.Context(), time.Unix(100, 0), 7)
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			break
		}
	}
	if got := s.keys(t); len(got) != 1 || got[tableFormat] != 1 {
		t.Errorf("tables left after all events expired: %v", got)
	}
}

func TestSweepLeavesWhatHasNotExpired(t *testing.T) {
	s := memoryStore(t)
	rng := rand.New(rand.NewPCG(6, 6))
	kept := randomRecord(rng)
	kept.Expires = 101
	commit(t, s, kept)
	if n, err := s.Sweep(t.Context(), time.Unix(100, 0), 10); n != 0 || err != nil {
		t.Errorf("swept %d, %v", n, err)
	}
	if n, err := s.Sweep(t.Context(), time.Unix(101, 0), 10); n != 1 || err != nil {
		t.Errorf("swept %d, %v, want the one that expired now", n, err)
	}
}

func TestOneBatchSeesItsOwnDecisions(t *testing.T) {
	s := memoryStore(t)
	author := worldAuthors[0]
	version := func(id, at int) *Record {
		ev := &nostr.Event{
			ID: fmt.Sprintf("%064x", id), PubKey: author, CreatedAt: nostr.Timestamp(at), Kind: kindProfile,
			Tags: nostr.Tags{}, Sig: fmt.Sprintf("%0128x", 0),
		}
		return &Record{Event: ev, JSON: appendEvent(nil, ev), Recipient: author}
	}
	deletion := version(9, 5)
	deletion.Event.Kind = kindDeletion
	deletion.Event.Tags = nostr.Tags{{"a", "0:" + author + ":"}}
	deletion.Recipient = ""
	deletion.JSON = appendEvent(nil, deletion.Event)
	got, err := s.Commit(t.Context(), []*Record{
		version(1, 1), version(1, 1), version(2, 3), version(3, 2), deletion, version(4, 5), version(5, 6), version(6, 7),
	}, 1)
	if err != nil {
		t.Fatal(err)
	}
	want := []Outcome{Stored, Duplicate, OverQuota, OverQuota, Stored, Deleted, Stored, OverQuota}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("event %d: %v, want %v", i, got[i], want[i])
		}
	}
}

func TestTooBroadQueryStops(t *testing.T) {
	s := memoryStore(t)
	rng := rand.New(rand.NewPCG(8, 8))
	for range 100 {
		rec := randomRecord(rng)
		rec.Event.Kind, rec.Event.Tags = kindDeletion, nostr.Tags{{"t", "red"}}
		rec.JSON = appendEvent(nil, rec.Event)
		commit(t, s, rec)
	}
	read := func(f nostr.Filter, scan int) (n int, err error) {
		for _, e := range s.Query(t.Context(), f, time.Unix(0, 0), scan) {
			if e != nil {
				return n, e
			}
			n++
		}
		return n, nil
	}
	if n, err := read(nostr.Filter{}, 99); n != 99 || !errors.Is(err, ErrTooBroad) {
		t.Errorf("read %d events, %v; want 99 and ErrTooBroad", n, err)
	}
	if n, err := read(nostr.Filter{Limit: 5}, 5); n != 5 || err != nil {
		t.Errorf("read %d events, %v; want to stop at the limit", n, err)
	}
	none := nostr.Filter{Kinds: []int{kindDeletion}, Tags: nostr.TagMap{"t": {"red"}, "p": {"absent"}}}
	if n, err := read(none, 1); n != 0 || err != nil {
		t.Errorf("read %d events, %v; want the empty index to be chosen", n, err)
	}
}

func TestClosedStoreAnswersWithAnError(t *testing.T) {
	s := memoryStore(t)
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Fatal(err)
	}
	rec := randomRecord(rand.New(rand.NewPCG(1, 1)))
	_, errCommit := s.Commit(t.Context(), []*Record{rec}, 1)
	_, errCheck := s.Check(t.Context(), rec, 1)
	_, errSweep := s.Sweep(t.Context(), time.Now(), 1)
	var errQuery error
	for _, err := range s.Query(t.Context(), nostr.Filter{}, time.Now(), 1) {
		errQuery = err
	}
	for _, err := range []error{errCommit, errCheck, errSweep, errQuery} {
		if !errors.Is(err, ErrStoreClosed) {
			t.Errorf("got %v, want ErrStoreClosed", err)
		}
	}
}

func TestStoreOfAnotherFormatIsRefused(t *testing.T) {
	fs := vfs.NewMem()
	s, err := openPebble("store", nil, fs)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.db.Set([]byte{tableFormat}, []byte{storeFormat + 1}, pebble.Sync); err != nil {
		t.Fatal(err)
	}
	s.Close()
	if _, err := openPebble("store", nil, fs); !errors.Is(err, ErrStoreFormat) {
		t.Errorf("got %v, want ErrStoreFormat", err)
	}
}

func BenchmarkCommit64(b *testing.B) {
	store, err := OpenPebble(b.TempDir(), nil)
	if err != nil {
		b.Fatal(err)
	}
	defer store.Close()
	rng := rand.New(rand.NewPCG(1, 1))
	for b.Loop() {
		batch := make([]*Record, 64)
		for i := range batch {
			batch[i] = randomRecord(rng)
			batch[i].Event.Kind = kindDeletion
			batch[i].Event.Content = fmt.Sprintf("%0700d", i)
			batch[i].JSON = appendEvent(nil, batch[i].Event)
		}
		commit(b, store, batch...)
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*64), "µs/event")
}
