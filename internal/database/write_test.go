package database_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/parleykit/parley/internal/database"
)

func TestPragmas_holdOnEveryConnection(t *testing.T) {
	db, err := database.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "d", "x.db"), database.Options{Readers: 6})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for pragma, want := range map[string]struct{ writer, reader string }{
		"synchronous":  {"2", "2"}, // FULL
		"journal_mode": {"wal", "wal"},
		"foreign_keys": {"1", "1"},
		"busy_timeout": {"10000", "10000"},
		"query_only":   {"0", "1"},
	} {
		got, err := database.Pragma(t.Context(), db, pragma)
		if diff := cmp.Diff(append([]string{want.writer}, slices.Repeat([]string{want.reader}, 6)...), got); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", pragma, err, diff)
		}
	}
}

// batch holds the writer while it queues the jobs, so that they share one
// transaction, and returns their outcomes. PostgreSQL has no batches: there
// they run one after another.
func batch(t testing.TB, db *database.DB, jobs ...database.Func) []error {
	t.Helper()
	if db.Path() == "" {
		outcomes := make([]error, len(jobs))
		for i, job := range jobs {
			var wait sync.WaitGroup // a job may end its goroutine
			wait.Go(func() { outcomes[i] = db.Write(context.Background(), job) })
			wait.Wait()
		}
		return outcomes
	}
	started, release := make(chan struct{}), make(chan struct{})
	var wait sync.WaitGroup
	wait.Go(func() {
		_ = db.Tx(context.Background(), func(context.Context, *sql.Tx) error { close(started); <-release; return nil })
	})
	<-started
	outcomes := make([]error, len(jobs))
	for i, job := range jobs {
		wait.Go(func() { outcomes[i] = db.Write(context.Background(), job) })
		database.WaitQueued(db, i+1)
	}
	close(release)
	wait.Wait()
	return outcomes
}

func TestWrite_undoesTheFailedJobAlone(t *testing.T) {
	each(t, func(t *testing.T, db *database.DB) {
		refusal := errors.New("refused")
		ending := func(ctx context.Context, tx *sql.Tx) error {
			if err := insert(4, "ended")(ctx, tx); err != nil {
				return err
			}
			new(testing.T).FailNow() // ends the goroutine, as t.Fatal does
			return nil
		}
		outcomes := batch(t, db,
			insert(1, "first"),
			func(ctx context.Context, tx *sql.Tx) error { return errors.Join(insert(2, "undone")(ctx, tx), refusal) },
			func(ctx context.Context, tx *sql.Tx) error {
				if err := insert(3, "panicked")(ctx, tx); err != nil {
					return err
				}
				panic("job")
			},
			insert(5, "first"), // breaks the unique name
			insert(6, "last"),
			ending,
		)
		for i, want := range []error{nil, refusal, database.ErrPanic, database.ErrUnique, nil} {
			if !errors.Is(outcomes[i], want) {
				t.Errorf("job %d: %v, want %v", i+1, outcomes[i], want)
			}
		}
		if db.Path() != "" && !errors.Is(outcomes[5], database.ErrPanic) { // on PostgreSQL it ended its caller
			t.Errorf("the job that ended its goroutine: %v", outcomes[5])
		}
		if diff := cmp.Diff([]string{"first", "last"}, stored(t, db)); diff != "" {
			t.Error(diff)
		}
	})
}

func TestWrite_runsABatchTwiceForTheFirstFailureOnly(t *testing.T) {
	db := open(t)
	id, refusal := 0, errors.New("refused")
	for i, c := range []struct {
		failing bool
		reruns  float64
	}{{false, 0}, {true, 1}, {true, 1}, {false, 1}, {true, 2}} {
		id += 2
		first, second := insert(id, strconv.Itoa(id)), insert(id+1, strconv.Itoa(id+1))
		if c.failing {
			second = func(context.Context, *sql.Tx) error { return refusal }
		}
		outcomes := batch(t, db, first, second)
		if outcomes[0] != nil || errors.Is(outcomes[1], refusal) != c.failing {
			t.Errorf("batch %d: %v", i+1, outcomes)
		}
		if n := database.Reruns(db); n != c.reruns {
			t.Errorf("after batch %d %v batches had run again, want %v", i+1, n, c.reruns)
		}
	}
	if n := len(stored(t, db)); n != 7 {
		t.Errorf("%d rows, want 7", n)
	}
}

