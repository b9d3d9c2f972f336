package merklelog_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/parleykit/parley/internal/database"
	"github.com/parleykit/parley/internal/database/databasetest"
	"github.com/parleykit/parley/internal/merklelog"
	"github.com/parleykit/parley/protocol/logproof"
)

func TestConsistency_leadsFromEveryCheckpointToEveryLaterOne(t *testing.T) {
	databasetest.Each(t, func(t *testing.T, open databasetest.Opener) {
		db := open(t)
		l := newLog(t, db)
		all := []logproof.Checkpoint{openCheckpoint(t, l).Checkpoint}
		for i, n := 0, 0; n < 6; n++ {
			var leaves [][]byte
			for range 1 + 90*n {
				leaves = append(leaves, leaf(i))
				i++
			}
			bulk(t, db, origin, leaves)
			all = append(all, integrate(t, l))
		}
		for i, newer := range all {
			for _, older := range all[:i+1] {
				path, err := l.Consistency(t.Context(), older.Size, newer.Size)
				if err != nil {
					t.Fatal(err)
				}
				if err := logproof.CheckConsistency(older, newer, path); err != nil {
					t.Error(err)
				}
			}
		}
		for _, sizes := range [][2]int64{{0, all[6].Size + 1}, {5, 1}, {-1, 1}} {
			if _, err := l.Consistency(t.Context(), sizes[0], sizes[1]); !errors.Is(err, merklelog.ErrUnknown) {
				t.Errorf("%v: %v", sizes, err)
			}
		}
	})
}

func TestAppend_takesPartInItsTransaction(t *testing.T) {
	databasetest.Each(t, func(t *testing.T, open databasetest.Opener) {
		db := open(t)
		l := newLog(t, db)
		undone := errors.New("undone")
		err := db.Tx(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
			return errors.Join(l.Append(ctx, tx, leaf(1)), undone)
		})
		if !errors.Is(err, undone) {
			t.Fatal(err)
		}
		if _, err := index(t, db, l, leaf(1)); !errors.Is(err, merklelog.ErrUnknown) {
			t.Errorf("undone: %v", err)
		}
		add(t, db, l, leaf(2))
		if _, err := index(t, db, l, leaf(2)); !errors.Is(err, merklelog.ErrWaiting) {
			t.Errorf("without a checkpoint: %v", err)
		}
		if _, err := l.Proof(t.Context(), leaf(2)); !errors.Is(err, merklelog.ErrWaiting) {
			t.Errorf("proof without a checkpoint: %v", err)
		}
		integrate(t, l)
		if i, err := index(t, db, l, leaf(2)); err != nil || i != 0 {
			t.Errorf("index %d, %v", i, err)
		}
		for _, size := range []int{0, 31, 33} {
			err := db.Tx(t.Context(), func(ctx context.Context, tx *sql.Tx) error { return l.Append(ctx, tx, make([]byte, size)) })
			if !errors.Is(err, merklelog.ErrInvalid) {
				t.Errorf("entry of %d bytes: %v", size, err)
			}
		}
	})
}

// Two processes that append the same and other entries and make checkpoints at
// the same time keep one log: each entry once, one tree a size, each the
// continuation of the ones before.
func TestLog_isOneForManyProcesses(t *testing.T) {
	eachTwice(t, func(t *testing.T, one, two *database.DB) {
		const callers, each = 4, 12
		var wait sync.WaitGroup
		for p, db := range []*database.DB{one, two} {
			l := newLog(t, db)
			for caller := range callers {
				wait.Go(func() {
					for i := range each {
						// Half of the entries are appended by both processes.
						own := leaf(1000*(p+1) + 100*caller + i)
						shared := leaf(100*caller + i)
						for _, leaf := range [][]byte{own, shared} {
							err := db.Write(t.Context(), func(ctx context.Context, tx *sql.Tx) error { return l.Append(ctx, tx, leaf) })
							if err != nil {
								t.Error(err)
							}
						}
						if i%4 == caller {
							if _, _, err := l.Integrate(t.Context()); err != nil {
								t.Error(err)
							}
						}
					}
				})
			}
		}
		wait.Wait()
		l := newLog(t, one)
		if got := openCheckpoint(t, l); got.Size != 3*callers*each {
			t.Errorf("%d entries, want %d", got.Size, 3*callers*each)
		}
		follow(t, one, l)
	})
}

