package relay_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/parleykit/parley/internal/crashtest"
	"github.com/parleykit/parley/internal/database/databasetest"
	"github.com/parleykit/parley/relay"
	"github.com/parleykit/parley/relay/relaytest"
)

// openStore opens the store at an address of the test's own: a folder for
// Pebble, or a PostgreSQL.
func openStore(t *testing.T, address string) relay.Store {
	t.Helper()
	open := func() (relay.Store, error) { return relay.OpenPebble(address, nil) }
	if strings.HasPrefix(address, "postgres:") {
		open = func() (relay.Store, error) {
			return relay.OpenPostgres(context.Background(), address, relay.PostgresOptions{})
		}
	}
	store, err := open()
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// TestCrashChild is the relay that TestAnsweredEventsSurviveSIGKILL kills.
func TestCrashChild(t *testing.T) {
	parent := crashtest.Begin(t)
	server := relaytest.Start(t, relay.Options{Store: openStore(t, parent.Args[0])})
	parent.Say("%s", server.URL)
	parent.Wait()
}

// Each point kills the relay after a seeded number of answers and starts the
// next one on what it left. Publishers repeat there what they sent before.
func TestAnsweredEventsSurviveSIGKILL(t *testing.T) {
	t.Run("pebble", func(t *testing.T) { killRelays(t, t.TempDir()) })
	t.Run("postgres", func(t *testing.T) { killRelays(t, databasetest.NewPostgres(t)) })
}

func killRelays(t *testing.T, address string) {
	drill := crashtest.NewDrill(t)
	publishers := make([]*publisher, 4)
	for i := range publishers {
		publishers[i] = &publisher{t: t, key: newKey(t), from: nostr.Now() - 86400}
	}
	for range drill.Points {
		child := crashtest.Start(t, "TestCrashChild", address)
		answers := drill.Answers(60)
		var all sync.WaitGroup
		url := child.Next(t)
		for _, p := range publishers {
			c := dialURL(t, url)
			all.Go(func() { p.publish(c, answers) })
		}
		child.KillAfter(t, answers)
		all.Wait()
		if t.Failed() {
			return
		}
	}
	have := storedEvents(t, address)
	answered := 0
	for _, p := range publishers {
		answered += p.check(have)
	}
	for id := range have {
		t.Errorf("event %s is stored, and nobody sent it", id)
	}
	t.Logf("%d points, %d events answered OK, seed %d", drill.Points, answered, drill.Seed)
}

// storedEvents are the events of a store by id, each of which it holds once.
func storedEvents(t *testing.T, address string) map[string]nostr.Event {
	t.Helper()
	store := openStore(t, address)
	defer store.Close()
	have := make(map[string]nostr.Event)
	for rec, err := range store.Query(t.Context(), nostr.Filter{}, time.Now(), 1<<20) {
		if err != nil {
			t.Fatal(err)
		}
		if _, twice := have[rec.Event.ID]; twice {
			t.Errorf("event %s is stored twice", rec.Event.ID)
		}
		have[rec.Event.ID] = *rec.Event
	}
	return have
}

// publication is an event that was sent.
type publication struct {
	event    nostr.Event
	answered bool
	deletion *publication // of this event; nil when none was sent
}

// gone tells what is known of a deletion.
func (p *publication) gone() (perhaps, surely bool) {
	return p.deletion != nil, p.deletion != nil && p.deletion.answered
}

// publisher sends wraps, versions of its card, and profiles that it deletes.
type publisher struct {
	t    *testing.T
	key  *key
	from nostr.Timestamp // of the first card
	sent []*publication
	seen int // so many were sent, and answered if at all, in earlier lives
}

// publish repeats what was sent in the last life and goes on with new events
// until the relay dies.
func (p *publisher) publish(c *client, answers *crashtest.Countdown) {
	again := p.sent[p.seen:]
	p.seen = len(p.sent)
	for _, pub := range again {
		r, alive := p.send(c, pub)
		if !alive {
			p.seen -= len(again) // the next life repeats them as well
			return
		}
		perhaps, surely := pub.gone()
		refused := perhaps && strings.HasPrefix(r.text, "blocked: ")
		switch {
		case !r.ok && !refused, r.ok && surely:
			p.t.Errorf("repeated after the restart: %v (deleted: %v)", r, surely)
		case r.ok && pub.answered && !strings.HasPrefix(r.text, "duplicate: "):
			p.t.Errorf("an event answered before is new after the restart: %v", r)
		}
		pub.answered = true
	}
	for {
		pub := p.next()
		p.sent = append(p.sent, pub)
		r, alive := p.send(c, pub)
		if !alive {
			return
		}
		if !r.ok {
			p.t.Errorf("event of kind %d: %v", pub.event.Kind, r)
		}
		pub.answered = true
		answers.Answer()
	}
}

func (p *publisher) send(c *client, pub *publication) (r reply, alive bool) {
	if c.write(`["EVENT",`+pub.event.String()+`]`) != nil {
		return reply{}, false
	}
	r, err := c.read()
	if err == nil && (r.label != "OK" || r.id != pub.event.ID) {
		p.t.Errorf("answer to EVENT %s is %v", pub.event.ID, r)
	}
	return r, err == nil
}

// next is a new event, or the deletion of the one before it.
func (p *publisher) next() *publication {
	n := len(p.sent)
	switch n % 6 {
	case 3:
		return &publication{event: p.key.card("default", p.from+nostr.Timestamp(n))}
	case 4:
		return &publication{event: p.key.event(0, p.from+nostr.Timestamp(n), fmt.Sprint(n), nil)}
	case 5:
		last := p.sent[n-1]
		last.deletion = &publication{event: p.key.deletion(p.from+nostr.Timestamp(n), nostr.Tag{"e", last.event.ID})}
		return last.deletion
	}
	return &publication{event: wrap(p.t, p.key.pub)}
}

// check compares what is stored with what was answered, takes it out of have
// and returns how many events were answered.
func (p *publisher) check(have map[string]nostr.Event) (answered int) {
	newer := false // a newer version of the card is stored
	for i := len(p.sent) - 1; i >= 0; i-- {
		pub := p.sent[i]
		event, stored := have[pub.event.ID]
		delete(have, pub.event.ID)
		if pub.answered {
			answered++
		}
		perhaps, surely := pub.gone()
		card := pub.event.Kind == 30417
		switch {
		case stored && event.String() != pub.event.String():
			p.t.Errorf("event %s is stored with other bytes", pub.event.ID)
		case stored && (surely || card && newer):
			p.t.Errorf("event %s of kind %d was deleted or replaced, and is stored", pub.event.ID, pub.event.Kind)
		case !stored && pub.answered && !perhaps && !(card && newer):
			p.t.Errorf("event %s of kind %d was answered OK and is gone", pub.event.ID, pub.event.Kind)
		}
		newer = newer || card && stored
	}
	return answered
}
