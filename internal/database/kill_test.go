package database_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/parleykit/parley/internal/database"
	"github.com/parleykit/parley/internal/database/databasetest"
	"github.com/parleykit/parley/internal/drilltest"
)

// ledger remembers what callers were told about the rows they wrote.
type ledger struct {
	mu           sync.Mutex
	acknowledged map[int]bool
	unknown      map[int]bool
	progress     chan struct{} // holds one for each row acknowledged, while there is room
}

func newLedger() *ledger {
	return &ledger{acknowledged: map[int]bool{}, unknown: map[int]bool{}, progress: make(chan struct{}, 1<<16)}
}

// note sorts an answer; an error that is none of a lost server is returned.
func (l *ledger) note(id int, err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err == nil:
		l.acknowledged[id] = true
		select {
		case l.progress <- struct{}{}:
		default:
		}
	case errors.Is(err, database.ErrUnknownOutcome):
		l.unknown[id] = true
	case !errors.Is(err, database.ErrTransient):
		return fmt.Errorf("row %d: %w", id, err)
	}
	return nil
}

// writeRows writes from several goroutines until ctx ends. An id is used once.
func (l *ledger) writeRows(t *testing.T, ctx context.Context, db *database.DB, from int) *sync.WaitGroup {
	var wait sync.WaitGroup
	for worker := range 8 {
		wait.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				id := from + n*8 + worker
				run := db.Write
				if n%10 == 9 {
					run = db.Tx
				}
				if err := l.note(id, run(context.WithoutCancel(ctx), insert(id, fmt.Sprint(id)))); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	return &wait
}

// check compares the table with what was told.
func (l *ledger) check(t *testing.T, db *database.DB) {
	t.Helper()
	there := map[int]bool{}
	err := db.View(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
		rows, err := tx.QueryContext(ctx, "SELECT id FROM items")
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var id int
			if err := rows.Scan(&id); err != nil {
				return err
			}
			there[id] = true
		}
		return rows.Err()
	})
	if err != nil {
		t.Fatal(err)
	}
	for id := range l.acknowledged {
		if !there[id] {
			t.Errorf("row %d was acknowledged and is missing", id)
		}
	}
	for id := range there {
		if !l.acknowledged[id] && !l.unknown[id] {
			t.Errorf("row %d is there although its caller was told that nothing was written", id)
		}
	}
	t.Logf("%d acknowledged, %d unknown, %d stored", len(l.acknowledged), len(l.unknown), len(there))
}

func rounds() int {
	if drilltest.Long() {
		return 30
	}
	return 3
}

// TestPostgres_killsLoseNoAcknowledgedRow kills every process of the server
// under load, again and again, while the same DB goes on writing.
func TestPostgres_killsLoseNoAcknowledgedRow(t *testing.T) {
	if testing.Short() {
		t.Skip("starts and kills servers")
	}
	server := databasetest.StartPostgres(t)
	db := databasetest.OpenURL(t, server.URL("postgres"), database.Options{})
	if err := db.Migrate(t.Context(), "items", schema); err != nil {
		t.Fatal(err)
	}
	l := newLedger()
	for round := range rounds() {
		ctx, stop := context.WithCancel(t.Context())
		wait := l.writeRows(t, ctx, db, (round+1)*10_000_000)
		for range 50 + 30*round {
			<-l.progress
		}
		server.Kill(t)
		stop()
		wait.Wait()
		server.Restart(t)
		l.check(t, db)
	}
	if err := db.Write(t.Context(), insert(1, "afterwards")); err != nil {
		t.Errorf("the process did not recover: %v", err)
	}
}

// TestPostgres_brokenConnectionsNeverLie resets connections under load.
func TestPostgres_brokenConnectionsNeverLie(t *testing.T) {
	db, proxy := throughProxy(t, database.Options{})
	l := newLedger()
	ctx, stop := context.WithCancel(t.Context())
	wait := l.writeRows(t, ctx, db, 1_000_000)
	for range 10 * rounds() {
		for range 17 {
			<-l.progress
		}
		proxy.Reset()
	}
	stop()
	wait.Wait()
	l.check(t, db)
}
