package relay_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/nbd-wtf/go-nostr"

	"github.com/parleykit/parley/internal/database/databasetest"
	"github.com/parleykit/parley/relay"
	"github.com/parleykit/parley/relay/relaytest"
)

// startShared starts a relay on a database that others may share.
func startShared(t *testing.T, address string) *relaytest.Server {
	t.Helper()
	store, err := relay.OpenPostgres(t.Context(), address, relay.PostgresOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return relaytest.Start(t, relay.Options{Store: store})
}

// receive demands the next message to be this event of the subscription.
func (c *client) receive(subscription string, ev nostr.Event) {
	c.t.Helper()
	if r := c.next(); r.label != "EVENT" || r.id != subscription || r.event.ID != ev.ID {
		c.t.Fatalf("got %v, want event %s", r, ev.ID)
	}
}

func TestSubscriberReceivesWhatAnotherProcessStored(t *testing.T) {
	address := databasetest.NewPostgres(t)
	reader, writer := dial(t, startShared(t, address)), dial(t, startShared(t, address))
	k := newKey(t)
	before := k.note(nostr.Now()-9, "before")
	writer.accept(before)
	reader.send("REQ", "live", nostr.Filter{Authors: []string{k.pub}})
	reader.receive("live", before)
	if r := reader.next(); r.label != "EOSE" {
		t.Fatalf("got %v, want EOSE", r)
	}
	for i := range 30 { // from both sides, each once
		ev := k.card(fmt.Sprint(i), nostr.Now()-8)
		if i%3 == 0 {
			reader.send("EVENT", ev)
			for range 2 { // the answer and the event, in either order
				if r := reader.next(); r.label != "OK" && (r.label != "EVENT" || r.event.ID != ev.ID) {
					t.Fatalf("got %v, want the event or its answer", r)
				}
			}
			continue
		}
		writer.accept(ev)
		reader.receive("live", ev)
	}
	reader.silence()
}

func TestSharedStoreDecidesForAllProcesses(t *testing.T) {
	address := databasetest.NewPostgres(t)
	a, b := dial(t, startShared(t, address)), dial(t, startShared(t, address))
	k := newKey(t)
	card := k.card("default", nostr.Now()-5)
	a.accept(card)
	if r := b.publish(card); !r.ok || !strings.HasPrefix(r.text, "duplicate: ") {
		t.Errorf("the same event: %v", r)
	}
	if r := b.publish(k.card("default", nostr.Now()-6)); !r.ok || !strings.HasPrefix(r.text, "duplicate: a newer") {
		t.Errorf("an older version: %v", r)
	}
	b.accept(k.deletion(nostr.Now(), nostr.Tag{"e", card.ID}))
	a.refuse(card, "blocked: the event was deleted")
	if got := a.stored(nostr.Filter{Kinds: []int{30417}}); len(got) != 0 {
		t.Errorf("stored %v, want nothing", ids(got))
	}
}

func TestWrapsOfAnotherProcessReachTheirRecipientOnly(t *testing.T) {
	address := databasetest.NewPostgres(t)
	a, b := startShared(t, address), startShared(t, address)
	k, stranger := newKey(t), newKey(t)
	mine, theirs, nobody, writer := dial(t, a), dial(t, a), dial(t, a), dial(t, b)
	mine.authenticate(k)
	theirs.authenticate(stranger)
	for _, c := range []*client{mine, theirs} {
		c.send("REQ", "box", nostr.Filter{Kinds: []int{1059}})
		c.next() // EOSE
	}
	nobody.send("REQ", "box", nostr.Filter{})
	nobody.next() // EOSE
	w := wrap(t, k.pub)
	writer.accept(w)
	mine.receive("box", w)
	note := stranger.note(nostr.Now(), "after the wrap")
	writer.accept(note)
	nobody.receive("box", note) // the wrap was offered before it
	theirs.silence()
	if diff := cmp.Diff([]string{w.ID}, ids(mine.stored(nostr.Filter{Kinds: []int{1059}}))); diff != "" {
		t.Errorf("stored wraps (-want +got):\n%s", diff)
	}
}

func TestEventsStoredWhileTheListenerIsAwayAreDelivered(t *testing.T) {
	address := databasetest.NewPostgres(t)
	reader, writer := dial(t, startShared(t, address)), dial(t, startShared(t, address))
	k := newKey(t)
	reader.send("REQ", "live", nostr.Filter{Authors: []string{k.pub}})
	reader.next() // EOSE
	admin, err := pgx.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close(context.Background())
	want := map[string]bool{}
	for i := range 20 {
		const listeners = `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
			WHERE application_name = 'parley relay follow' AND datname = current_database()`
		if _, err := admin.Exec(t.Context(), listeners); err != nil {
			t.Fatal(err)
		}
		ev := k.card(fmt.Sprint(i), nostr.Now()-8)
		writer.accept(ev)
		want[ev.ID] = true
	}
	for len(want) > 0 {
		r := reader.next()
		if r.label != "EVENT" || !want[r.event.ID] {
			t.Fatalf("got %v, want one of the %d left, each once", r, len(want))
		}
		delete(want, r.event.ID)
	}
	reader.silence()
}

// assertHolds demands every id from the tables of the database.
func assertHolds(t *testing.T, address string, want []string) {
	t.Helper()
	store, err := relay.OpenPostgres(t.Context(), address, relay.PostgresOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	have := map[string]bool{}
	for rec, err := range store.Query(t.Context(), nostr.Filter{}, time.Unix(0, 0), 1<<20) {
		if err != nil {
			t.Fatal(err)
		}
		have[rec.Event.ID] = true
	}
	for _, id := range want {
		if !have[id] {
			t.Errorf("event %s was answered OK and is gone", id)
		}
	}
}

func TestSubscriptionsOpenedWhileOthersPublishGetEachEventOnce(t *testing.T) {
	const events, subscriptions = 60, 8
	address := databasetest.NewPostgres(t)
	here, there := startShared(t, address), startShared(t, address)
	k := newKey(t)
	var all sync.WaitGroup
	for i, c := range []*client{dial(t, here), dial(t, there)} {
		all.Go(func() {
			for n := range events {
				ev := k.card(fmt.Sprint(i, "-", n), nostr.Now()-5)
				if c.write(`["EVENT",`+ev.String()+`]`) != nil {
					t.Error("the connection was lost")
					return
				}
				if r, err := c.read(); err != nil || !r.ok {
					t.Errorf("got %v, %v, want OK", r, err)
				}
			}
		})
	}
	reader := dial(t, here)
	got := map[string]map[string]int{}
	total := 0
	for len(got) < subscriptions || total < subscriptions*2*events {
		if id := fmt.Sprint("sub", len(got)); len(got) < subscriptions && total >= len(got)*10 {
			got[id] = map[string]int{}
			reader.send("REQ", id, nostr.Filter{Authors: []string{k.pub}})
		}
		r := reader.next()
		if r.label != "EVENT" {
			continue
		}
		if got[r.id][r.event.ID]++; got[r.id][r.event.ID] > 1 {
			t.Fatalf("subscription %s got event %s again", r.id, r.event.ID)
		}
		total++
	}
	all.Wait()
	reader.silence()
}
