package databasetest

import (
	"io/fs"
	"path/filepath"
	"testing"

	"github.com/parleykit/parley/internal/database"
)

// Open opens a new database in a temporary folder, closed when the test ends.
func Open(t testing.TB) *database.DB {
	t.Helper()
	return OpenAt(t, filepath.Join(t.TempDir(), "data", "parley.db"))
}

// OpenAt opens the database file at path, for tests that open it again.
func OpenAt(t testing.TB, path string) *database.DB {
	t.Helper()
	db, err := database.Open(t.Context(), "sqlite:"+path, database.Options{})
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
