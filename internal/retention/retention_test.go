package retention_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/parleykit/parley/internal/database"
	"github.com/parleykit/parley/internal/database/databasetest"
	"github.com/parleykit/parley/internal/retention"
)

var (
	alice = strings.Repeat("a", 64)
	bob   = strings.Repeat("b", 64)
)

var migrations = fstest.MapFS{"00001_post.sql": {Data: []byte(`-- +goose Up
CREATE TABLE letters (
    seq    INTEGER PRIMARY KEY AUTOINCREMENT,
    sender TEXT NOT NULL,
    opened BOOLEAN NOT NULL,
    read   BIGINT,
    body   BLOB NOT NULL
);
CREATE TABLE stamps (letter BIGINT NOT NULL, name TEXT NOT NULL);
CREATE TABLE seen (id TEXT PRIMARY KEY, sender TEXT NOT NULL);
CREATE TABLE cursors (scheme TEXT PRIMARY KEY);
`)}}

var tables = []retention.Table{
	{Name: "cursors"},
	{Name: "stamps", Person: "letter IN (SELECT seq FROM letters WHERE sender = $1)"},
	{Name: "letters", Person: "sender = $1", Erase: "sender = $1 AND opened"},
	{Name: "seen", Person: "sender = $1", Blank: "sender = ''"},
}

// fill stores letters of alice and bob.
func fill(t *testing.T, open databasetest.Opener) *database.DB {
	t.Helper()
	db := open(t)
	if err := db.Migrate(t.Context(), "post", migrations); err != nil {
		t.Fatal(err)
	}
	err := db.Write(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO letters (sender, opened, read, body)
			VALUES ($1, TRUE, NULL, $3), ($1, FALSE, 7, $3), ($2, TRUE, 9, $3)`, alice, bob, []byte{0, 0xff})
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "INSERT INTO seen (id, sender) VALUES ('x', $1), ('y', $2)", alice, bob); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `INSERT INTO stamps (letter, name) VALUES (1, 'a "stamp"'), (3, 'another')`); err != nil {
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return db
}

func export(t *testing.T, db *database.DB, person string) (lines []string) {
	t.Helper()
	err := db.View(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
		return retention.Export(ctx, tx, tables, person, func(line []byte) error {
			lines = append(lines, string(line))
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

func TestExport_givesEveryRowAboutAPersonAndNoOther(t *testing.T) {
	databasetest.Each(t, func(t *testing.T, open databasetest.Opener) {
		db := fill(t, open)
		want := []string{
			`{"table":"stamps","row":{"letter":1,"name":"a \"stamp\""}}`,
			`{"table":"letters","row":{"seq":1,"sender":"` + alice + `","opened":true,"read":null,"body":"AP8="}}`,
			`{"table":"letters","row":{"seq":2,"sender":"` + alice + `","opened":false,"read":7,"body":"AP8="}}`,
			`{"table":"seen","row":{"id":"x","sender":"` + alice + `"}}`,
		}
		if diff := cmp.Diff(want, export(t, db, alice)); diff != "" {
			t.Error(diff)
		}
	})
}

func TestErase_takesTheRowsOfOnePersonAndEmptiesWhatMustStay(t *testing.T) {
	databasetest.Each(t, func(t *testing.T, open databasetest.Opener) {
		db := fill(t, open)
		others := export(t, db, bob)
		var removed map[string]int64
		err := db.Tx(t.Context(), func(ctx context.Context, tx *sql.Tx) (err error) {
			removed, err = retention.Erase(ctx, tx, tables, alice)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(map[string]int64{"stamps": 1, "letters": 1, "seen": 1}, removed); diff != "" {
			t.Error(diff)
		}
		left := export(t, db, alice)
		if len(left) != 1 || !strings.Contains(left[0], `"seq":2`) {
			t.Errorf("left of alice: %q, want the unopened letter alone", left)
		}
		if diff := cmp.Diff(others, export(t, db, bob)); diff != "" {
			t.Errorf("another person's rows changed: %s", diff)
		}
		var id string
		err = db.View(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
			return tx.QueryRowContext(ctx, "SELECT id FROM seen WHERE sender = ''").Scan(&id)
		})
		if err != nil || id != "x" {
			t.Errorf("the emptied row is %q (%v), want x", id, err)
		}
	})
}

func TestPerson_isAKeyInLowercaseHex(t *testing.T) {
	for _, person := range []string{"", "alice", strings.ToUpper(alice), alice[1:], alice + "a", "'" + alice[1:]} {
		if err := retention.Export(t.Context(), nil, tables, person, nil); !errors.Is(err, retention.ErrPerson) {
			t.Errorf("Export of %q = %v", person, err)
		}
		if _, err := retention.Erase(t.Context(), nil, tables, person); !errors.Is(err, retention.ErrPerson) {
			t.Errorf("Erase of %q = %v", person, err)
		}
	}
}
