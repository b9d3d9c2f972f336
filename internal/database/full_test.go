package database_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parleykit/parley/internal/database"
	"github.com/parleykit/parley/internal/database/databasetest"
	"github.com/parleykit/parley/internal/disktest"
)

// largeRow needs new space in the tables.
func largeRow(id int) database.Func {
	return insert(id, fmt.Sprint(id, strings.Repeat("x", 64<<10)))
}

// rowAndNewLog needs a new file of PostgreSQL's own log.
func rowAndNewLog(id int) database.Func {
	return func(ctx context.Context, tx *sql.Tx) error {
		if err := insert(id, fmt.Sprint(id))(ctx, tx); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, "SELECT pg_switch_wal()")
		return err
	}
}

// fillAndGoOn writes rows until the disk is full, gives space back and writes
// on with the same DB. restart is called when that does not succeed by itself.
func fillAndGoOn(t *testing.T, db *database.DB, volume *disktest.Volume, row func(id int) database.Func, restart func()) {
	t.Helper()
	if err := db.Migrate(t.Context(), "items", schema); err != nil {
		t.Fatal(err)
	}
	l := newLedger()
	write := func(id int) error {
		err := db.Write(t.Context(), row(id))
		if noted := l.note(id, err); noted != nil {
			t.Fatal(noted)
		}
		return err
	}
	volume.Fill(t, 256<<10)
	var full error
	id := 1
	for ; full == nil && id < 2000; id++ {
		full = write(id)
	}
	if !errors.Is(full, database.ErrDiskFull) && !(restart != nil && errors.Is(full, database.ErrTransient)) {
		t.Errorf("got %v, want ErrDiskFull, or a server that ended", full)
	}
	t.Logf("full after %d rows: is ErrDiskFull %v: %v", id-2, errors.Is(full, database.ErrDiskFull), full)
	volume.Empty(t)
	err := write(id)
	for try := 0; err != nil && try < 50; try++ {
		if try == 25 && restart != nil {
			t.Log("the server did not come back by itself")
			restart()
		}
		time.Sleep(20 * time.Millisecond)
		id++
		err = write(id)
	}
	if err != nil {
		t.Errorf("with space again: %v", err)
	}
	l.unknown[id] = true // rows of SQLite that were refused may be there
	l.check(t, db)
}

func TestFullDisk_isToldAndPasses(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) {
		volume := disktest.Mount(t, 8<<20)
		path := filepath.Join(volume.Path, "data", "parley.db")
		db := databasetest.OpenAt(t, path)
		fillAndGoOn(t, db, volume, largeRow, nil)
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		volume.Fill(t, 0)
		if _, err := database.Open(t.Context(), "sqlite:"+path, database.Options{}); !errors.Is(err, database.ErrDiskFull) {
			t.Errorf("opening on a full disk: got %v, want ErrDiskFull", err)
		}
	})
	for name, row := range map[string]func(int) database.Func{"postgres tables": largeRow, "postgres log": rowAndNewLog} {
		t.Run(name, func(t *testing.T) {
			if testing.Short() {
				t.Skip("starts a server")
			}
			volume := disktest.Mount(t, 160<<20)
			t.Setenv("TMPDIR", volume.Path)
			server := databasetest.StartPostgres(t)
			db := databasetest.OpenURL(t, server.URL("postgres"), database.Options{})
			fillAndGoOn(t, db, volume, row, func() { server.Restart(t) })
		})
	}
}
