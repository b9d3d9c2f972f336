package nostr_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/carrier/nostr"
	"github.com/parleykit/parley/internal/egress"
	"github.com/parleykit/parley/relay"
	"github.com/parleykit/parley/relay/relaytest"
)

func TestTwoEnginesTalkOverARelay(t *testing.T) {
	server := relaytest.Start(t, relay.Options{})
	var b book
	alice, bob := newAgent(t, &b, server.URL).start(), newAgent(t, &b, server.URL).start()
	alice.knows(bob)
	bob.knows(alice)
	there := alice.text(bob, "hello")
	bob.wantHandled(there)
	alice.wantState(there, carrier.StateAcked)
	back := bob.text(alice, "hello yourself")
	alice.wantHandled(back)
	bob.wantState(back, carrier.StateAcked)
}

func TestTwoRelaysDeliverOneMessageOnce(t *testing.T) {
	one, two := relaytest.Start(t, relay.Options{}), relaytest.Start(t, relay.Options{})
	var b book
	alice, bob := newAgent(t, &b, one.URL, two.URL).start(), newAgent(t, &b, one.URL, two.URL).start()
	alice.knows(bob)
	bob.knows(alice)
	for i := range 10 {
		m := alice.text(bob, fmt.Sprint(i))
		bob.wantHandled(m)
		alice.wantState(m, carrier.StateAcked)
	}
	select {
	case m := <-bob.handled:
		t.Errorf("message %s was handled again", m.ID)
	default:
	}
	if rows, err := bob.Inbox(t.Context(), carrier.InboxFilter{}); err != nil || len(rows) != 10 {
		t.Errorf("%d inbox rows, want 10 (%v)", len(rows), err)
	}
}

func TestMessagesWaitForARelayThatIsDown(t *testing.T) {
	p := newProxy(t)
	url := "ws://" + p.address
	var b book
	alice, bob := newAgent(t, &b, url).start(), newAgent(t, &b, url).start()
	alice.knows(bob)
	bob.knows(alice)
	m := alice.text(bob, "hello")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for changes := alice.Subscribe(ctx); ; { // until it was tried in vain
		rows, err := alice.Outbox(t.Context(), carrier.OutboxFilter{MessageID: m.ID})
		if err != nil {
			t.Fatal(err)
		}
		if rows[0].State == carrier.StateQueued && len(rows[0].Deliveries) == 1 && rows[0].Deliveries[0].Attempts > 0 {
			break
		}
		if _, open := <-changes; !open {
			t.Fatalf("no attempt was noted: %+v", rows[0])
		}
	}
	p.point(relaytest.Start(t, relay.Options{Origin: "http://" + p.address}).URL)
	bob.wantHandled(m)
	alice.wantState(m, carrier.StateAcked)
}

func TestConnectionsThatAreCutLoseNothing(t *testing.T) {
	p := newProxy(t)
	server := relaytest.Start(t, relay.Options{Origin: "http://" + p.address})
	p.point(server.URL)
	url := "ws://" + p.address
	var b book
	alice, bob := newAgent(t, &b, url).start(), newAgent(t, &b, url).start()
	alice.knows(bob)
	bob.knows(alice)
	want := make(map[string]bool)
	for i := range 20 {
		if i%5 == 4 {
			p.point(server.URL) // cuts
		}
		want[alice.text(bob, fmt.Sprint(i)).ID] = true
	}
	for len(want) > 0 {
		select {
		case m := <-bob.handled:
			if !want[m.ID] {
				t.Fatalf("message %s came twice", m.ID)
			}
			delete(want, m.ID)
		case <-time.After(patience):
			t.Fatalf("%d messages are missing", len(want))
		}
	}
}

func TestStrangersWrapIsStoredAndNeverAcked(t *testing.T) {
	server := relaytest.Start(t, relay.Options{})
	var b book
	alice, bob := newAgent(t, &b, server.URL).start(), newAgent(t, &b, server.URL)
	m := alice.text(bob, "hello")
	alice.wantState(m, carrier.StateSent)
	if err := bob.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	if requests, err := bob.Requests(t.Context()); err != nil || len(requests) != 1 {
		t.Fatalf("Requests = %+v, %v", requests, err)
	}
	wraps, err := newClient(t, alice.key).Query(t.Context(), server.URL, wrapsFor(alice.PublicKey()))
	if err != nil || len(wraps) != 0 {
		t.Errorf("%d wraps for the stranger on the relay (%v)", len(wraps), err)
	}
	if err := bob.Accept(t.Context(), alice.PublicKey()); err != nil {
		t.Fatal(err)
	}
	if err := bob.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	bob.wantHandled(m)
	alice.wantState(m, carrier.StateAcked)
}

