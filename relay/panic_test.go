package relay_test

import (
	"context"
	"errors"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/nbd-wtf/go-nostr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/parleykit/parley/relay"
	"github.com/parleykit/parley/relay/relaytest"
)

// brokenStore fails for events of certain contents and filters of kind 10002.
type brokenStore struct{ relay.Store }

var errDisk = errors.New("disk on fire")

func (s brokenStore) Check(ctx context.Context, rec *relay.Record, quota int) (relay.Outcome, error) {
	switch rec.Event.Content {
	case "panic in check":
		panic("check")
	case "error in check":
		return 0, errDisk
	}
	return s.Store.Check(ctx, rec, quota)
}

func (s brokenStore) Commit(ctx context.Context, batch []*relay.Record, quota int) ([]relay.Outcome, error) {
	for _, rec := range batch {
		switch rec.Event.Content {
		case "panic in commit":
			panic("commit")
		case "error in commit":
			return nil, errDisk
		}
	}
	return s.Store.Commit(ctx, batch, quota)
}

func (s brokenStore) Query(ctx context.Context, f nostr.Filter, now time.Time, scan int) iter.Seq2[*relay.Record, error] {
	switch {
	case f.Limit == 1:
		panic("query")
	case f.Limit == 2:
		return func(yield func(*relay.Record, error) bool) { yield(nil, errDisk) }
	case f.Limit == 3:
		return func(yield func(*relay.Record, error) bool) { yield(nil, relay.ErrTooBroad) }
	}
	return s.Store.Query(ctx, f, now, scan)
}

func startBroken(t *testing.T) (*relaytest.Server, *prometheus.Registry) {
	t.Helper()
	store, err := relay.OpenPebble(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	reg := prometheus.NewRegistry()
	return relaytest.Start(t, relay.Options{Store: brokenStore{store}, Registerer: reg}), reg
}

func TestFailingStoreIsAnsweredAsAnError(t *testing.T) {
	s, reg := startBroken(t)
	c := dial(t, s)
	for _, text := range []string{"panic in check", "error in check", "panic in commit", "error in commit"} {
		ev := newKey(t).note(nostr.Now(), text)
		r := c.publish(ev)
		if r.ok || !strings.HasPrefix(r.text, "error: ") || strings.Contains(r.text, "fire") {
			t.Errorf("%s: got %v, want an error without details", text, r)
		}
		if got := c.stored(nostr.Filter{IDs: []string{ev.ID}}); len(got) != 0 {
			t.Errorf("%s: the event is stored", text)
		}
	}
	for _, limit := range []int{2, 3} {
		if _, end := c.request("q", nostr.Filter{Limit: limit}); end.label != "CLOSED" || !strings.HasPrefix(end.text, "error: ") {
			t.Errorf("limit %d: got %v, want CLOSED error", limit, end)
		}
	}
	c.accept(newKey(t).note(nostr.Now(), "fine"))
	if n := counter(t, reg, "parley_relay_panics_total"); n != 2 {
		t.Errorf("%v panics counted, want 2", n)
	}
	if n := counter(t, reg, "parley_relay_subscriptions"); n != 0 {
		t.Errorf("%v subscriptions open, want none", n)
	}
}

func TestPanicEndsItsConnectionOnly(t *testing.T) {
	s, reg := startBroken(t)
	witness, c := dial(t, s), dial(t, s)
	c.send("REQ", "q", nostr.Filter{Limit: 1})
	if _, err := c.read(); websocket.CloseStatus(err) != websocket.StatusInternalError {
		t.Errorf("connection ended with %v, want an internal error", err)
	}
	witness.accept(newKey(t).note(nostr.Now(), "fine"))
	if n := counter(t, reg, "parley_relay_panics_total"); n != 1 {
		t.Errorf("%v panics counted, want 1", n)
	}
	eventually(t, func() bool { return counter(t, reg, "parley_relay_connections") == 1 })
}
