package mirror_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"

	carriernostr "github.com/parleykit/parley/carrier/nostr"
	"github.com/parleykit/parley/internal/egress"
	"github.com/parleykit/parley/internal/keys"
	"github.com/parleykit/parley/protocol/canonical"
	"github.com/parleykit/parley/protocol/card"
	"github.com/parleykit/parley/relay"
	"github.com/parleykit/parley/relay/mirror"
	"github.com/parleykit/parley/relay/relaytest"
)

// author signs the events of a test.
type author struct {
	t   testing.TB
	key *keys.Nostr
}

func newAuthor(t testing.TB) author {
	t.Helper()
	key, err := keys.GenerateNostr()
	if err != nil {
		t.Fatal(err)
	}
	return author{t, key}
}

// sign makes an event of the author.
func (a author) sign(ev nostr.Event) *nostr.Event {
	a.t.Helper()
	if err := a.key.Sign(&ev); err != nil {
		a.t.Fatal(err)
	}
	return &ev
}

// card is a valid card of the given name, made some time ago.
func (a author) card(name string, ago time.Duration) *nostr.Event {
	a.t.Helper()
	at := time.Now().Add(-ago)
	c := card.Card{PubKey: a.key.PublicKey(), Name: name, Alt: "Card " + name, Expires: at.Add(90 * 24 * time.Hour)}
	ev, err := c.Event(at)
	if err != nil {
		a.t.Fatal(err)
	}
	return a.sign(ev)
}

// cards are n cards of different names, a second apart.
func (a author) cards(prefix string, n int) []*nostr.Event {
	all := make([]*nostr.Event, n)
	for i := range all {
		all[i] = a.card(fmt.Sprintf("%s-%d", prefix, i), time.Duration(i)*time.Second)
	}
	return all
}

// wrap is a gift wrap, which is never moved over the wire.
func (a author) wrap() *nostr.Event {
	return a.sign(nostr.Event{
		Kind: 1059, CreatedAt: nostr.Now(), Content: "sealed",
		Tags: nostr.Tags{{"p", a.key.PublicKey()}, {"expiration", fmt.Sprint(nostr.Now() + 3600)}},
	})
}

// jsonLines is the file of some events.
func jsonLines(t testing.TB, events ...*nostr.Event) []byte {
	t.Helper()
	var file bytes.Buffer
	for _, ev := range events {
		data, err := canonical.EncodeEvent(ev)
		if err != nil {
			t.Fatal(err)
		}
		file.Write(append(data, '\n'))
	}
	return file.Bytes()
}

func newStore(t testing.TB) relay.Store {
	t.Helper()
	store, err := relay.OpenPebble(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return store
}

// stored are the ids in a store, sorted.
func stored(t testing.TB, store relay.Store) (ids []string) {
	t.Helper()
	for ev, err := range relay.Export(t.Context(), store, nostr.Filter{}, time.Now()) {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, ev.ID)
	}
	slices.Sort(ids)
	return ids
}

func idsOf(events ...*nostr.Event) (ids []string) {
	for _, ev := range events {
		ids = append(ids, ev.ID)
	}
	slices.Sort(ids)
	return ids
}

func newClient(t testing.TB) *carriernostr.Client {
	t.Helper()
	client, err := carriernostr.NewClient(carriernostr.ClientOptions{Dialer: egress.New(egress.Options{AllowLoopback: true})})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// served is a relay with its store, which the test may read.
type served struct {
	*mirror.Wire
	store  relay.Store
	server *relaytest.Server
}

// serve starts a relay that holds events.
func serve(t testing.TB, o relay.Options, events ...*nostr.Event) *served {
	t.Helper()
	store := newStore(t)
	fill(t, store, events...)
	return serveWith(t, o, store)
}

// serveStore starts a relay on a store that there is.
func serveStore(t testing.TB, store relay.Store) *served { return serveWith(t, relay.Options{}, store) }

func serveWith(t testing.TB, o relay.Options, store relay.Store) *served {
	t.Helper()
	o.Store = keptOpen{store}
	server := relaytest.Start(t, o)
	return &served{&mirror.Wire{Client: newClient(t), URL: server.URL}, store, server}
}

// keptOpen is a store that its relay does not close.
type keptOpen struct{ relay.Store }

func (keptOpen) Close() error { return nil }

func fill(t testing.TB, store relay.Store, events ...*nostr.Event) {
	t.Helper()
	sum := importInto(t, &relay.Importer{Store: store}, jsonLines(t, events...))
	if sum.Accepted != int64(len(events)) {
		t.Fatalf("filling: %+v", sum)
	}
}

func importInto(t testing.TB, target mirror.Target, file []byte) mirror.Summary {
	t.Helper()
	sum, err := mirror.Import(t.Context(), mirror.ImportOptions{Input: bytes.NewReader(file), Target: target})
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

// within polls until a condition holds.
func within(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for range 1500 {
		if holds() {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatalf("it did not come to this: %s", what)
}
