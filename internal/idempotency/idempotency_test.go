package idempotency_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"pgregory.net/rapid"

	"github.com/parleykit/parley/internal/database"
	"github.com/parleykit/parley/internal/database/databasetest"
	"github.com/parleykit/parley/internal/idempotency"
)

var now = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// hash makes the hash of a made-up request.
func hash(n int) string { return fmt.Sprintf("%064x", n) }

func request(scope, key string, n int) idempotency.Request {
	return idempotency.Request{Scope: scope, Key: key, Hash: hash(n)}
}

func open(t *testing.T, opener databasetest.Opener) *database.DB {
	t.Helper()
	db := opener(t)
	if err := idempotency.Migrate(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	return db
}

func keep(t *testing.T, db *database.DB, r idempotency.Request, response string, expires time.Time) error {
	t.Helper()
	return db.Tx(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
		return idempotency.Keep(ctx, tx, r, response, expires)
	})
}

// find tells what Find says, in one word.
func find(t *testing.T, db *database.DB, r idempotency.Request) (said string) {
	t.Helper()
	err := db.View(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
		response, found, err := idempotency.Find(ctx, tx, r)
		switch {
		case errors.Is(err, idempotency.ErrConflict) && found && response == "":
			said = "conflict"
		case err != nil:
			return err
		case found:
			said = "found " + response
		default:
			said = "nothing"
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return said
}

func sweep(t *testing.T, db *database.DB, owner string, at time.Time, limit int) (n int64) {
	t.Helper()
	err := db.Tx(t.Context(), func(ctx context.Context, tx *sql.Tx) (err error) {
		n, err = idempotency.Sweep(ctx, tx, owner, at, limit)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestKey_standsForOneRequestOfItsScope(t *testing.T) {
	databasetest.Each(t, func(t *testing.T, opener databasetest.Opener) {
		db := open(t, opener)
		if err := keep(t, db, request("venue/r/p1", "key-0001", 1), "7", now); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			r    idempotency.Request
			want string
		}{
			{request("venue/r/p1", "key-0001", 1), "found 7"},
			{request("venue/r/p1", "key-0001", 2), "conflict"},
			{request("venue/r/p1", "KEY-0001", 1), "nothing"},
			{request("venue/r/p2", "key-0001", 1), "nothing"},
		} {
			if got := find(t, db, c.r); got != c.want {
				t.Errorf("%v: %s, want %s", c.r, got, c.want)
			}
		}
		if err := keep(t, db, request("venue/r/p1", "key-0001", 2), "8", now); !errors.Is(err, database.ErrUnique) {
			t.Errorf("a taken key was bound again: %v", err)
		}
		if got := find(t, db, request("venue/r/p1", "key-0001", 1)); got != "found 7" {
			t.Errorf("afterwards: %s", got)
		}
	})
}

func TestSweep_takesExpiredRowsOfItsOwnerAlone(t *testing.T) {
	databasetest.Each(t, func(t *testing.T, opener databasetest.Opener) {
		db := open(t, opener)
		for i, scope := range []string{"venue/a", "venue/b", "venue/c", "venues/a", "agent/a"} {
			if err := keep(t, db, request(scope, "key-0001", i), "x", now.Add(time.Duration(i)*time.Second)); err != nil {
				t.Fatal(err)
			}
		}
		if got := find(t, db, request("venue/a", "key-0001", 0)); got != "found x" {
			t.Errorf("expired and not swept: %s", got)
		}
		steps := []int64{
			sweep(t, db, "venue", now.Add(-time.Second), 10), // none has expired
			sweep(t, db, "venue", now.Add(time.Second), 1),
			sweep(t, db, "venue", now.Add(time.Second), 10),
			sweep(t, db, "venue", now.Add(time.Second), 10),
			sweep(t, db, "venue", now.Add(time.Hour), 10),
		}
		if want := []int64{0, 1, 1, 0, 1}; !slices.Equal(steps, want) {
			t.Errorf("swept %v, want %v", steps, want)
		}
		for i, scope := range []string{"venues/a", "agent/a"} {
			if got := find(t, db, request(scope, "key-0001", 3+i)); got != "found x" {
				t.Errorf("%s: %s", scope, got)
			}
		}
	})
}

func TestMigrate_takesOverTheTableOfTheVenueWithItsRows(t *testing.T) {
	old := fstest.MapFS{"00001_idempotency.sql": {Data: []byte(`-- +goose Up
CREATE TABLE idempotency (scope TEXT NOT NULL, key TEXT NOT NULL, request_hash TEXT NOT NULL, response TEXT NOT NULL,
	expires BIGINT NOT NULL, PRIMARY KEY (scope, key));
CREATE INDEX idempotency_expires ON idempotency (expires);
INSERT INTO idempotency VALUES ('venue/r/p1', 'key-0001', '` + hash(1) + `', '7', 1);
-- +goose Down
DROP TABLE idempotency;
`)}}
	databasetest.Each(t, func(t *testing.T, opener databasetest.Opener) {
		db := opener(t)
		if err := db.Migrate(t.Context(), "venue", old); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := idempotency.Migrate(t.Context(), db); err != nil {
				t.Fatal(err)
			}
		}
		if got := find(t, db, request("venue/r/p1", "key-0001", 1)); got != "found 7" {
			t.Errorf("an old row: %s", got)
		}
		if err := keep(t, db, request("venue/r/p1", "key-0002", 1), "8", now); err != nil {
			t.Error(err)
		}
	})
}

func TestBounds_holdForEveryColumn(t *testing.T) {
	db := open(t, databasetest.Open)
	good := request("agent/send", "key-0001", 1)
	for name, change := range map[string]func(*idempotency.Request){
		"no scope":       func(r *idempotency.Request) { r.Scope = "" },
		"no owner":       func(r *idempotency.Request) { r.Scope = "/send" },
		"owner alone":    func(r *idempotency.Request) { r.Scope = "agent/" },
		"long scope":     func(r *idempotency.Request) { r.Scope = "agent/" + strings.Repeat("x", idempotency.MaxScope) },
		"no key":         func(r *idempotency.Request) { r.Key = "" },
		"long key":       func(r *idempotency.Request) { r.Key = strings.Repeat("x", idempotency.MaxKey+1) },
		"short hash":     func(r *idempotency.Request) { r.Hash = r.Hash[1:] },
		"capital digits": func(r *idempotency.Request) { r.Hash = strings.Repeat("A", 64) },
	} {
		r := good
		change(&r)
		if err := keep(t, db, r, "x", now); !errors.Is(err, idempotency.ErrInvalid) {
			t.Errorf("%s: Keep = %v", name, err)
		}
	}
	if err := keep(t, db, good, strings.Repeat("x", idempotency.MaxResponse+1), now); !errors.Is(err, idempotency.ErrInvalid) {
		t.Errorf("long answer: Keep = %v", err)
	}
	if err := keep(t, db, good, strings.Repeat("x", idempotency.MaxResponse), now); err != nil {
		t.Errorf("longest answer: Keep = %v", err)
	}
	for _, owner := range []string{"", "a/b", "A"} {
		err := db.Tx(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
			_, err := idempotency.Sweep(ctx, tx, owner, now, 1)
			return err
		})
		if !errors.Is(err, idempotency.ErrInvalid) {
			t.Errorf("Sweep of %q = %v", owner, err)
		}
	}
}

// call is one request of the property below and what came of it.
type call struct {
	key    int
	hash   int
	refuse bool // its owner refuses it
	on     int  // which process

	answer   string // "" when refused or in conflict
	fresh    bool   // the work was done
	conflict bool
}

var answers atomic.Int64

// do is how every owner uses the package.
func (c *call) do(db *database.DB, scope string) error {
	return db.Tx(context.Background(), func(ctx context.Context, tx *sql.Tx) error {
		c.answer, c.fresh, c.conflict = "", false, false
		r := request(scope, fmt.Sprintf("key-%04d", c.key), c.hash)
		response, found, err := idempotency.Find(ctx, tx, r)
		switch {
		case errors.Is(err, idempotency.ErrConflict):
			c.conflict = true
			return nil
		case found || err != nil:
			c.answer = response
			return err
		case c.refuse:
			return nil
		}
		c.answer, c.fresh = fmt.Sprint(answers.Add(1)), true
		return idempotency.Keep(ctx, tx, r, c.answer, now)
	})
}

// Any interleaving of requests with one key, by one process or several, does
// the work once and gives every repetition its answer.
func TestConcurrentRequests_withOneKeyGetOneAnswer(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) {
		db := open(t, databasetest.Open)
		property(t, db, db)
	})
	t.Run("postgres", func(t *testing.T) {
		address := databasetest.NewPostgres(t)
		at := func(t testing.TB) *database.DB { return databasetest.OpenURL(t, address, database.Options{}) }
		property(t, open(t, at), open(t, at))
	})
}

