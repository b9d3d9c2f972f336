package databasetest

import (
	"io/fs"
	"path/filepath"
	"testing"

	"github.com/parleykit/parley/internal/database"
)

// Open opens a new SQLite database in a temporary folder, closed when the test
// ends.
func Open(t testing.TB) *database.DB {
	t.Helper()
	return OpenAt(t, filepath.Join(t.TempDir(), "data", "parley.db"))
}

// OpenAt opens the SQLite file at path, for tests that open it again.
func OpenAt(t testing.TB, path string) *database.DB {
	t.Helper()
	return OpenURL(t, "sqlite:"+path, database.Options{})
}

// OpenURL opens the database at address, closed when the test ends.
func OpenURL(t testing.TB, address string, opts database.Options) *database.DB {
	t.Helper()
	db, err := database.Open(t.Context(), address, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Errorf("closing database: %v", err)
		}
	})
	return db
}

// OpenWith is Open with the migrations of one service applied.
func OpenWith(t testing.TB, service string, fsys fs.FS) *database.DB {
	t.Helper()
	db := Open(t)
	if err := db.Migrate(t.Context(), service, fsys); err != nil {
		t.Fatal(err)
	}
	return db
}

// OpenPostgres opens a new database on the test binary's PostgreSQL; it skips
// the test where PostgreSQL is not installed.
func OpenPostgres(t testing.TB) *database.DB {
	t.Helper()
	return OpenURL(t, NewPostgres(t), database.Options{})
}

// Opener opens a new database of one kind, closed when the test ends.
type Opener func(t testing.TB) *database.DB

// Each runs test once for each kind of database, as a sub-test of its name.
func Each(t *testing.T, test func(t *testing.T, open Opener)) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) { test(t, Open) })
	t.Run("postgres", func(t *testing.T) { test(t, OpenPostgres) })
}
