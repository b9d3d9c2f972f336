package bridge_test

import (
	"context"
	"database/sql"
	"strings"
	"testing"
	"time"

	"github.com/parleykit/parley/internal/database"
	"github.com/parleykit/parley/internal/database/databasetest"
)

func holderOf(t *testing.T, db *database.DB) (holder string) {
	t.Helper()
	err := db.View(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, "SELECT coalesce(max(holder), '') FROM bridge_leases").Scan(&holder)
	})
	if err != nil {
		t.Fatal(err)
	}
	return holder
}

func TestAHolderThatRenewsKeepsItsLease(t *testing.T) {
	db, a, b := databasetest.Open(t), newPlace(), newPlace()
	stop := run(t, db, "pair", "one", a, b)
	eventually(t, "nobody holds the lease", func() bool { return holderOf(t, db) != "" })
	run(t, db, "pair", "two", a, b)
	time.Sleep(1500 * time.Millisecond) // the other has looked twice
	if holder := holderOf(t, db); !strings.HasPrefix(holder, "one ") {
		t.Errorf("the holder is %q", holder)
	}
	stop()
	eventually(t, "the other did not follow", func() bool { return strings.HasPrefix(holderOf(t, db), "two ") })
}