func TestWrite_runsAFailedBatchAgainJobByJob(t *testing.T) {
	db := open(t)
	runs := make([]int, 3)
	counting := func(i int, fn database.Func) database.Func {
		return func(ctx context.Context, tx *sql.Tx) error { runs[i]++; return fn(ctx, tx) }
	}
	outcomes := batch(t, db,
		counting(0, insert(1, "good")),
		counting(1, func(ctx context.Context, tx *sql.Tx) error { // noticed by the commit only
			_, err := tx.ExecContext(ctx, "INSERT INTO items (id, name, parent) VALUES (2, 'orphan', 99)")
			return err
		}),
		counting(2, insert(3, "also good")),
	)
	for i, want := range []error{nil, database.ErrConstraint, nil} {
		if !errors.Is(outcomes[i], want) {
			t.Errorf("job %d: %v, want %v", i, outcomes[i], want)
		}
	}
	if diff := cmp.Diff([]string{"good", "also good"}, stored(t, db)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]int{2, 2, 2}, runs); diff != "" || database.Reruns(db) != 1 {
		t.Errorf("%v reruns; runs differ:\n%s", database.Reruns(db), diff)
	}
}

func TestWrite_survivesAJobThatEndsTheTransaction(t *testing.T) {
	for _, end := range []string{"commit", "rollback"} {
		each(t, func(t *testing.T, db *database.DB) {
			outcomes := batch(t, db, insert(1, "before"),
				func(_ context.Context, tx *sql.Tx) error {
					if end == "commit" {
						return tx.Commit()
					}
					return tx.Rollback()
				},
				insert(3, "after"))
			if outcomes[1] == nil {
				t.Error("the offending job was answered with success")
			}
			if err := db.Write(t.Context(), insert(4, "next")); err != nil {
				t.Errorf("the writer is stuck: %v", err)
			}
			if end == "rollback" {
				if diff := cmp.Diff([]string{"before", "after", "next"}, stored(t, db)); diff != "" {
					t.Error(diff)
				}
			}
		})
	}
}

func TestWrite_leavesTheQueueWithItsContext(t *testing.T) {
	db := open(t)
	started, release := make(chan struct{}), make(chan struct{})
	holder := make(chan error, 1)
	go func() {
		holder <- db.Tx(context.Background(), func(context.Context, *sql.Tx) error { close(started); <-release; return nil })
	}()
	<-started
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() { left <- db.Write(ctx, insert(1, "withdrawn")) }()
	database.WaitQueued(db, 1)
	cancel()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("answered %v", err)
	}
	close(release)
	if err := <-holder; err != nil {
		t.Fatal(err)
	}
	if err := db.Write(t.Context(), insert(2, "kept")); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"kept"}, stored(t, db)); diff != "" {
		t.Error(diff)
	}
}

func TestWrite_tellsTheTruthAboutAJobThatHadBegun(t *testing.T) {
	each(t, func(t *testing.T, db *database.DB) {
		ctx, cancel := context.WithCancel(t.Context())
		err := db.Write(ctx, func(inner context.Context, tx *sql.Tx) error {
			cancel()
			if inner.Err() != nil {
				t.Error("the job's own context ended with its caller's")
			}
			return insert(1, "committed")(inner, tx)
		})
		if err != nil {
			t.Errorf("answered %v", err)
		}
		if diff := cmp.Diff([]string{"committed"}, stored(t, db)); diff != "" {
			t.Error(diff)
		}
	})
}

func TestTx_rollsBackWithItsContext(t *testing.T) {
	each(t, func(t *testing.T, db *database.DB) {
		ctx, cancel := context.WithCancel(t.Context())
		err := db.Tx(ctx, func(inner context.Context, tx *sql.Tx) error {
			if err := insert(1, "undone")(inner, tx); err != nil {
				return err
			}
			cancel()
			return nil
		})
		if !errors.Is(err, context.Canceled) && !errors.Is(err, sql.ErrTxDone) {
			t.Errorf("answered %v", err)
		}
		if seen := stored(t, db); len(seen) != 0 {
			t.Errorf("stored %v", seen)
		}
		if err := db.Write(t.Context(), insert(2, "next")); err != nil {
			t.Errorf("the writer is stuck: %v", err)
		}
	})
}

func TestJobs_actAsIfTheyRanOneAtATime(t *testing.T) {
	each(t, func(t *testing.T, db *database.DB) {
		if err := db.Write(t.Context(), insert(1, "0")); err != nil {
			t.Fatal(err)
		}
		increment := func(ctx context.Context, tx *sql.Tx) error { // loses counts unless serialised
			var name string
			if err := tx.QueryRowContext(ctx, "SELECT name FROM items WHERE id = 1").Scan(&name); err != nil {
				return err
			}
			var n int
			if _, err := fmt.Sscan(name, &n); err != nil {
				return err
			}
			_, err := tx.ExecContext(ctx, "UPDATE items SET name = $1 WHERE id = 1", fmt.Sprint(n+1))
			return err
		}
		var wait sync.WaitGroup
		for i := range 100 {
			run := db.Write
			if i%4 == 0 {
				run = db.Tx
			}
			wait.Go(func() {
				if err := run(context.Background(), increment); err != nil {
					t.Error(err)
				}
			})
		}
		wait.Wait()
		if diff := cmp.Diff([]string{"100"}, stored(t, db)); diff != "" {
			t.Error(diff)
		}
	})
}