func property(t *testing.T, processes ...*database.DB) {
	var round atomic.Int64
	rapid.Check(t, func(rt *rapid.T) {
		scope := fmt.Sprintf("test/%d", round.Add(1))
		calls := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) *call {
			return &call{
				key: rapid.IntRange(0, 1).Draw(rt, "key"), hash: rapid.IntRange(0, 1).Draw(rt, "hash"),
				refuse: rapid.IntRange(0, 3).Draw(rt, "refuse") == 0, on: rapid.IntRange(0, len(processes)-1).Draw(rt, "on"),
			}
		}), 1, 8).Draw(rt, "calls")
		failures := make([]error, len(calls))
		var group sync.WaitGroup
		for i, c := range calls {
			group.Go(func() { failures[i] = c.do(processes[c.on], scope) })
		}
		group.Wait()
		if err := errors.Join(failures...); err != nil {
			rt.Fatal(err)
		}
		for key := range 2 {
			if err := oneAnswer(slices.DeleteFunc(slices.Clone(calls), func(c *call) bool { return c.key != key })); err != nil {
				rt.Errorf("key %d: %v", key, err)
			}
		}
	})
}

// oneAnswer checks the calls of one key.
func oneAnswer(calls []*call) error {
	var bound *call
	wanted := false
	for _, c := range calls {
		wanted = wanted || !c.refuse
		if c.fresh && bound != nil {
			return errors.New("the work was done twice")
		}
		if c.fresh {
			bound = c
		}
	}
	if (bound != nil) != wanted {
		return fmt.Errorf("bound %t, want %t", bound != nil, wanted)
	}
	for _, c := range calls {
		switch {
		case bound == nil && (c.answer != "" || c.conflict):
			return errors.New("a refused request bound the key")
		case bound == nil:
		case c.answer != "" && (c.answer != bound.answer || c.hash != bound.hash):
			return fmt.Errorf("answer %s, want %s", c.answer, bound.answer)
		case c.conflict && c.hash == bound.hash:
			return errors.New("the same request was in conflict")
		case c.answer == "" && !c.conflict && !c.refuse:
			return errors.New("an accepted request has no answer")
		}
	}
	return nil
}
