package database_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parleykit/parley/internal/database"
	"github.com/parleykit/parley/internal/database/databasetest"
	"github.com/parleykit/parley/internal/networktest"
)

// throughProxy opens a new database through a proxy.
func throughProxy(t *testing.T, opts database.Options) (*database.DB, *networktest.Proxy) {
	t.Helper()
	address := databasetest.NewPostgres(t)
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	proxy := networktest.NewProxy(t, u.Host)
	u.Host = proxy.Addr()
	db := databasetest.OpenURL(t, u.String(), opts)
	if err := db.Migrate(t.Context(), "items", schema); err != nil {
		t.Fatal(err)
	}
	return db, proxy
}

func TestPostgres_aCommitWhoseAnswerIsLostIsToldApart(t *testing.T) {
	db, proxy := throughProxy(t, database.Options{})
	for i, run := range []func(context.Context, database.Func) error{db.Write, db.Tx} {
		proxy.CutAfter("\x0bcommit\x00") // the simple query, length and all
		err := run(t.Context(), insert(i, fmt.Sprint(i)))
		if !errors.Is(err, database.ErrUnknownOutcome) || !errors.Is(err, database.ErrTransient) {
			t.Errorf("the commit was answered %v", err)
		}
	}
	if diff := cmp.Diff([]string{"0", "1"}, stored(t, db)); diff != "" { // and it had indeed happened
		t.Error(diff)
	}
	if n, err := database.Counted(db, "unknown"); err != nil || n != 2 {
		t.Errorf("counted %v, %v", n, err)
	}
}

func TestPostgres_aConnectionLostBeforeTheCommitWroteNothing(t *testing.T) {
	db, proxy := throughProxy(t, database.Options{})
	for name, breakOff := range map[string]func(){"reset": proxy.Reset, "half-close": proxy.HalfClose} {
		for kind, run := range map[string]func(context.Context, database.Func) error{"write": db.Write, "tx": db.Tx} {
			err := run(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
				if err := insert(1, "undone")(ctx, tx); err != nil {
					return err
				}
				breakOff()
				return insert(2, "undone too")(ctx, tx)
			})
			if !errors.Is(err, database.ErrTransient) || errors.Is(err, database.ErrUnknownOutcome) {
				t.Errorf("%s: %s answered %v", name, kind, err)
			}
		}
		err := db.View(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
			breakOff()
			return tx.QueryRowContext(ctx, "SELECT 1").Scan(new(int))
		})
		if !errors.Is(err, database.ErrTransient) {
			t.Errorf("%s: view answered %v", name, err)
		}
	}
	if seen := stored(t, db); len(seen) != 0 {
		t.Errorf("stored %v", seen)
	}
}

// TestPostgres_deadConnectionsInThePoolCostNoJob breaks connections that lie
// idle: the job has not begun when this is noticed.
func TestPostgres_deadConnectionsInThePoolCostNoJob(t *testing.T) {
	db, proxy := throughProxy(t, database.Options{Writers: 4, Readers: 4})
	for round := range 3 {
		for _, err := range batch2(db, round*100) { // fills the pool
			if err != nil {
				t.Fatal(err)
			}
		}
		proxy.Reset()
		if err := db.Write(t.Context(), insert(round, fmt.Sprint(round))); err != nil {
			t.Errorf("write: %v", err)
		}
		if n := len(stored(t, db)); n != (round+1)*9 {
			t.Errorf("%d rows after round %d", n, round)
		}
	}
}

func TestPostgres_aSilentServerGivesATypedError(t *testing.T) {
	db, proxy := throughProxy(t, database.Options{JobTimeout: 300 * time.Millisecond})
	err := db.Write(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
		proxy.Stall(true)
		return insert(1, "stalled")(ctx, tx)
	})
	if !errors.Is(err, database.ErrTransient) || errors.Is(err, database.ErrUnknownOutcome) {
		t.Errorf("within the job: %v", err)
	}
	proxy.Stall(false)
	err = db.Write(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
		defer proxy.Stall(true)
		return insert(2, "committing")(ctx, tx)
	})
	if !errors.Is(err, database.ErrUnknownOutcome) {
		t.Errorf("at the commit: %v", err)
	}
	proxy.Stall(false)
	err = db.View(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
		proxy.Stall(true)
		return tx.QueryRowContext(ctx, "SELECT 1").Scan(new(int))
	})
	if !errors.Is(err, database.ErrTransient) {
		t.Errorf("within a view: %v", err)
	}
	proxy.Stall(false)
	if err := db.Write(t.Context(), insert(3, "afterwards")); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

