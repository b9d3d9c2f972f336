package nostr_test

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	gonostr "github.com/nbd-wtf/go-nostr"

	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/carrier/nostr"
	"github.com/parleykit/parley/internal/database"
	"github.com/parleykit/parley/internal/keys"
	"github.com/parleykit/parley/protocol/message"
)

func crashMessage(from, to string, i int) (*message.Message, error) {
	return message.New(message.TypeText, from, to, message.Text{Text: fmt.Sprint(i)}, time.Now(), time.Hour)
}

func newSecret(t *testing.T) string {
	t.Helper()
	return gonostr.GeneratePrivateKey()
}

func parseKey(t *testing.T, secret string) *keys.Nostr {
	t.Helper()
	key, err := keys.ParseNostr(secret)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// child is a running agent process.
type child struct {
	cmd   *exec.Cmd
	lines chan string
}

func startChild(t *testing.T, role, folder, secret, url, peerSecret string) *child {
	t.Helper()
	c := &child{cmd: exec.Command(os.Args[0]), lines: make(chan string, 100_000)}
	c.cmd.Env = append(os.Environ(), crashEnv+"="+strings.Join([]string{role, folder, secret, url, parseKey(t, peerSecret).PublicKey()}, " "))
	c.cmd.Stderr = os.Stderr
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(c.lines)
		for scanner := bufio.NewScanner(out); scanner.Scan(); {
			c.lines <- scanner.Text()
		}
	}()
	t.Cleanup(func() { c.kill(t) })
	if line := c.next(t); line != "ready" && !strings.HasPrefix(line, "sent ") {
		t.Fatalf("%s says %q", role, line)
	} else if id, ok := strings.CutPrefix(line, "sent "); ok {
		c.lines <- "sent " + id
	}
	return c
}

func (c *child) next(t *testing.T) string {
	t.Helper()
	select {
	case line, open := <-c.lines:
		if !open {
			t.Fatal("the agent process ended by itself")
		}
		return line
	case <-time.After(patience):
		t.Fatal("the agent process says nothing")
	}
	return ""
}

func (c *child) nextSent(t *testing.T) string {
	t.Helper()
	for {
		if id, ok := strings.CutPrefix(c.next(t), "sent "); ok {
			return id
		}
	}
}

// kill ends the process with SIGKILL and returns the ids it reported and
// nobody has read.
func (c *child) kill(t *testing.T) map[string]bool {
	t.Helper()
	if c.cmd.ProcessState != nil {
		return nil
	}
	if err := c.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	rest := make(map[string]bool)
	for line := range c.lines {
		if id, ok := strings.CutPrefix(line, "sent "); ok {
			rest[id] = true
		}
	}
	_ = c.cmd.Wait()
	return rest
}

// finish runs both agents in this process until all is acknowledged and
// processed, and returns how often each message was.
func finish(t *testing.T, folder, sender, receiver, url string) map[string]int {
	t.Helper()
	in, db := reopen(t, folder, "receiver", receiver, sender, url)
	out, _ := reopen(t, folder, "sender", sender, receiver, url)
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

func reopen(t *testing.T, folder, role, secret, peerSecret, url string) (*carrier.Engine, *database.DB) {
	t.Helper()
	key := parseKey(t, secret)
	db, err := database.Open(t.Context(), "sqlite:"+filepath.Join(folder, role+".db"), database.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	e, err := carrier.New(t.Context(), crashOptions(db, key, newCarrier(t, key, url), url))
	if err != nil {
		t.Fatal(err)
	}
	if err := e.AddContact(t.Context(), carrier.Contact{PubKey: parseKey(t, peerSecret).PublicKey()}); err != nil {
		t.Fatal(err)
	}
	return e, db
}

func crashOptions(db *database.DB, key *keys.Nostr, c *nostr.Carrier, url string) carrier.Options {
	return carrier.Options{
		DB: db, Keyer: key, Carriers: []carrier.Carrier{c}, Handle: crashHandle,
		Resolve: func(context.Context, string) ([]carrier.Address, error) {
			return []carrier.Address{{Scheme: nostr.Scheme, Address: url}}, nil
		},
		Retry:  carrier.Backoff{Base: 20 * time.Millisecond, Cap: 100 * time.Millisecond},
		Resend: carrier.Backoff{Base: 200 * time.Millisecond, Cap: time.Second},
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
