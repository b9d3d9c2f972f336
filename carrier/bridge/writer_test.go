package bridge_test

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/carrier/bridge"
	"github.com/parleykit/parley/internal/database"
	"github.com/parleykit/parley/internal/database/databasetest"
	"github.com/parleykit/parley/protocol/canonical"
	"github.com/parleykit/parley/protocol/envelope"
)

// wall is a side that takes nothing until it is told to, and writes down every try.
type wall struct {
	sink
	mu    sync.Mutex
	tries []string
	err   error
}

func (w *wall) Write(_ context.Context, item bridge.Item) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tries = append(w.tries, item.ID)
	return w.err
}

func (w *wall) set(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err = err
}

func (w *wall) seen() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.tries)
}

func idOf(t *testing.T, data []byte) string {
	t.Helper()
	ev, err := canonical.DecodeEvent(data)
	if err != nil {
		t.Fatal(err)
	}
	return ev.ID
}

func TestASideThatAsksForARestGetsItForEverybody(t *testing.T) {
	from, to := newPlace(), &wall{err: &carrier.RateLimited{After: time.Hour}}
	br, err := bridge.New(t.Context(), bridge.Options{DB: databasetest.Open(t), Name: "pair", A: from, B: to, Holder: "x", Window: 1})
	if err != nil {
		t.Fatal(err)
	}
	start(t, br)
	for i := range 5 {
		from.put(wrapTo(t, nostr.GeneratePrivateKey(), i))
	}
	eventually(t, "nothing was tried", func() bool { return len(to.seen()) > 0 })
	time.Sleep(200 * time.Millisecond) // others would be tried by now
	if n := len(to.seen()); n != 1 {
		t.Errorf("%d tries in a rest", n)
	}
}

// What fails holds up its recipient alone, and order is kept.
func TestItemsOfARecipientKeepTheirOrder(t *testing.T) {
	from, to := newPlace(), &wall{err: carrier.ErrTransient}
	br, err := bridge.New(t.Context(), bridge.Options{
		DB: databasetest.Open(t), Name: "pair", A: from, B: to, Holder: "x", Retry: carrier.Backoff{Base: time.Millisecond, Cap: 20 * time.Millisecond},
	})
	if err != nil {
		t.Fatal(err)
	}
	start(t, br)
	var want []string
	for i := range 30 {
		data := wrap(t, i)
		want = append(want, idOf(t, data))
		from.put(data)
	}
	eventually(t, "the first was not tried again", func() bool { return len(to.seen()) > 3 })
	to.set(nil)
	eventually(t, "not all came", func() bool { tries := to.seen(); return tries[len(tries)-1] == want[len(want)-1] })
	if got := slices.Compact(to.seen()); !slices.Equal(got, want) {
		t.Errorf("written in the order %v, want %v", got, want)
	}
}

// clock is a time that a test sets.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// An event without an expiry has 32 days from when it came, not from each try.
func TestWhatWaitsExpires(t *testing.T) {
	from, to, c := newPlace(), &wall{err: carrier.ErrTransient}, &clock{at: time.Now()}
	db := databasetest.Open(t)
	br, err := bridge.New(t.Context(), bridge.Options{
		DB: db, Name: "pair", A: from, B: to, Holder: "x", Now: c.now, Retry: carrier.Backoff{Base: time.Millisecond, Cap: 20 * time.Millisecond},
	})
	if err != nil {
		t.Fatal(err)
	}
	start(t, br)
	from.put(sign(t, nostr.Event{Kind: envelope.KindWrap, Tags: nostr.Tags{{"p", recipient}, {"expiration", "1000"}}}), wrap(t, 1))
	eventually(t, "it was not tried again", func() bool { return len(to.seen()) > 2 })
	c.add(33 * 24 * time.Hour)
	eventually(t, "it did not expire", func() bool { return rows(t, db, "state = 'dead' AND reason = 'expired'") == 1 })
	if n := rows(t, db, "state <> ''"); n != 1 {
		t.Errorf("%d rows: what comes expired has none", n)
	}
}

// What was erased is not written, and its bytes are gone.
func TestWhatWasErasedIsNotWritten(t *testing.T) {
	from, to := newPlace(), &wall{err: carrier.ErrTransient}
	db := databasetest.Open(t)
	br, err := bridge.New(t.Context(), bridge.Options{
		DB: db, Name: "pair", A: from, B: to, Holder: "x", Retry: carrier.Backoff{Base: time.Millisecond, Cap: 20 * time.Millisecond},
	})
	if err != nil {
		t.Fatal(err)
	}
	start(t, br)
	from.put(wrap(t, 1))
	eventually(t, "it was not tried", func() bool { return len(to.seen()) > 0 })
	table := bridge.Retention()[0]
	err = db.Write(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "UPDATE bridge_items SET "+table.Blank+" WHERE "+table.Person, recipient)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if n := rows(t, db, "lane <> '' OR length(event) > 0 OR state = 'queued'"); n != 0 {
		t.Errorf("%d rows still say something of an erased person", n)
	}
	next := wrapTo(t, nostr.GeneratePrivateKey(), 2)
	to.set(nil)
	from.put(next)
	eventually(t, "the next did not come", func() bool { tries := to.seen(); return tries[len(tries)-1] == idOf(t, next) })
	before := len(to.seen())
	time.Sleep(200 * time.Millisecond) // a try of what was erased would come by now
	if n := len(to.seen()); n != before {
		t.Errorf("%d tries after the erasure", n-before)
	}
}

// Only the configured kinds, authors and recipients are moved.
func TestOptionsSayWhatIsMoved(t *testing.T) {
	mine, author := nostr.GeneratePrivateKey(), nostr.GeneratePrivateKey()
	public := func(secret string) string { key, _ := nostr.GetPublicKey(secret); return key }
	by := func(secret string, kind int, to string) []byte {
		ev := nostr.Event{Kind: kind, CreatedAt: nostr.Now(), Content: fmt.Sprint(kind), Tags: nostr.Tags{{"p", public(to)}}}
		if err := ev.Sign(secret); err != nil {
			t.Fatal(err)
		}
		data, err := canonical.EncodeEvent(&ev)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	from, to := newPlace(), &wall{}
	br, err := bridge.New(t.Context(), bridge.Options{
		DB: databasetest.Open(t), Name: "pair", A: from, B: to, Holder: "x",
		Kinds: []int{envelope.KindWrap}, Authors: []string{public(author)}, Recipients: []string{public(mine)},
	})
	if err != nil {
		t.Fatal(err)
	}
	start(t, br)
	good := by(author, envelope.KindWrap, mine)
	from.put(cardOf(t, author), by(mine, envelope.KindWrap, mine), by(author, 1, mine), by(author, envelope.KindWrap, author), good)
	eventually(t, "nothing came", func() bool { return len(to.seen()) > 0 })
	if got := to.seen(); !slices.Equal(got, []string{idOf(t, good)}) {
		t.Errorf("%d items moved", len(got))
	}
}

func start(t *testing.T, br *bridge.Bridge) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	group.Go(func() { _ = br.Run(ctx) })
	t.Cleanup(func() { cancel(); group.Wait() })
}

// rows counts rows of bridge_items.
func rows(t *testing.T, db *database.DB, where string) (n int) {
	t.Helper()
	err := db.View(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, "SELECT count(*) FROM bridge_items WHERE "+where).Scan(&n)
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}
