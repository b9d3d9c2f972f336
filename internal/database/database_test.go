package database_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/parleykit/parley/internal/database"
	"github.com/parleykit/parley/internal/database/databasetest"
)

var schema = fstest.MapFS{"00001_items.sql": {Data: []byte(`-- +goose Up
CREATE TABLE items (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, parent INTEGER REFERENCES items (id) DEFERRABLE INITIALLY DEFERRED);
-- +goose Down
DROP TABLE items;
`)}}

func open(t testing.TB) *database.DB {
	t.Helper()
	return databasetest.OpenWith(t, "items", schema)
}

// each runs test on an empty table of every kind of database.
func each(t *testing.T, test func(t *testing.T, db *database.DB)) {
	t.Helper()
	databasetest.Each(t, func(t *testing.T, open databasetest.Opener) {
		db := open(t)
		if err := db.Migrate(t.Context(), "items", schema); err != nil {
			t.Fatal(err)
		}
		test(t, db)
	})
}

func insert(id int, name string) database.Func {
	return func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO items (id, name) VALUES ($1, $2)", id, name)
		return err
	}
}

// stored is the names of all rows in the order of their ids.
func stored(t testing.TB, db *database.DB) []string {
	t.Helper()
	var names []string
	err := db.View(context.Background(), func(ctx context.Context, tx *sql.Tx) error {
		rows, err := tx.QueryContext(ctx, "SELECT name FROM items ORDER BY id")
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var name string
			if err := rows.Scan(&name); err != nil {
				return err
			}
			names = append(names, name)
		}
		return rows.Err()
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func TestOpen_makesPrivateFilesAndRefusesLooserOnes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data", "parley #1?.db")
	db, err := database.Open(t.Context(), "sqlite:"+path, database.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Migrate(t.Context(), "items", schema); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]os.FileMode{path: 0o600, path + "-wal": 0o600, path + "-shm": 0o600, filepath.Dir(path): 0o700} {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: mode %v, %v; want %v", name, info.Mode().Perm(), err, want)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := database.Open(t.Context(), "sqlite:"+path, database.Options{}); !errors.Is(err, database.ErrPermissions) {
		t.Errorf("readable by the group: %v", err)
	}
}

func TestOpen_refusesOtherAddresses(t *testing.T) {
	for _, address := range []string{"", "parley.db", "sqlite:", "sqlite::memory:", "postgres://localhost:port/parley", "mysql:x"} {
		if _, err := database.Open(t.Context(), address, database.Options{}); !errors.Is(err, database.ErrUnsupported) {
			t.Errorf("%q: %v", address, err)
		}
	}
}

func TestOpen_refusesAFileThatIsNoDatabase(t *testing.T) {
	path := filepath.Join(t.TempDir(), "parley.db")
	if err := os.WriteFile(path, bytes.Repeat([]byte("not a database. "), 64), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := database.Open(t.Context(), "sqlite:"+path, database.Options{}); err == nil {
		t.Error("opened")
	}
}

func TestMigrate_keepsOneVersionTablePerService(t *testing.T) {
	each(t, func(t *testing.T, db *database.DB) {
		other := fstest.MapFS{
			"migrations/00001_a.sql": {Data: []byte("-- +goose Up\nCREATE TABLE a (id INTEGER);\n")},
			"migrations/00002_b.sql": {Data: []byte("-- +goose Up\nCREATE TABLE b (id INTEGER);\n")},
		}
		for range 2 { // the second time there is nothing to do
			if err := db.Migrate(t.Context(), "other", other); err != nil {
				t.Fatal(err)
			}
		}
		var versions []int
		err := db.View(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
			for _, table := range []string{"items_migrations", "other_migrations"} {
				var version int
				if err := tx.QueryRowContext(ctx, "SELECT max(version_id) FROM "+table).Scan(&version); err != nil {
					return err
				}
				versions = append(versions, version)
			}
			return nil
		})
		if diff := cmp.Diff([]int{1, 2}, versions); err != nil || diff != "" {
			t.Errorf("%v, versions differ:\n%s", err, diff)
		}
	})
}

func TestMigrate_leavesNothingOfABrokenMigration(t *testing.T) {
	each(t, func(t *testing.T, db *database.DB) {
		broken := fstest.MapFS{"00001_a.sql": {Data: []byte("-- +goose Up\nCREATE TABLE half (id INTEGER);\nCREATE TABLE broken;\n")}}
		if err := db.Migrate(t.Context(), "broken", broken); err == nil {
			t.Fatal("no error")
		}
		if err := db.Migrate(t.Context(), "bad; name", schema); err == nil {
			t.Error("service name accepted")
		}
		if err := db.Migrate(t.Context(), "empty", fstest.MapFS{}); err == nil {
			t.Error("no migrations accepted")
		}
		err := db.View(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
			return tx.QueryRowContext(ctx, "SELECT count(*) FROM half").Scan(new(int))
		})
		if err == nil {
			t.Error("the table of the broken migration is there")
		}
		if err := db.Write(t.Context(), insert(1, "a")); err != nil {
			t.Errorf("writing afterwards: %v", err)
		}
	})
}