// TestJobs_keysTakenMeanwhileAreTakenAgain lets every caller number its row by
// what is there: nobody may be told that a number is taken.
func TestJobs_keysTakenMeanwhileAreTakenAgain(t *testing.T) {
	each(t, func(t *testing.T, db *database.DB) {
		var wait sync.WaitGroup
		for i := range 30 {
			wait.Go(func() {
				err := db.Write(context.Background(), func(ctx context.Context, tx *sql.Tx) error {
					_, err := tx.ExecContext(ctx, "INSERT INTO items (id, name) SELECT coalesce(max(id), 0) + 1, $1 FROM items", fmt.Sprint(i))
					return err
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		wait.Wait()
		if n := len(stored(t, db)); n != 30 {
			t.Errorf("%d rows", n)
		}
		if err := db.Write(t.Context(), insert(7, "again")); !errors.Is(err, database.ErrUnique) {
			t.Errorf("a number truly taken: %v", err)
		}
	})
}

func TestJobs_refuseToNest(t *testing.T) {
	each(t, func(t *testing.T, db *database.DB) {
		for name, outer := range map[string]func(context.Context, database.Func) error{"write": db.Write, "tx": db.Tx} {
			err := outer(t.Context(), func(ctx context.Context, _ *sql.Tx) error {
				return errors.Join(db.Write(ctx, insert(1, "x")), db.Tx(ctx, insert(2, "y")), db.Migrate(ctx, "items", schema))
			})
			if strings.Count(fmt.Sprint(err), database.ErrNested.Error()) != 3 {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

func TestBusy_isTyped(t *testing.T) {
	db := open(t)
	second, err := database.Open(t.Context(), "sqlite:"+db.Path(), database.Options{BusyTimeout: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	err = db.Tx(t.Context(), func(context.Context, *sql.Tx) error {
		for name, run := range map[string]func(context.Context, database.Func) error{"write": second.Write, "tx": second.Tx} {
			if err := run(context.Background(), insert(1, "x")); !errors.Is(err, database.ErrBusy) {
				t.Errorf("%s: %v", name, err)
			}
		}
		for i, err := range batch2(second, 100) {
			if !errors.Is(err, database.ErrBusy) {
				t.Errorf("batched job %d: %v", i, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Write(t.Context(), insert(1, "x")); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// batch2 writes from several callers at once, however they are batched.
func batch2(db *database.DB, from int) []error {
	outcomes := make([]error, 8)
	var wait sync.WaitGroup
	for i := range outcomes {
		wait.Go(func() { outcomes[i] = db.Write(context.Background(), insert(from+10+i, fmt.Sprint("b", from+i))) })
	}
	wait.Wait()
	return outcomes
}

// TestWrite_storesExactlyWhatItAcknowledged draws batches of good and bad jobs
// and compares the rows with the outcomes.
func TestWrite_storesExactlyWhatItAcknowledged(t *testing.T) {
	each(t, func(t *testing.T, db *database.DB) {
		next := 0
		want := []string{}
		rapid.Check(t, func(rt *rapid.T) {
			kinds := rapid.SliceOfN(rapid.SampledFrom([]string{"good", "error", "panic", "duplicate", "orphan"}), 1, 8).Draw(rt, "kinds")
			jobs, good := make([]database.Func, len(kinds)), make([]bool, len(kinds))
			names := make([]string, len(kinds))
			for i, kind := range kinds {
				next++
				names[i], good[i] = fmt.Sprintf("%s %d", kind, next), kind == "good"
				jobs[i] = kindOfJob(kind, next, names[i])
			}
			for i, err := range batch(t, db, jobs...) {
				if (err == nil) != good[i] {
					rt.Fatalf("%s answered %v", kinds[i], err)
				}
				if err == nil {
					want = append(want, names[i])
				}
			}
		})
		if diff := cmp.Diff(want, append([]string{}, stored(t, db)...)); diff != "" {
			t.Error(diff)
		}
	})
}

func kindOfJob(kind string, id int, name string) database.Func {
	return func(ctx context.Context, tx *sql.Tx) error {
		switch kind {
		case "duplicate":
			return errors.Join(insert(id, name)(ctx, tx), insert(-id, name)(ctx, tx))
		case "orphan":
			_, err := tx.ExecContext(ctx, "INSERT INTO items (id, name, parent) VALUES ($1, $2, -1)", id, name)
			return err
		}
		if err := insert(id, name)(ctx, tx); err != nil {
			return err
		}
		switch kind {
		case "error":
			return errors.New("refused")
		case "panic":
			panic("job")
		}
		return nil
	}
}
