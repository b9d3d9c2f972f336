package bridge_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/parleykit/parley/relay/relaytest"

	"github.com/nbd-wtf/go-nostr"

	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/carrier/bridge"
	"github.com/parleykit/parley/internal/database"
	"github.com/parleykit/parley/internal/database/databasetest"
	"github.com/parleykit/parley/protocol/canonical"
	"github.com/parleykit/parley/protocol/card"
	"github.com/parleykit/parley/protocol/envelope"
)

// place is a side in memory: what is written comes to all who read.
type place struct {
	mu     sync.Mutex
	events [][]byte
	writes map[string]int
	refuse error
}

func newPlace() *place { return &place{writes: make(map[string]int)} }

func (p *place) Name() string { return "place" }

func (p *place) Read(ctx context.Context, from carrier.Cursor, handle func(context.Context, []byte, carrier.Cursor) error) error {
	at, _ := strconv.Atoi(string(from))
	for ctx.Err() == nil {
		p.mu.Lock()
		var next []byte
		if at < len(p.events) {
			next = p.events[at]
		}
		p.mu.Unlock()
		if next == nil {
			time.Sleep(5 * time.Millisecond)
			continue
		}
		at++
		if err := handle(ctx, next, carrier.Cursor(strconv.Itoa(at))); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (p *place) Write(_ context.Context, item bridge.Item) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refuse != nil {
		return p.refuse
	}
	p.writes[item.ID]++
	p.events = append(p.events, item.Event)
	return nil
}

func (p *place) put(data ...[]byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.events = append(p.events, data...)
}

func (p *place) counts() (ids, most int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, n := range p.writes {
		most = max(most, n)
	}
	return len(p.writes), most
}

func sign(t testing.TB, ev nostr.Event) []byte {
	t.Helper()
	if err := ev.Sign(nostr.GeneratePrivateKey()); err != nil {
		t.Fatal(err)
	}
	data, err := canonical.EncodeEvent(&ev)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

var recipient = func() string {
	key, _ := nostr.GetPublicKey(nostr.GeneratePrivateKey())
	return key
}()

func wrap(t testing.TB, n int) []byte {
	return sign(t, nostr.Event{Kind: envelope.KindWrap, CreatedAt: nostr.Now(), Content: fmt.Sprint(n), Tags: nostr.Tags{{"p", recipient}}})
}

func run(t testing.TB, db *database.DB, name, holder string, a, b bridge.Side) (stop func()) {
	t.Helper()
	br, err := bridge.New(t.Context(), bridge.Options{DB: db, Name: name, A: a, B: b, Holder: holder})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	group.Go(func() { _ = br.Run(ctx) })
	stop = func() { cancel(); group.Wait() }
	t.Cleanup(stop)
	return stop
}

func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(what)
		}
	}
}

func TestRing_movesEachItemOnceABridge(t *testing.T) {
	db := databasetest.Open(t)
	p := []*place{newPlace(), newPlace(), newPlace()}
	for i := range p {
		run(t, db, fmt.Sprint("pair", i), "x", p[i], p[(i+1)%3])
	}
	const items = 20
	for i := range items {
		p[0].put(wrap(t, i))
	}
	reached := func() bool {
		a, _ := p[1].counts()
		b, _ := p[2].counts()
		return a == items && b == items
	}
	eventually(t, "not everything arrived", reached)
	for last, quiet := 0, 0; quiet < 50; time.Sleep(10 * time.Millisecond) { // until nothing moves
		total := 0
		for _, one := range p {
			one.mu.Lock()
			total += len(one.events)
			one.mu.Unlock()
		}
		if quiet++; total != last {
			last, quiet = total, 0
		}
	}
	for i, one := range p {
		if _, most := one.counts(); most > 2 { // two bridges write to each place
			t.Errorf("place %d was given one item %d times", i, most)
		}
	}
}

func TestHostileItemsAreNotMoved(t *testing.T) {
	a, b := newPlace(), newPlace()
	run(t, databasetest.Open(t), "pair", "x", a, b)
	good := wrap(t, 1)
	forged := bytes.Replace(wrap(t, 2), []byte(`"content":"2"`), []byte(`"content":"3"`), 1)
	expired := sign(t, nostr.Event{Kind: envelope.KindWrap, Tags: nostr.Tags{{"p", recipient}, {"expiration", "1000"}}})
	a.put(forged, expired, []byte("{"), bytes.Repeat([]byte("x"), bridge.MaxEvent+1), sign(t, nostr.Event{Kind: 1}), []byte("PF\x01"), good)
	eventually(t, "the good one did not come", func() bool { n, _ := b.counts(); return n > 0 })
	if n, _ := b.counts(); n != 1 {
		t.Errorf("%d items moved", n)
	}
}

