package database_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parleykit/parley/internal/database"
	"github.com/parleykit/parley/internal/database/databasetest"
)

// TestPostgres_runsAgainAJobThatMetAnother lets two jobs read what the other
// writes: one of them has to run twice.
func TestPostgres_runsAgainAJobThatMetAnother(t *testing.T) {
	db := databasetest.OpenPostgres(t)
	if err := db.Migrate(t.Context(), "items", schema); err != nil {
		t.Fatal(err)
	}
	var runs atomic.Int64
	var both sync.WaitGroup
	both.Add(2)
	var wait sync.WaitGroup
	for i := range 2 {
		first := true
		wait.Go(func() {
			err := db.Tx(context.Background(), func(ctx context.Context, tx *sql.Tx) error {
				runs.Add(1)
				var n int
				if err := tx.QueryRowContext(ctx, "SELECT count(*) FROM items").Scan(&n); err != nil {
					return err
				}
				if first {
					first = false
					both.Done()
					both.Wait()
				}
				return insert(i, fmt.Sprint("saw ", n))(ctx, tx)
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	if runs.Load() < 3 {
		t.Errorf("%d runs", runs.Load())
	}
	names := strings.Join(stored(t, db), ",")
	if names != "saw 0,saw 1" && names != "saw 1,saw 0" {
		t.Errorf("stored %s", names)
	}
}

// TestPostgres_locksInOneOrderDoNotMeet shows ForUpdate at work: callers who
// lock the same two rows all get through.
func TestPostgres_locksInOneOrderDoNotMeet(t *testing.T) {
	each(t, func(t *testing.T, db *database.DB) {
		for i := range 2 {
			if err := db.Write(t.Context(), insert(i, strings.Repeat("0", i+1))); err != nil {
				t.Fatal(err)
			}
		}
		var wait sync.WaitGroup
		for range 20 {
			wait.Go(func() {
				err := db.Tx(context.Background(), func(ctx context.Context, tx *sql.Tx) error {
					if _, err := tx.ExecContext(ctx, "SELECT id FROM items WHERE id IN (0, 1) ORDER BY id"+db.ForUpdate()); err != nil {
						return err
					}
					_, err := tx.ExecContext(ctx, "UPDATE items SET name = name || '0' || '0'")
					return err
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		wait.Wait()
		for i, name := range stored(t, db) {
			if len(name) != i+1+40 {
				t.Errorf("row %d counts %d", i, len(name))
			}
		}
	})
}

func TestPostgres_aLockHeldTooLongIsBusy(t *testing.T) {
	db := databasetest.OpenURL(t, databasetest.NewPostgres(t), database.Options{BusyTimeout: 50 * time.Millisecond})
	if err := errors.Join(db.Migrate(t.Context(), "items", schema), db.Write(t.Context(), insert(1, "x"))); err != nil {
		t.Fatal(err)
	}
	rename := func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "UPDATE items SET name = 'y' WHERE id = 1")
		return err
	}
	err := db.Tx(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
		if err := rename(ctx, tx); err != nil {
			return err
		}
		if err := db.Write(context.Background(), rename); !errors.Is(err, database.ErrBusy) {
			t.Errorf("answered %v", err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestPostgres_aKeyTakenMeanwhileIsSeenByTheNextRun lets two jobs take one key
// at the same time. The one that comes late runs again and takes another.
func TestPostgres_aKeyTakenMeanwhileIsSeenByTheNextRun(t *testing.T) {
	db := databasetest.OpenPostgres(t)
	if err := db.Migrate(t.Context(), "items", schema); err != nil {
		t.Fatal(err)
	}
	var both, wait sync.WaitGroup
	both.Add(2)
	for i := range 2 {
		first := true
		wait.Go(func() {
			err := db.Write(context.Background(), func(ctx context.Context, tx *sql.Tx) error {
				if !first {
					return insert(i, "other")(ctx, tx)
				}
				first = false
				both.Done()
				both.Wait()
				return insert(i, "key")(ctx, tx)
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	if n := len(stored(t, db)); n != 2 {
		t.Errorf("%d rows", n)
	}
}
