package relay

import (
	"context"
	"errors"
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
