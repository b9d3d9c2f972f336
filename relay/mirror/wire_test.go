package mirror_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nbd-wtf/go-nostr"

	"github.com/parleykit/parley/internal/networktest"
	"github.com/parleykit/parley/relay"
	"github.com/parleykit/parley/relay/mirror"
)

// readAll gathers what Read yields.
func readAll(t *testing.T, w *mirror.Wire, f nostr.Filter) (ids []string, incomplete int, err error) {
	t.Helper()
	for ev, err := range w.Read(t.Context(), f) {
		if errors.Is(err, mirror.ErrIncomplete) {
			incomplete++
			continue
		}
		if err != nil {
			return ids, incomplete, err
		}
		ids = append(ids, ev.ID)
	}
	slices.Sort(ids)
	return ids, incomplete, nil
}

func TestARelayIsReadPageByPageEachEventOnce(t *testing.T) {
	t.Parallel()
	a := newAuthor(t)
	var events []*nostr.Event
	for i := range 60 { // four in each second, so that pages end inside of one
		events = append(events, a.card(fmt.Sprint("c", i), time.Duration(i/4)*time.Second))
	}
	s := serve(t, relay.Options{Limits: relay.Limits{Results: 10}}, append([]*nostr.Event{a.wrap()}, events...)...)
	got, incomplete, err := readAll(t, s.Wire, nostr.Filter{})
	if err != nil || incomplete != 0 {
		t.Fatalf("%d incomplete, %v", incomplete, err)
	}
	if diff := cmp.Diff(idsOf(events...), got); diff != "" {
		t.Errorf("the wrap stays, each other event comes once:\n%s", diff)
	}
	if got, _, err := readAll(t, s.Wire, nostr.Filter{Limit: 25}); err != nil || len(got) != 25 {
		t.Errorf("with a limit of 25: %d events, %v", len(got), err)
	}
	if _, _, err := readAll(t, s.Wire, nostr.Filter{Kinds: []int{1059, 0}}); !errors.Is(err, mirror.ErrWraps) {
		t.Errorf("asked for wraps: %v", err)
	}
}

func TestMoreEventsOfOneSecondThanAPageAreFoundByNIP77OrToldAsIncomplete(t *testing.T) {
	t.Parallel()
	a := newAuthor(t)
	events := []*nostr.Event{a.card("older", time.Hour)}
	for i := range 12 {
		events = append(events, a.card(fmt.Sprint("c", i), time.Minute))
	}
	s := serve(t, relay.Options{Limits: relay.Limits{Results: 5, Reconciliations: -1}}, events...)
	got, incomplete, err := readAll(t, s.Wire, nostr.Filter{})
	if err != nil || incomplete != 1 || !slices.Contains(got, events[0].ID) {
		t.Errorf("%d events, %d incomplete, %v; want what is older too", len(got), incomplete, err)
	}
	s = serve(t, relay.Options{Limits: relay.Limits{Results: 5}}, events...)
	if got, incomplete, err = readAll(t, s.Wire, nostr.Filter{}); err != nil || incomplete != 0 {
		t.Errorf("with NIP-77: %d incomplete, %v", incomplete, err)
	}
	if diff := cmp.Diff(idsOf(events...), got); diff != "" {
		t.Errorf("with NIP-77 each event comes once:\n%s", diff)
	}
}

// proxied is a relay behind a proxy that breaks connections.
func proxied(t *testing.T, s *served) (*mirror.Wire, *networktest.Proxy) {
	proxy := networktest.NewProxy(t, s.server.URL[len("ws://"):])
	return &mirror.Wire{Client: newClient(t), URL: "ws://" + proxy.Addr()}, proxy
}

func TestSyncBringsWhatTheOtherRelayLacks(t *testing.T) {
	t.Parallel()
	a := newAuthor(t)
	both, left, right := a.cards("both", 20), a.cards("left", 220), a.cards("right", 7)
	from := serve(t, relay.Options{}, append(append([]*nostr.Event{a.wrap()}, both...), left...)...)
	to := serve(t, relay.Options{}, append(slices.Clone(both), right...)...)

	sum, err := mirror.Sync(t.Context(), mirror.SyncOptions{From: from.Wire, To: to.Wire})
	if err != nil || sum.To.Accepted != 220 || sum.To.Read != 220 || sum.From.Read != 0 || !sum.Negentropy {
		t.Fatalf("one way: %+v, %v", sum, err)
	}
	all := slices.Concat(both, left, right)
	if diff := cmp.Diff(idsOf(all...), stored(t, to.store)); diff != "" {
		t.Errorf("TO, without the wrap:\n%s", diff)
	}
	sum, err = mirror.Sync(t.Context(), mirror.SyncOptions{From: from.Wire, To: to.Wire, Both: true})
	if err != nil || sum.To.Read != 0 || sum.From.Accepted != 7 {
		t.Errorf("both ways: %+v, %v", sum, err)
	}
	if n := len(stored(t, from.store)); n != len(all)+1 {
		t.Errorf("FROM holds %d events, want %d", n, len(all)+1)
	}
	if sum, err = mirror.Sync(t.Context(), mirror.SyncOptions{From: from.Wire, To: to.Wire, Both: true}); err != nil || sum.Missing != 0 {
		t.Errorf("equal relays: %+v, %v", sum, err)
	}
	_, err = mirror.Sync(t.Context(), mirror.SyncOptions{From: from.Wire, To: to.Wire, Filter: nostr.Filter{Kinds: []int{1059}}})
	if !errors.Is(err, mirror.ErrWraps) {
		t.Errorf("asked for wraps: %v", err)
	}
}

