package database_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleykit/parley/internal/database"
)

func TestStatements_runInsideTheReadingOfTheirOwnRows(t *testing.T) {
	db := open(t)
	for id := 1; id <= 3; id++ {
		if err := db.Write(t.Context(), insert(id, strconv.Itoa(id))); err != nil {
			t.Fatal(err)
		}
	}
	var pairs []string
	read := func(ctx context.Context, tx *sql.Tx, each func(int) error) error {
		rows, err := tx.QueryContext(ctx, "SELECT id FROM items ORDER BY id")
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var id int
			if err := errors.Join(rows.Scan(&id), each(id)); err != nil {
				return err
			}
		}
		return rows.Err()
	}
	for range 2 { // the second time both statements are kept ones
		err := db.Tx(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
			pairs = nil
			return read(ctx, tx, func(a int) error {
				return read(ctx, tx, func(b int) error { pairs = append(pairs, fmt.Sprint(a, b)); return nil })
			})
		})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"1 1", "1 2", "1 3", "2 1", "2 2", "2 3", "3 1", "3 2", "3 3"}, pairs); diff != "" {
			t.Error(diff)
		}
	}
}

func TestStatements_keptAreBounded(t *testing.T) {
	db := open(t)
	err := db.Tx(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
		for i := range 3 * database.MaxStatements {
			var got int
			if err := tx.QueryRowContext(ctx, fmt.Sprint("SELECT ", i)).Scan(&got); err != nil || got != i {
				return fmt.Errorf("%d: %d, %w", i, got, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if n, err := database.Kept(t.Context(), db); n != database.MaxStatements || err != nil {
		t.Errorf("%d statements kept, %v; want %d", n, err, database.MaxStatements)
	}
}

func TestStatements_workAfterTheyFailed(t *testing.T) {
	db := open(t)
	for _, step := range []struct {
		name string
		want error
	}{{"a", nil}, {"a", database.ErrUnique}, {"b", nil}, {"b", database.ErrUnique}, {"c", nil}} {
		if err := db.Write(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
			var id int
			return tx.QueryRowContext(ctx, "INSERT INTO items (name) VALUES ($1) RETURNING id", step.name).Scan(&id)
		}); !errors.Is(err, step.want) {
			t.Errorf("%s: %v, want %v", step.name, err, step.want)
		}
	}
	if diff := cmp.Diff([]string{"a", "b", "c"}, stored(t, db)); diff != "" {
		t.Error(diff)
	}
}

func TestStatements_followTheSchema(t *testing.T) {
	db := open(t)
	columns := func() (n int) {
		err := db.View(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
			rows, err := tx.QueryContext(ctx, "SELECT * FROM items")
			if err != nil {
				return err
			}
			defer rows.Close()
			types, err := rows.ColumnTypes()
			n = len(types)
			return errors.Join(err, rows.Err())
		})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	for want := 3; want < 6; want++ {
		if n := columns(); n != want {
			t.Errorf("%d columns, want %d", n, want)
		}
		if err := db.Tx(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, fmt.Sprintf("ALTER TABLE items ADD COLUMN more%d TEXT", want))
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestStatements_brokenOffLeaveTheDatabaseUsable(t *testing.T) {
	db := open(t)
	const endless = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n"
	for range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		err := db.View(ctx, func(ctx context.Context, tx *sql.Tx) error {
			rows, err := tx.QueryContext(ctx, endless)
			if err != nil {
				return err
			}
			defer rows.Close()
			for rows.Next() {
				cancel()
			}
			return rows.Err()
		})
		cancel()
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%v, want canceled", err)
		}
	}
	var first int
	if err := db.View(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, endless).Scan(&first)
	}); err != nil || first != 1 {
		t.Errorf("%d, %v", first, err)
	}
}
