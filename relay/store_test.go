package relay

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/nbd-wtf/go-nostr"

	"github.com/parleykit/parley/internal/database/databasetest"
)

// eachStore runs the test on an empty store of every kind; open makes another
// empty one.
func eachStore(t *testing.T, test func(t *testing.T, open func(testing.TB) Store)) {
	t.Run("pebble", func(t *testing.T) {
		test(t, func(t testing.TB) Store { return memoryStore(t) })
	})
	t.Run("postgres", func(t *testing.T) {
		test(t, func(t testing.TB) Store { return databaseStore(t, databasetest.NewPostgres(t)) })
	})
}

func memoryStore(t testing.TB) *pebbleStore {
	t.Helper()
	s, err := openPebble("store", nil, vfs.NewMem())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func databaseStore(t testing.TB, address string) *postgresStore {
	t.Helper()
	s, err := openPostgres(t.Context(), address, PostgresOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func commit(t testing.TB, s Store, records ...*Record) []Outcome {
	t.Helper()
	outcomes, err := s.Commit(context.Background(), records, 1000)
	if err != nil {
		t.Fatal(err)
	}
	return outcomes
}

// leftovers counts what the store holds besides deletions.
func leftovers(t *testing.T, s Store) (n int) {
	t.Helper()
	switch s := s.(type) {
	case *pebbleStore:
		for table, keys := range s.keys(t) {
			if table != tableFormat && table != tableDeletedAt && table != tableDeletedID {
				n += keys
			}
		}
	case *postgresStore:
		err := s.pool.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM relay_events) +
			(SELECT count(*) FROM relay_tags) + (SELECT count(*) FROM relay_quota)`).Scan(&n)
		if err != nil {
			t.Fatal(err)
		}
	}
	return n
}

// tombstones counts what the store remembers of requests to delete and to vanish.
func tombstones(t *testing.T, s Store) (n int) {
	t.Helper()
	switch s := s.(type) {
	case *pebbleStore:
		keys := s.keys(t)
		n = keys[tableDeletedAt] + keys[tableDeletedID] + keys[tableVanished]
	case *postgresStore:
		if err := s.pool.QueryRow(t.Context(), `SELECT count(*) FROM relay_tombstones`).Scan(&n); err != nil {
			t.Fatal(err)
		}
	}
	return n
}

func TestDeletionRecordsGoWithTheirRequestUnlessALaterOneHolds(t *testing.T) {
	eachStore(t, func(t *testing.T, open func(testing.TB) Store) {
		s := open(t)
		author := worldAuthors[0]
		request := func(n, at, expires int64, tags ...nostr.Tag) {
			ev := &nostr.Event{
				ID: fmt.Sprintf("%064x", n), PubKey: author, CreatedAt: nostr.Timestamp(at), Kind: kindDeletion,
				Tags: tags, Sig: fmt.Sprintf("%0128x", 0),
			}
			commit(t, s, &Record{Event: ev, JSON: appendEvent(nil, ev), Expires: expires})
		}
		for i := range int64(20) {
			request(i, 10, 100, nostr.Tag{"e", fmt.Sprintf("%064x", 1000+i)}, nostr.Tag{"a", fmt.Sprintf("30417:%s:%d", author, i)})
		}
		request(50, 20, 200, nostr.Tag{"e", fmt.Sprintf("%064x", 1000)}, nostr.Tag{"a", "30417:" + author + ":0"})
		if got := tombstones(t, s); got != 40 {
			t.Errorf("%d records of 20 requests, want 40", got)
		}
		if _, err := s.Sweep(t.Context(), time.Unix(100, 0), 100); err != nil {
			t.Fatal(err)
		}
		if got := tombstones(t, s); got != 2 {
			t.Errorf("%d records left, want the 2 of the later request", got)
		}
		if _, err := s.Sweep(t.Context(), time.Unix(200, 0), 100); err != nil {
			t.Fatal(err)
		}
		if got := tombstones(t, s) + leftovers(t, s); got != 0 {
			t.Errorf("%d rows left after all requests expired", got)
		}
	})
}

func TestRemovedEventsLeaveNothingBehind(t *testing.T) {
	eachStore(t, func(t *testing.T, open func(testing.TB) Store) {
		s := open(t)
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
		if n := leftovers(t, s); n != 0 {
			t.Errorf("%d entries left after all events expired", n)
		}
	})
}

func TestSweepLeavesWhatHasNotExpired(t *testing.T) {
	eachStore(t, func(t *testing.T, open func(testing.TB) Store) {
		s := open(t)
		kept := randomRecord(rand.New(rand.NewPCG(6, 6)))
		kept.Expires = 101
		commit(t, s, kept)
		if n, err := s.Sweep(t.Context(), time.Unix(100, 0), 10); n != 0 || err != nil {
			t.Errorf("swept %d, %v", n, err)
		}
		if n, err := s.Sweep(t.Context(), time.Unix(101, 0), 10); n != 1 || err != nil {
			t.Errorf("swept %d, %v, want the one that expired now", n, err)
		}
	})
}

func TestOneBatchSeesItsOwnDecisions(t *testing.T) {
	eachStore(t, func(t *testing.T, open func(testing.TB) Store) {
		s, author := open(t), worldAuthors[0]
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
		batch := []*Record{
			version(1, 1), version(1, 1), version(2, 3), version(3, 2), deletion, version(4, 5), version(5, 6), version(6, 7),
		}
		want := []Outcome{Stored, Duplicate, OverQuota, OverQuota, Stored, Deleted, Stored, OverQuota}
		check := func(s Store, commit func(i int) Outcome) {
			for i := range want {
				if got := commit(i); got != want[i] {
					t.Errorf("event %d: %v, want %v", i, got, want[i])
				}
			}
		}
		got, err := s.Commit(t.Context(), batch, 1)
		if err != nil {
			t.Fatal(err)
		}
		check(s, func(i int) Outcome { return got[i] })
		one := open(t) // and each in a batch of its own, as Check foretells
		check(one, func(i int) Outcome {
			foretold, err := one.Check(t.Context(), batch[i], 1)
			if err != nil {
				t.Fatal(err)
			}
			got, err := one.Commit(t.Context(), batch[i:i+1], 1)
			if err != nil {
				t.Fatal(err)
			}
			if foretold != got[0] {
				t.Errorf("event %d: Check says %v, Commit %v", i, foretold, got[0])
			}
			return got[0]
		})
	})
}

func TestTooBroadQueryStops(t *testing.T) {
	eachStore(t, func(t *testing.T, open func(testing.TB) Store) {
		s := open(t)
		rng := rand.New(rand.NewPCG(8, 8))
		for range 400 {
			rec := randomRecord(rng)
			rec.Event.Kind, rec.Event.Tags, rec.Expires = kindDeletion, nostr.Tags{{"t", "red"}}, 0
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
		for _, scan := range []int{99, 399} {
			if n, err := read(nostr.Filter{}, scan); n != scan || !errors.Is(err, ErrTooBroad) {
				t.Errorf("read %d events, %v; want %d and ErrTooBroad", n, err, scan)
			}
		}
		if n, err := read(nostr.Filter{}, 400); n != 400 || err != nil {
			t.Errorf("read %d events, %v; want all", n, err)
		}
		if n, err := read(nostr.Filter{Limit: 5}, 5); n != 5 || err != nil {
			t.Errorf("read %d events, %v; want to stop at the limit", n, err)
		}
		none := nostr.Filter{Kinds: []int{kindDeletion}, Tags: nostr.TagMap{"t": {"red"}, "p": {"absent"}}}
		if n, err := read(none, 1); n != 0 || err != nil {
			t.Errorf("read %d events, %v; want the empty index to be chosen", n, err)
		}
	})
}

func TestClosedStoreAnswersWithAnError(t *testing.T) {
	eachStore(t, func(t *testing.T, open func(testing.TB) Store) {
		s := open(t)
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
	})
}

// The writers are about the same few events, addresses and one recipient, so that
// they are in each other's way all the time.
func TestConcurrentWritersDecideAsOneWould(t *testing.T) {
	eachStore(t, func(t *testing.T, open func(testing.TB) Store) {
		writers := []Store{open(t)}
		if s, ok := writers[0].(*postgresStore); ok { // other processes
			writers = append(writers, databaseStore(t, s.pool.Config().ConnString()), databaseStore(t, s.pool.Config().ConnString()))
		}
		const quota, rounds = 20, 40
		var mu sync.Mutex
		stored, wraps := map[string]int{}, 0
		var all sync.WaitGroup
		for w := range 6 {
			all.Go(func() {
				rng := rand.New(rand.NewPCG(9, uint64(w/2))) // two write the same events
				for range rounds {
					var batch []*Record
					for range 1 + rng.IntN(8) {
						rec := randomRecord(rng)
						if rec.Event.Kind == kindWrap {
							rec.Recipient = worldAuthors[0]
						}
						rec.Expires = 0
						batch = append(batch, rec)
					}
					outcomes, err := writers[w%len(writers)].Commit(context.Background(), batch, quota)
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					for i, rec := range batch {
						if outcomes[i] == Stored {
							stored[rec.Event.ID]++
							if rec.Recipient != "" {
								wraps++
							}
						}
					}
					mu.Unlock()
				}
			})
		}
		all.Wait()
		for id, n := range stored {
			if n != 1 {
				t.Errorf("event %s was stored %d times", id, n)
			}
		}
		if got := len(query(t, writers[0], nostr.Filter{Kinds: []int{kindWrap}}, 0)); got != quota || wraps != quota {
			t.Errorf("%d wraps are stored, %d were answered so, want the quota of %d", got, wraps, quota)
		}
		seen := map[address]bool{}
		for rec, err := range writers[0].Query(t.Context(), nostr.Filter{}, time.Unix(0, 0), 1<<20) {
			if err != nil {
				t.Fatal(err)
			}
			if a, ok := addressOf(rec.Event); ok {
				if seen[a] {
					t.Errorf("two versions of %v", a)
				}
				seen[a] = true
			}
		}
	})
}