// follow checks that every stored checkpoint continues the one before, and
// that entries and tree are the same.
func follow(t *testing.T, db *database.DB, l *merklelog.Log) (byPlace [][]byte) {
	t.Helper()
	m := new(plain)
	err := db.View(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
		byPlace = nil
		rows, err := tx.QueryContext(ctx, `SELECT idx, leaf FROM merklelog_leaves ORDER BY idx`)
		if err != nil {
			return err
		}
		for rows.Next() {
			var i int64
			var leaf []byte
			if err := rows.Scan(&i, &leaf); err != nil {
				return err
			}
			if i != int64(len(byPlace)) {
				t.Errorf("place %d is taken by no entry or by two", len(byPlace))
			}
			byPlace = append(byPlace, leaf)
		}
		if err := rows.Err(); err != nil {
			return err
		}
		rows, err = tx.QueryContext(ctx, `SELECT size, root FROM merklelog_checkpoints ORDER BY size`)
		if err != nil {
			return err
		}
		for rows.Next() {
			var size int64
			var root []byte
			if err := rows.Scan(&size, &root); err != nil {
				return err
			}
			for m.size < size {
				m.add(t, byPlace[m.size])
			}
			if c := m.checkpoint(t); !bytes.Equal(c.Root[:], root) {
				t.Errorf("checkpoint of size %d has another root than its entries", size)
			}
		}
		return rows.Err()
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := openCheckpoint(t, l); got.Size != int64(len(byPlace)) || got.Checkpoint != m.checkpoint(t) {
		t.Errorf("newest checkpoint has %d of %d entries", got.Size, len(byPlace))
	}
	return byPlace
}

func TestLogs_ofOneDatabaseDoNotMix(t *testing.T) {
	databasetest.Each(t, func(t *testing.T, open databasetest.Opener) {
		db := open(t)
		one := newLog(t, db)
		two := newLog(t, db, func(o *merklelog.Options) { o.Origin = "directory.example/log" })
		add(t, db, two, leaf(3)) // waits before those of the other log
		add(t, db, one, leaf(1), leaf(2))
		if a, b := integrate(t, one), integrate(t, two); a.Size != 2 || b.Size != 1 || b.Origin != "directory.example/log" {
			t.Errorf("checkpoints %v and %v", a, b)
		}
		if _, err := two.Proof(t.Context(), leaf(1)); !errors.Is(err, merklelog.ErrUnknown) {
			t.Errorf("proof of another log's entry: %v", err)
		}
	})
}

func TestChangedDatabase_getsNoSignatureAndGivesNoProof(t *testing.T) {
	for what, c := range map[string]struct {
		change string
		proves bool // the change does not touch what a proof is made of
	}{
		"tile cut":           {change: `UPDATE merklelog_tiles SET hashes = substr(hashes, 1, 32) WHERE level = 0`},
		"tile gone":          {change: `DELETE FROM merklelog_tiles WHERE level = 1`},
		"tiles exchanged":    {change: `UPDATE merklelog_tiles SET hashes = (SELECT hashes FROM merklelog_tiles WHERE level = 1) WHERE level = 0 AND n = 1`},
		"tile grown":         {change: `UPDATE merklelog_tiles SET hashes = CAST(hashes || hashes AS BLOB) WHERE level = 0 AND n = 1`, proves: true},
		"head set back":      {change: `UPDATE merklelog_logs SET size = 256`, proves: true},
		"checkpoint removed": {change: `DELETE FROM merklelog_checkpoints WHERE size = 300`, proves: true},
	} {
		t.Run(what, func(t *testing.T) {
			db := databasetest.Open(t)
			l := newLog(t, db)
			var leaves [][]byte
			for i := range 300 {
				leaves = append(leaves, leaf(i))
			}
			bulk(t, db, origin, leaves[:2])
			integrate(t, l)
			bulk(t, db, origin, leaves)
			integrate(t, l)
			before := openCheckpoint(t, l).Checkpoint
			exec(t, db, c.change)
			add(t, db, l, leaf(300))
			if _, _, err := l.Integrate(t.Context()); err == nil {
				t.Error("signed")
			}
			if _, err := l.Proof(t.Context(), leaf(299)); !c.proves && !errors.Is(err, merklelog.ErrBroken) {
				t.Errorf("Proof = %v", err)
			}
			if after := openCheckpoint(t, l).Checkpoint; after != before && what != "checkpoint removed" {
				t.Errorf("checkpoint %v became %v", before, after)
			}
		})
	}
}

func TestRotation_signsTheNewestCheckpointWithTheNewKey(t *testing.T) {
	databasetest.Each(t, func(t *testing.T, open databasetest.Opener) {
		db := open(t)
		old := newLog(t, db)
		add(t, db, old, leaf(1))
		before := integrate(t, old)
		next := newLog(t, db, func(o *merklelog.Options) { o.Key = secret("next") })
		for _, l := range []*merklelog.Log{old, next} {
			if got := openCheckpoint(t, l).Checkpoint; got != before {
				t.Errorf("%s: %v, want %v", l.Key(), got, before)
			}
		}
	})
}

func TestNew_refusesWhatCannotBe(t *testing.T) {
	db := databasetest.Open(t)
	witness, err := logproof.WitnessKey("w", secret("w").Public().(ed25519.PublicKey))
	if err != nil {
		t.Fatal(err)
	}
	for what, o := range map[string]merklelog.Options{
		"nothing":   {},
		"no key":    {DB: db, Origin: origin},
		"no origin": {DB: db, Key: secret("log")},
		"space":     {DB: db, Key: secret("log"), Origin: "a b"},
		"crowd":     {DB: db, Key: secret("log"), Origin: origin, Witnesses: slices.Repeat([]logproof.Key{witness}, 33)},
	} {
		if _, err := merklelog.New(t.Context(), o); !errors.Is(err, merklelog.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// Run makes checkpoints of its own entries when it is woken, and of entries of
// other processes on its own.
func TestRun_coversWhatIsAppended(t *testing.T) {
	eachTwice(t, func(t *testing.T, one, two *database.DB) {
		made := make(chan logproof.Checkpoint, 16)
		l := newLog(t, one, func(o *merklelog.Options) {
			o.Every = 1 // the shortest
			o.Made = func(c logproof.Checkpoint, err error) {
				if err != nil {
					t.Error(err)
				}
				made <- c
			}
		})
		if c := <-made; c.Size != 0 {
			t.Errorf("the first checkpoint is %v", c)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- l.Run(ctx) }()
		other := newLog(t, two)
		add(t, two, other, leaf(1))
		if c := <-made; c.Size != 1 {
			t.Errorf("the second checkpoint is %v", c)
		}
		add(t, one, l, leaf(2))
		l.Wake()
		if c := <-made; c.Size != 2 {
			t.Errorf("the third checkpoint is %v", c)
		}
		if err := l.Run(ctx); !errors.Is(err, merklelog.ErrRunning) {
			t.Errorf("a second Run: %v", err)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if !strings.Contains(l.Key().String(), origin) {
			t.Errorf("key %s", l.Key())
		}
	})
}