func TestPostgres_anUnreachableServerIsTransientAndComesBack(t *testing.T) {
	db, proxy := throughProxy(t, database.Options{})
	proxy.Refuse(true)
	proxy.Reset()
	for name, run := range map[string]func(context.Context, database.Func) error{"write": db.Write, "tx": db.Tx, "view": db.View} {
		if err := run(t.Context(), insert(1, "x")); !errors.Is(err, database.ErrTransient) {
			t.Errorf("%s: %v", name, err)
		}
	}
	proxy.Refuse(false)
	if err := db.Write(t.Context(), insert(2, "back")); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

func TestPostgres_connectionsAreDurableAndBounded(t *testing.T) {
	server := databasetest.StartPostgres(t, "synchronous_commit=off")
	db := databasetest.OpenURL(t, server.URL("postgres"), database.Options{BusyTimeout: time.Second, JobTimeout: 2 * time.Second})
	for setting, want := range map[string]string{
		"synchronous_commit": "on", "lock_timeout": "1s", "statement_timeout": "2s",
		"idle_in_transaction_session_timeout": "2s", "transaction_isolation": "serializable",
	} {
		var got string
		err := db.Write(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
			return tx.QueryRowContext(ctx, "SELECT current_setting($1)", setting).Scan(&got)
		})
		if err != nil || got != want {
			t.Errorf("%s is %q, %v; want %q", setting, got, err, want)
		}
	}
}

func TestPostgres_readsThePasswordFromItsFile(t *testing.T) {
	u, err := url.Parse(databasetest.NewPostgres(t))
	if err != nil {
		t.Fatal(err)
	}
	secret, _ := u.User.Password()
	u.User = url.User(u.User.Username())
	path := filepath.Join(t.TempDir(), "password")
	for text, want := range map[string]bool{secret + "\n": true, "wrong-secret": false, "": false, strings.Repeat("x", 2000): false} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		db, err := database.Open(t.Context(), u.String(), database.Options{PasswordFile: path})
		if (err == nil) != want {
			t.Errorf("%.20q: %v", text, err)
		}
		if err == nil {
			defer db.Close()
		} else if text != "" && strings.Contains(err.Error(), text) {
			t.Errorf("the error tells the password: %v", err)
		}
	}
	if _, err := database.Open(t.Context(), u.String(), database.Options{PasswordFile: path + "-missing"}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

func TestOpen_tellsWhyAnAddressIsWrongButNotItsPassword(t *testing.T) {
	for address, want := range map[string]string{
		"postgres://parley@localhost/parley?sslmode=sometimes":           "sslmode",
		"postgres://parley:topsecret@localhost/parley?sslmode=sometimes": "not a valid",
		"postgres://localhost/parley?password=topsecret&sslmode=no":      "not a valid",
		"postgres://parley:topsecret@local host:x/parley":                "not a valid",
	} {
		_, err := database.Open(t.Context(), address, database.Options{})
		if !errors.Is(err, database.ErrUnsupported) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "topsecret") {
			t.Errorf("%s: %v", address, err)
		}
	}
}

func TestPostgres_migratesOnceWhenSeveralProcessesStart(t *testing.T) {
	address := databasetest.NewPostgres(t)
	var wait sync.WaitGroup
	for range 4 {
		db := databasetest.OpenURL(t, address, database.Options{})
		wait.Go(func() {
			if err := db.Migrate(context.Background(), "items", schema); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
}

func TestPostgres_closeWaitsForJobsAndRefusesLaterOnes(t *testing.T) {
	address := databasetest.NewPostgres(t)
	db := databasetest.OpenURL(t, address, database.Options{})
	if err := db.Migrate(t.Context(), "items", schema); err != nil {
		t.Fatal(err)
	}
	started, release := make(chan struct{}), make(chan struct{})
	written, closed := make(chan error, 1), make(chan struct{})
	go func() {
		written <- db.Write(context.Background(), func(ctx context.Context, tx *sql.Tx) error {
			close(started)
			<-release
			return insert(1, "accepted")(ctx, tx)
		})
	}()
	<-started
	go func() {
		defer close(closed)
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	for !errors.Is(db.Write(t.Context(), insert(2, "late")), database.ErrClosed) {
	}
	again := databasetest.OpenURL(t, address, database.Options{}) // takes a while
	select {
	case <-closed:
		t.Error("closed while a job ran")
	default:
	}
	close(release)
	if err := <-written; err != nil {
		t.Fatal(err)
	}
	<-closed
	for name, err := range map[string]error{
		"view": db.View(t.Context(), insert(1, "")), "migrate": db.Migrate(t.Context(), "items", schema),
		"listen": db.Listen(t.Context(), "news", func(database.Notice) {}),
	} {
		if !errors.Is(err, database.ErrClosed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if names := stored(t, again); names[0] != "accepted" {
		t.Errorf("stored %v", names)
	}
}

// TestPostgres_leavesAServerThatTakesNoWrites makes a connection read-only, as
// those are that a failover left behind: one job fails, the next one connects
// anew.
func TestPostgres_leavesAServerThatTakesNoWrites(t *testing.T) {
	db := databasetest.OpenURL(t, databasetest.NewPostgres(t), database.Options{Writers: 1})
	if err := db.Migrate(t.Context(), "items", schema); err != nil {
		t.Fatal(err)
	}
	err := db.Write(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Write(t.Context(), insert(1, "refused")); !errors.Is(err, database.ErrTransient) {
		t.Errorf("read-only: %v", err)
	}
	if err := db.Write(t.Context(), insert(2, "back")); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}