func TestOlderCardIsNotMoved(t *testing.T) {
	a, b := newPlace(), newPlace()
	run(t, databasetest.Open(t), "pair", "x", a, b)
	key := nostr.GeneratePrivateKey()
	now := time.Now()
	version := func(age time.Duration) []byte {
		public, _ := nostr.GetPublicKey(key)
		c := card.Card{PubKey: public, Name: "agent", Alt: "a card", Expires: now.Add(time.Hour).Truncate(time.Second)}
		ev, err := c.Event(now.Add(-age))
		if err != nil {
			t.Fatal(err)
		}
		if err := ev.Sign(key); err != nil {
			t.Fatal(err)
		}
		data, _ := canonical.EncodeEvent(&ev)
		return data
	}
	a.put(version(2 * time.Minute))
	eventually(t, "the first did not come", func() bool { n, _ := b.counts(); return n == 1 })
	a.put(version(3*time.Minute), version(time.Minute))
	eventually(t, "the newest did not come", func() bool { n, _ := b.counts(); return n >= 2 })
	if n, _ := b.counts(); n != 2 {
		t.Errorf("%d versions moved", n)
	}
}

func TestTwoProcessesOnOnePairDeliverOnce(t *testing.T) {
	address := databasetest.NewPostgres(t)
	a, b := newPlace(), newPlace()
	stop := run(t, databasetest.OpenURL(t, address, database.Options{}), "pair", "one", a, b)
	run(t, databasetest.OpenURL(t, address, database.Options{}), "pair", "two", a, b)
	for i := range 20 {
		a.put(wrap(t, i))
	}
	a.put(cardOf(t, nostr.GeneratePrivateKey()))
	eventually(t, "the first batch did not come", func() bool { n, _ := b.counts(); return n == 21 })
	stop()
	a.put(wrap(t, 20))
	eventually(t, "the other did not take over", func() bool { n, _ := b.counts(); return n == 22 })
	if _, most := b.counts(); most != 1 {
		t.Errorf("one item was written %d times", most)
	}
}

func FuzzParseItem(f *testing.F) {
	f.Add(wrap(f, 1))
	f.Add([]byte(`{"tags":[["p"],["expiration","-1"]]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		item, _, err := bridge.ParseItem(data, time.Now())
		if err != nil {
			return
		}
		if again, _, err := bridge.ParseItem(item.Event, time.Now()); err != nil || again.ID != item.ID {
			t.Errorf("what was taken is refused: %v", err)
		}
	})
}

// wrapTo is a wrap for the key of a secret.
func wrapTo(t testing.TB, secret string, n int) []byte {
	t.Helper()
	public, err := nostr.GetPublicKey(secret)
	if err != nil {
		t.Fatal(err)
	}
	return sign(t, nostr.Event{
		Kind: envelope.KindWrap, CreatedAt: nostr.Now(), Content: strconv.Itoa(n),
		Tags: nostr.Tags{{"p", public}, {"expiration", strconv.FormatInt(time.Now().Add(time.Hour).Unix(), 10)}},
	})
}

func decode(t testing.TB, data []byte) *nostr.Event {
	t.Helper()
	ev, err := canonical.DecodeEvent(data)
	if err != nil {
		t.Fatal(err)
	}
	return ev
}

// readAs lists the wraps of a key that a crossing may read.
func readAs(t *testing.T, c *crossing, s *relaytest.Server, public string) ([]*nostr.Event, error) {
	t.Helper()
	return c.client.Query(t.Context(), s.URL, nostr.Filter{Kinds: []int{envelope.KindWrap}, Tags: nostr.TagMap{"p": {public}}})
}

// stored reports whether an event is on a relay.
func stored(t *testing.T, c *crossing, s *relaytest.Server, data []byte) bool {
	t.Helper()
	ev := decode(t, data)
	events, err := readAs(t, c, s, ev.Tags.Find("p")[1])
	return err == nil && slices.ContainsFunc(events, func(one *nostr.Event) bool { return one.ID == ev.ID })
}

// counted counts what is written to a side.
type counted struct {
	bridge.Side
	mu  sync.Mutex
	ids map[string]int
}

func (c *counted) Write(ctx context.Context, item bridge.Item) error {
	c.mu.Lock()
	c.ids[item.ID]++
	c.mu.Unlock()
	return c.Side.Write(ctx, item)
}

func (c *counted) counts() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.ids)
}