// TestBacklogLongerThanOneAnswerIsReadWhole also holds the cursor: it stands
// still until everything stored has been handled.
func TestBacklogLongerThanOneAnswerIsReadWhole(t *testing.T) {
	server := relaytest.Start(t, relay.Options{Limits: relay.Limits{Results: 25}})
	sender, me := newKey(t), newKey(t)
	out := newCarrier(t, sender)
	const n = 120
	for _, wrap := range wraps(t, sender, me.PublicKey(), n) {
		if err := out.Send(t.Context(), carrier.Address{Scheme: "nostr", Address: server.URL}, wrap.Bytes); err != nil {
			t.Fatal(err)
		}
	}
	in := newCarrier(t, me, server.URL)
	var mu sync.Mutex
	seen := make(map[string]int)
	var last carrier.Cursor
	handle := func(_ context.Context, wrap []byte, next carrier.Cursor) error {
		mu.Lock()
		defer mu.Unlock()
		if wrap != nil && next != "" {
			t.Errorf("cursor %q moved before all was read", next)
		}
		if wrap != nil {
			seen[string(wrap)]++
		}
		last = next
		return nil
	}
	if err := in.Poll(t.Context(), "", handle); err != nil {
		t.Fatal(err)
	}
	if len(seen) != n || last == "" || len(last) > carrier.MaxCursor {
		t.Errorf("%d of %d wraps read, cursor %q", len(seen), n, last)
	}
	for wrap, times := range seen {
		if times != 1 {
			t.Errorf("wrap %.20s was handed on %d times", wrap, times)
		}
	}
}

func TestWrapThatCouldNotBeStoredIsReadAgain(t *testing.T) {
	server := relaytest.Start(t, relay.Options{})
	sender, me := newKey(t), newKey(t)
	to := carrier.Address{Scheme: "nostr", Address: server.URL}
	out, in := newCarrier(t, sender), newCarrier(t, me, server.URL)
	sealed := wraps(t, sender, me.PublicKey(), 3)
	for _, wrap := range sealed {
		if err := out.Send(t.Context(), to, wrap.Bytes); err != nil {
			t.Fatal(err)
		}
	}
	disk := errors.New("disk full")
	err := in.Poll(t.Context(), "", func(_ context.Context, wrap []byte, _ carrier.Cursor) error {
		if wrap == nil {
			t.Error("the cursor moved")
		}
		return disk
	})
	if !errors.Is(err, disk) {
		t.Errorf("Poll = %v, want the handler's error", err)
	}
	// The same within one Receive, which reconnects by itself.
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var mu sync.Mutex
	failures, got := 0, make(map[string]bool)
	err = in.Receive(ctx, "", func(_ context.Context, wrap []byte, next carrier.Cursor) error {
		mu.Lock()
		defer mu.Unlock()
		if wrap != nil && failures < 2 {
			failures++
			return disk
		}
		if wrap == nil && next != "" {
			cancel() // all stored ones are dealt with
			return nil
		}
		got[string(wrap)] = true
		return nil
	})
	if !errors.Is(err, context.Canceled) || len(got) != len(sealed) {
		t.Errorf("Receive = %v with %d of %d wraps", err, len(got), len(sealed))
	}
}

func TestContextEndLeavesNoGoroutine(t *testing.T) {
	server := relaytest.Start(t, relay.Options{})
	me := newKey(t)
	c, err := nostr.New(nostr.Options{Relays: []string{server.URL, "ws://127.0.0.1:1"}, Signer: me, Dialer: loopback()})
	if err != nil {
		t.Fatal(err)
	}
	for _, wrap := range wraps(t, me, me.PublicKey(), 1) {
		if err := c.Send(t.Context(), carrier.Address{Scheme: "nostr", Address: server.URL}, wrap.Bytes); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	err = c.Receive(ctx, "", func(context.Context, []byte, carrier.Cursor) error { cancel(); return nil })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Receive = %v", err)
	}
	c.Close()
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	for _, stack := range strings.Split(string(stacks), "\n\n") {
		if strings.Contains(stack, "parley/carrier/nostr.(") {
			t.Errorf("a goroutine is left:\n%s", stack)
		}
	}
}

func TestAddressOfACardIsDialedUnderTheStrictRule(t *testing.T) {
	server := relaytest.Start(t, relay.Options{})
	allow, err := egress.ParseAllow(strings.TrimPrefix(server.URL, "ws://"))
	if err != nil {
		t.Fatal(err)
	}
	key := newKey(t)
	wrap := wraps(t, key, newKey(t).PublicKey(), 1)[0].Bytes
	for _, test := range []struct {
		name  string
		mine  []string
		fails bool
	}{
		{"a stranger's relay on this machine", nil, true},
		{"the same relay, configured by the owner", []string{server.URL}, false},
	} {
		c, err := nostr.New(nostr.Options{Relays: test.mine, Signer: key, Dialer: egress.New(egress.Options{Allow: []egress.Allow{allow}})})
		if err != nil {
			t.Fatal(err)
		}
		err = c.Send(t.Context(), carrier.Address{Scheme: "nostr", Address: server.URL}, wrap)
		if test.fails != errors.Is(err, carrier.ErrPermanent) || !test.fails && err != nil {
			t.Errorf("%s: %v", test.name, err)
		}
		c.Close()
	}
}
