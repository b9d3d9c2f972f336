package database_test

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"github.com/parleykit/parley/internal/database"
	"github.com/parleykit/parley/internal/database/databasetest"
)

// crashPath makes the test binary a writer on the database it names.
const crashPath = "PARLEY_DATABASE_CRASH_PATH"

func TestMain(m *testing.M) {
	if path := os.Getenv(crashPath); path != "" {
		writeForever(path)
	}
	if path := os.Getenv(diskPath); path != "" {
		writeOnDisk(path)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// writeForever writes from several goroutines and prints each id once it was
// acknowledged, until it is killed.
func writeForever(path string) {
	ctx := context.Background()
	db, err := database.Open(ctx, "sqlite:"+path, database.Options{})
	if err == nil {
		err = db.Migrate(ctx, "items", schema)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	var wait sync.WaitGroup
	for worker := range 8 {
		wait.Go(func() {
			for n := 0; ; n++ {
				id := n*8 + worker
				run := db.Write
				if n%10 == 9 {
					run = db.Tx
				}
				if err := run(ctx, insert(id, strconv.Itoa(id))); err != nil {
					fmt.Fprintln(os.Stderr, err)
					os.Exit(1)
				}
				_, _ = os.Stdout.WriteString(strconv.Itoa(id) + "\n") // one write(2) a line
			}
		})
	}
	wait.Wait()
}

func TestAcknowledgedRows_surviveAKill(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	for _, after := range []int{1, 100, 700} {
		path := filepath.Join(t.TempDir(), "data", "parley.db")
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), crashPath+"="+path)
		child.Stderr = os.Stderr
		out, err := child.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		var acknowledged []int
		for lines := bufio.NewScanner(out); lines.Scan(); {
			id, err := strconv.Atoi(lines.Text())
			if err != nil {
				break // cut by the kill
			}
			if acknowledged = append(acknowledged, id); len(acknowledged) == after {
				_ = child.Process.Kill() // and read on what was printed before it died
			}
		}
		_ = child.Wait()
		if len(acknowledged) < after {
			t.Fatalf("the child ended after %d rows", len(acknowledged))
		}
		checkRows(t, path, acknowledged)
	}
}

func checkRows(t *testing.T, path string, ids []int) {
	t.Helper()
	db := databasetest.OpenAt(t, path)
	err := db.View(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
		for _, id := range ids {
			var name string
			if err := tx.QueryRowContext(ctx, "SELECT name FROM items WHERE id = $1", id).Scan(&name); err != nil || name != strconv.Itoa(id) {
				return fmt.Errorf("row %d of %d acknowledged is %q: %w", id, len(ids), name, err)
			}
		}
		var check string
		if err := tx.QueryRowContext(ctx, "PRAGMA integrity_check").Scan(&check); err != nil || check != "ok" {
			return fmt.Errorf("integrity %q: %w", check, err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