// TestPlaceholders_bindByNumber shows that $1, $2, … take the argument of
// their number in whatever order they stand, and may be repeated, as
// PostgreSQL has it.
func TestPlaceholders_bindByNumber(t *testing.T) {
	each(t, func(t *testing.T, db *database.DB) {
		var got [5]string
		read := func(ctx context.Context, tx *sql.Tx) error {
			return tx.QueryRowContext(ctx, "SELECT $3, $1, $2, $1, $4", "one", "two", "three", "four").
				Scan(&got[0], &got[1], &got[2], &got[3], &got[4])
		}
		for name, run := range map[string]func(context.Context, database.Func) error{"view": db.View, "write": db.Write, "tx": db.Tx} {
			if err := run(t.Context(), read); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if want := [5]string{"three", "one", "two", "one", "four"}; got != want {
				t.Errorf("%s: bound %v, want %v", name, got, want)
			}
		}
	})
}

func TestView_isASnapshotAndReadOnly(t *testing.T) {
	each(t, func(t *testing.T, db *database.DB) {
		err := db.View(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
			if err := db.Write(ctx, insert(1, "later")); err != nil {
				return err
			}
			var count int
			if err := tx.QueryRowContext(ctx, "SELECT count(*) FROM items").Scan(&count); err != nil {
				return err
			}
			if count != 0 {
				t.Error("sees what was committed after it began")
			}
			if _, err := tx.ExecContext(ctx, "DELETE FROM items"); err == nil {
				t.Error("wrote through a read-only connection")
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"later"}, stored(t, db)); diff != "" {
			t.Error(diff)
		}
	})
}

func TestView_worksInsideAJob(t *testing.T) {
	each(t, func(t *testing.T, db *database.DB) {
		err := db.Write(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
			if err := insert(1, "own")(ctx, tx); err != nil {
				return err
			}
			if seen := stored(t, db); len(seen) != 0 {
				t.Errorf("sees uncommitted rows %v", seen)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}

func TestClose_runsWhatWasAcceptedAndRefusesTheRest(t *testing.T) {
	db := open(t)
	started, release := make(chan struct{}), make(chan struct{})
	var wait sync.WaitGroup
	wait.Go(func() {
		if err := db.Tx(t.Context(), func(context.Context, *sql.Tx) error { close(started); <-release; return nil }); err != nil {
			t.Error(err)
		}
	})
	<-started
	accepted := make(chan error, 1)
	go func() { accepted <- db.Write(context.Background(), insert(1, "accepted")) }()
	database.WaitQueued(db, 1)
	closed := make(chan error, 1)
	go func() { closed <- db.Close() }()
	close(release)
	wait.Wait()
	if err := errors.Join(<-accepted, <-closed); err != nil {
		t.Fatal(err)
	}
	if err := db.Write(t.Context(), insert(2, "late")); !errors.Is(err, database.ErrClosed) {
		t.Errorf("writing to a closed database: %v", err)
	}
	again := databasetest.OpenAt(t, db.Path())
	if diff := cmp.Diff([]string{"accepted"}, stored(t, again)); diff != "" {
		t.Error(diff)
	}
}

func TestMetrics_areWellNamedAndStartAtZero(t *testing.T) {
	registry := prometheus.NewRegistry()
	db, err := database.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "d", "x.db"), database.Options{Registerer: registry})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	problems, err := testutil.GatherAndLint(registry)
	if err != nil || len(problems) != 0 {
		t.Errorf("lint: %v, %v", problems, err)
	}
	for name, want := range map[string]int{"parley_database_errors_total": 8, "parley_database_jobs_total": 3} {
		if got, err := testutil.GatherAndCount(registry, name); err != nil || got != want {
			t.Errorf("%s has %d series, %v; want %d", name, got, err, want)
		}
	}
	_ = db.Write(t.Context(), func(context.Context, *sql.Tx) error { panic("x") })
	if got, err := database.Counted(db, "panic"); err != nil || got != 1 {
		t.Errorf("counted %v panics, %v", got, err)
	}
}

func ExampleDB_Write() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "parley")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	db, err := database.Open(ctx, "sqlite:"+filepath.Join(dir, "example.db"), database.Options{})
	if err != nil {
		panic(err)
	}
	defer db.Close()
	if err := db.Migrate(ctx, "items", schema); err != nil {
		panic(err)
	}
	err = db.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO items (id, name) VALUES ($1, $2)", 1, "durable")
		return err
	})
	fmt.Println(err)
	// Output: <nil>
}
