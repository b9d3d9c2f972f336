package database_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parleykit/parley/internal/database"
	"github.com/parleykit/parley/internal/database/databasetest"
	"github.com/parleykit/parley/internal/networktest"
)

// news listens on the channel "news" and returns what it hears, once it
// listens.
func news(t *testing.T, db *database.DB) <-chan database.Notice {
	t.Helper()
	heard := make(chan database.Notice, 1000)
	if err := db.Listen(t.Context(), "news", func(n database.Notice) { heard <- n }); err != nil {
		t.Fatal(err)
	}
	if first := <-heard; !first.Resumed {
		t.Fatalf("first heard %+v", first)
	}
	return heard
}

// tell writes a row and notifies of it.
func tell(db *database.DB, channel, payload string, id int) database.Func {
	return func(ctx context.Context, tx *sql.Tx) error {
		return errors.Join(insert(id, payload)(ctx, tx), db.Notify(ctx, tx, channel, payload))
	}
}

func TestNotify_tellsWhatCommittedAndNothingElse(t *testing.T) {
	each(t, func(t *testing.T, db *database.DB) {
		heard := news(t, db)
		refusal := errors.New("refused")
		batch(t, db,
			tell(db, "news", "a", 1),
			func(ctx context.Context, tx *sql.Tx) error {
				return errors.Join(tell(db, "news", "undone", 2)(ctx, tx), refusal)
			},
			tell(db, "other", "elsewhere", 3),
			tell(db, "news", "b with spaces", 4),
		)
		if err := db.Tx(t.Context(), tell(db, "news", strings.Repeat("é", 100), 5)); err != nil {
			t.Fatal(err)
		}
		got := []database.Notice{<-heard, <-heard, <-heard}
		want := []database.Notice{{Payload: "a"}, {Payload: "b with spaces"}, {Payload: strings.Repeat("é", 100)}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

func TestNotify_refusesWhatCannotBeSent(t *testing.T) {
	each(t, func(t *testing.T, db *database.DB) {
		err := db.Write(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
			for channel, payload := range map[string]string{
				"News": "", "": "x", "a b": "x", strings.Repeat("a", 49): "x",
				"long": strings.Repeat("x", 201), "bytes": "\xff", "zero": "\x00",
			} {
				if err := db.Notify(ctx, tx, channel, payload); !errors.Is(err, database.ErrNotice) {
					t.Errorf("%q %.10q: %v", channel, payload, err)
				}
			}
			if err := db.Notify(context.Background(), tx, "news", "x"); !errors.Is(err, database.ErrNoJob) {
				t.Errorf("with another context: %v", err)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := db.Listen(t.Context(), "News", func(database.Notice) {}); !errors.Is(err, database.ErrNotice) {
			t.Errorf("listening: %v", err)
		}
	})
}

func TestListen_tellsASlowListenerThatItMissedSome(t *testing.T) {
	each(t, func(t *testing.T, db *database.DB) {
		entered, release := make(chan database.Notice), make(chan struct{})
		if err := db.Listen(t.Context(), "news", func(n database.Notice) { entered <- n; <-release }); err != nil {
			t.Fatal(err)
		}
		<-entered // Resumed, and now it is slow
		watcher := news(t, db)
		err := db.Write(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
			for i := range 300 {
				if err := db.Notify(ctx, tx, "news", fmt.Sprint(i)); err != nil {
					return err
				}
			}
			return nil
		})
		if err == nil {
			err = db.Write(t.Context(), tell(db, "other", "x", 1))
		}
		if err != nil {
			t.Fatal(err)
		}
		for n := range watcher { // all of them have been handed out
			if n.Payload == "299" || n.Resumed {
				break
			}
		}
		close(release)
		if n := <-entered; !n.Resumed {
			t.Errorf("heard %+v", n)
		}
	})
}

func TestListen_hearsOtherProcesses(t *testing.T) {
	address := databasetest.NewPostgres(t)
	one, two := databasetest.OpenURL(t, address, database.Options{}), databasetest.OpenURL(t, address, database.Options{})
	if err := one.Migrate(t.Context(), "items", schema); err != nil {
		t.Fatal(err)
	}
	heard := news(t, two)
	if err := one.Write(t.Context(), tell(one, "news", "across", 1)); err != nil {
		t.Fatal(err)
	}
	if n := <-heard; n.Payload != "across" {
		t.Errorf("heard %+v", n)
	}
}

// TestListen_saysThatItMayHaveMissedSome breaks the connection in every way,
// tells something meanwhile, and wants Resumed before anything later.
func TestListen_saysThatItMayHaveMissedSome(t *testing.T) {
	address := databasetest.NewPostgres(t)
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	writer := databasetest.OpenURL(t, address, database.Options{})
	if err := writer.Migrate(t.Context(), "items", schema); err != nil {
		t.Fatal(err)
	}
	proxy := networktest.NewProxy(t, u.Host)
	u.Host = proxy.Addr()
	heard := news(t, databasetest.OpenURL(t, u.String(), database.Options{Heartbeat: 200 * time.Millisecond}))
	id := 0
	say := func(payload string) {
		id++
		if err := writer.Write(t.Context(), tell(writer, "news", payload+fmt.Sprint(id), id)); err != nil {
			t.Fatal(err)
		}
	}
	for name, fault := range map[string]func(){
		"reset":      proxy.Reset,
		"half-close": proxy.HalfClose,
		"silence":    func() { proxy.Stall(true); proxy.Reset() },
	} {
		proxy.Refuse(true)
		fault()
		say("missed ")
		proxy.Refuse(false)
		proxy.Stall(false)
		for n := range heard { // what was on its way may still arrive
			if n.Resumed {
				break
			}
		}
		say("later ")
		for n := range heard {
			if n.Payload == fmt.Sprint("later ", id) {
				break
			} else if !n.Resumed {
				t.Errorf("%s: heard %+v", name, n)
			}
		}
	}
}

// TestListen_noticesASilentServer stalls without closing anything: only the
// heartbeat can find out.
func TestListen_noticesASilentServer(t *testing.T) {
	db, proxy := throughProxy(t, database.Options{Heartbeat: 50 * time.Millisecond})
	heard := news(t, db)
	proxy.Stall(true)
	for database.Connected(db) {
		time.Sleep(time.Millisecond)
	}
	proxy.Stall(false)
	if n := <-heard; !n.Resumed {
		t.Errorf("heard %+v", n)
	}
}

func TestListen_endsWithItsContextAndWithTheDatabase(t *testing.T) {
	each(t, func(t *testing.T, db *database.DB) {
		ctx, cancel := context.WithCancel(t.Context())
		for _, ctx := range []context.Context{ctx, t.Context()} {
			if err := db.Listen(ctx, "news", func(database.Notice) {}); err != nil {
				t.Fatal(err)
			}
		}
		cancel()
		database.WaitListeners(db, 1)
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		database.WaitListeners(db, 0)
	})
}