func TestSyncKeepsToItsFilter(t *testing.T) {
	t.Parallel()
	a, b := newAuthor(t), newAuthor(t)
	mine, others := a.cards("mine", 10), b.cards("others", 10)
	from, to := serve(t, relay.Options{}, slices.Concat(mine, others)...), serve(t, relay.Options{})
	since := mine[6].CreatedAt
	sum, err := mirror.Sync(t.Context(), mirror.SyncOptions{
		From: from.Wire, To: to.Wire, Filter: nostr.Filter{Authors: []string{a.key.PublicKey()}, Since: &since},
	})
	if err != nil || sum.To.Accepted == 0 {
		t.Fatalf("%+v, %v", sum, err)
	}
	var want []*nostr.Event
	for _, ev := range mine {
		if ev.CreatedAt >= since {
			want = append(want, ev)
		}
	}
	if diff := cmp.Diff(idsOf(want...), stored(t, to.store)); diff != "" {
		t.Error(diff)
	}
}

func TestSyncReadsARelayWithoutNegentropyPageByPage(t *testing.T) {
	t.Parallel()
	a := newAuthor(t)
	events := a.cards("x", 60)
	from := serve(t, relay.Options{Limits: relay.Limits{Results: 25, Reconciliations: -1}}, events...)
	to := serve(t, relay.Options{})
	sum, err := mirror.Sync(t.Context(), mirror.SyncOptions{From: from.Wire, To: to.Wire})
	if err != nil || sum.Negentropy || sum.To.Accepted != 60 {
		t.Errorf("%+v, %v", sum, err)
	}
	if diff := cmp.Diff(idsOf(events...), stored(t, to.store)); diff != "" {
		t.Error(diff)
	}
}

func TestSyncThatWasCutOffFindsWhatIsLeft(t *testing.T) {
	t.Parallel()
	a := newAuthor(t)
	events := a.cards("x", 450)
	from, to := serve(t, relay.Options{}, events...), serve(t, relay.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, err := mirror.Sync(ctx, mirror.SyncOptions{From: from.Wire, To: to.Wire, Progress: func(s mirror.SyncSummary) {
		if s.To.Accepted >= 200 {
			cancel()
			to.server.Stop()
		}
	}})
	if err == nil {
		t.Fatal("a sync whose relay was stopped did not fail")
	}
	kept := len(stored(t, to.store))
	if kept < 200 || kept == len(events) {
		t.Fatalf("%d events are stored after the stop", kept)
	}
	again := serveStore(t, to.store)
	sum, err := mirror.Sync(t.Context(), mirror.SyncOptions{From: from.Wire, To: again.Wire})
	if err != nil || sum.To.Accepted != int64(len(events)-kept) || sum.To.Read != sum.To.Accepted {
		t.Errorf("again: %+v, %v, want %d accepted and nothing offered twice", sum, err, len(events)-kept)
	}
	if diff := cmp.Diff(idsOf(events...), stored(t, to.store)); diff != "" {
		t.Error(diff)
	}
}

func TestSyncFollowsAcrossABrokenConnection(t *testing.T) {
	t.Parallel()
	a := newAuthor(t)
	first := a.cards("first", 3)
	from, to := serve(t, relay.Options{}, first...), serve(t, relay.Options{})
	wire, proxy := proxied(t, from)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := mirror.Sync(ctx, mirror.SyncOptions{From: wire, To: to.Wire, Follow: true, Every: 200 * time.Millisecond})
		ended <- err
	}()
	holds := func(events ...*nostr.Event) func() bool {
		return func() bool {
			have := stored(t, to.store)
			return !slices.ContainsFunc(events, func(ev *nostr.Event) bool { return !slices.Contains(have, ev.ID) })
		}
	}
	publish := func(ev *nostr.Event) *nostr.Event {
		if err := from.Client.Publish(t.Context(), from.URL, ev); err != nil {
			t.Fatal(err)
		}
		return ev
	}
	within(t, "the stored events", holds(first...))
	within(t, "a live event", holds(publish(a.card("live", 0))))
	proxy.Reset()
	within(t, "an event after a broken connection", holds(publish(a.card("after", 0))))
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Sync = %v", err)
	}
}
