package database_test

import (
	"bytes"
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parleykit/parley/internal/database"
)

// holds reports which of a database's files hold a text.
func holds(t *testing.T, path, text string) (files []string) {
	t.Helper()
	for _, end := range []string{"", "-wal"} {
		data, err := os.ReadFile(path + end)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		if bytes.Contains(data, []byte(text)) {
			files = append(files, path+end)
		}
	}
	return files
}

func TestCompactLeavesNoDeletedByteBesideAnOpenDatabase(t *testing.T) {
	path, text := filepath.Join(t.TempDir(), "a b?c.db"), strings.Repeat("deleted text ", 1000)
	db, err := database.Open(t.Context(), "sqlite:"+path, database.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	run := func(statements ...string) {
		t.Helper()
		err := db.Tx(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
			for _, statement := range statements {
				if _, err := tx.ExecContext(ctx, statement); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	run("CREATE TABLE texts (text TEXT)", "INSERT INTO texts VALUES ('"+text+"'), ('kept')")
	run("DELETE FROM texts WHERE text <> 'kept'")
	if len(holds(t, path, text[:100])) == 0 {
		t.Fatal("the deleted text was in no file anyway")
	}
	copied := path + ".copy"
	if err := database.Copy(t.Context(), path, copied); err != nil {
		t.Fatal(err)
	}
	if len(holds(t, copied, "kept")) == 0 || len(holds(t, copied, text[:100])) > 0 {
		t.Error("the copy is not what is stored")
	}
	if err := database.Compact(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	if files := holds(t, path, text[:100]); len(files) > 0 {
		t.Errorf("the deleted text is still in %q", files)
	}
	run("INSERT INTO texts VALUES ('after')")
}
