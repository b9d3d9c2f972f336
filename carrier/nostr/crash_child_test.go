package nostr_test

import (
	"context"
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/carrier/nostr"
	"github.com/parleykit/parley/internal/crashtest"
	"github.com/parleykit/parley/internal/database"
	"github.com/parleykit/parley/internal/database/databasetest"
	"github.com/parleykit/parley/internal/keys"
	"github.com/parleykit/parley/protocol/message"
)

// crashed is an agent whose process is killed: what its next one begins with.
type crashed struct {
	database string // address
	secret   string
	relay    string // URL
	peer     string // public key
}

// start runs it in a process of its own until that is killed.
func (c crashed) start(t *testing.T, role string) *crashtest.Child {
	t.Helper()
	child := crashtest.Start(t, "TestCrashChild", role, c.database, c.secret, c.relay, c.peer)
	child.Next(t) // it is ready
	return child
}

// TestCrashChild runs one agent. A sender says the id of every message that
// Send took; a receiver writes a row for every message in Handle's transaction.
func TestCrashChild(t *testing.T) {
	parent := crashtest.Begin(t)
	args := parent.Args
	e, _ := crashed{database: args[1], secret: args[2], relay: args[3], peer: args[4]}.open(t)
	parent.Say("ready")
	if args[0] == "sender" {
		go crashSend(t, e, args[4], parent)
	}
	if err := e.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
}

func crashSend(t *testing.T, e *carrier.Engine, peer string, parent *crashtest.Parent) {
	for i := 0; ; i++ {
		m, err := message.New(message.TypeText, e.PublicKey(), peer, message.Text{Text: fmt.Sprint(i)}, time.Now(), time.Hour)
		if err == nil {
			err = e.Send(context.Background(), m)
		}
		if err != nil {
			t.Error(err)
			return
		}
		parent.Say("%s", m.ID)
	}
}

// open makes the engine on what is stored.
func (c crashed) open(t *testing.T) (*carrier.Engine, *database.DB) {
	t.Helper()
	key, err := keys.ParseNostr(c.secret)
	if err != nil {
		t.Fatal(err)
	}
	db := databasetest.OpenURL(t, c.database, database.Options{})
	err = db.Write(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS processed (id TEXT NOT NULL)")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	e, err := carrier.New(t.Context(), carrier.Options{
		DB: db, Keyer: key, Carriers: []carrier.Carrier{newCarrier(t, key, c.relay)}, Handle: crashHandle,
		Resolve: func(context.Context, string) ([]carrier.Address, error) {
			return []carrier.Address{{Scheme: nostr.Scheme, Address: c.relay}}, nil
		},
		Retry:  carrier.Backoff{Base: 20 * time.Millisecond, Cap: 100 * time.Millisecond},
		Resend: carrier.Backoff{Base: 200 * time.Millisecond, Cap: time.Second},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.AddContact(t.Context(), carrier.Contact{PubKey: c.peer}); err != nil {
		t.Fatal(err)
	}
	return e, db
}

func crashHandle(ctx context.Context, tx *sql.Tx, in *carrier.Incoming) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO processed (id) VALUES ($1)", in.Message.ID)
	return err
}

// finish runs both agents in this process until all is acknowledged and
// processed, and returns how often each message was.
func finish(t *testing.T, sender, receiver crashed) map[string]int {
	t.Helper()
	in, db := receiver.open(t)
	out, _ := sender.open(t)
	runCtx, stop := context.WithCancel(context.Background())
	done := make(chan struct{}, 2)
	for _, e := range []*carrier.Engine{in, out} {
		go func() { _ = e.Run(runCtx); done <- struct{}{} }()
	}
	defer func() { stop(); <-done; <-done }()
	until(t, out, func() int {
		rows, err := out.Outbox(t.Context(), carrier.OutboxFilter{States: []carrier.State{carrier.StateQueued, carrier.StateSent}})
		if err != nil {
			t.Fatal(err)
		}
		return len(rows)
	})
	until(t, in, func() int {
		rows, err := in.Inbox(t.Context(), carrier.InboxFilter{States: []carrier.State{carrier.StatePending}})
		if err != nil {
			t.Fatal(err)
		}
		return len(rows)
	})
	return processed(t, db)
}

// until waits, change by change, until left is 0.
func until(t *testing.T, e *carrier.Engine, left func() int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 4*patience)
	defer cancel()
	changes := e.Subscribe(ctx)
	for left() > 0 {
		if _, open := <-changes; open {
			continue
		}
		if ctx.Err() != nil {
			t.Fatalf("%d messages are left", left())
		}
		changes = e.Subscribe(ctx) // it fell behind
	}
}

func processed(t *testing.T, db *database.DB) map[string]int {
	t.Helper()
	times := make(map[string]int)
	err := db.View(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
		rows, err := tx.QueryContext(ctx, "SELECT id FROM processed")
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var id string
			if err := rows.Scan(&id); err != nil {
				return err
			}
			times[id]++
		}
		return rows.Err()
	})
	if err != nil {
		t.Fatal(err)
	}
	return times
}
