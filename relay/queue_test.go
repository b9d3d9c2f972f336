package relay

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"testing/synctest"

	"github.com/coder/websocket"
)

func TestQueueIsBoundedByNumberAndBytes(t *testing.T) {
	q := newOutbound(4, 100, &account{all: &memory{}})
	for i := range 4 {
		if !q.push(outgoing{head: make([]byte, 10)}) {
			t.Errorf("message %d of 4 was refused", i+1)
		}
	}
	if q.push(outgoing{head: []byte("x")}) {
		t.Error("a fifth message was taken")
	}
	q = newOutbound(100, 100, &account{all: &memory{}})
	if !q.push(outgoing{head: make([]byte, 10), rec: &Record{JSON: make([]byte, 500)}}) {
		t.Error("one message over the limit was refused by an empty queue")
	}
	if q.push(outgoing{head: []byte("x")}) {
		t.Error("a message was taken over the limit of bytes")
	}
}

func TestWaitingPushLeavesHalfOfTheQueueFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newOutbound(4, 1000, &account{all: &memory{}})
		for range 2 {
			if err := q.pushWait(t.Context(), outgoing{head: []byte("stored")}); err != nil {
				t.Fatal(err)
			}
		}
		pushed := make(chan error, 1)
		go func() { pushed <- q.pushWait(t.Context(), outgoing{head: []byte("stored")}) }()
		synctest.Wait()
		if len(pushed) != 0 {
			t.Fatal("a third message did not wait")
		}
		if !q.push(outgoing{head: []byte("live")}) {
			t.Error("no room for a live event")
		}
		if batch, err := q.pop(t.Context(), nil, nil); err != nil || len(batch) != 3 {
			t.Fatalf("popped %d messages, %v, want 3", len(batch), err)
		}
		if err := <-pushed; err != nil {
			t.Error(err)
		}
	})
}

func TestFinishedQueueSendsWhatItHasAndTheCloseLast(t *testing.T) {
	q := newOutbound(10, 1000, &account{all: &memory{}})
	q.push(outgoing{head: []byte("one")})
	q.finish(websocket.StatusGoingAway, "bye")
	q.finish(websocket.StatusInternalError, "again")
	if !q.push(outgoing{head: []byte("two")}) {
		t.Error("a finished queue counts as a slow peer")
	}
	if err := q.pushWait(t.Context(), outgoing{}); !errors.Is(err, errOutboundClosed) {
		t.Errorf("got %v, want errOutboundClosed", err)
	}
	batch, _ := q.pop(t.Context(), nil, nil)
	if len(batch) != 2 || string(batch[0].head) != "one" || batch[1].close == nil || batch[1].close.Code != websocket.StatusGoingAway {
		t.Errorf("got %v", batch)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := q.pop(ctx, nil, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("empty queue: %v, want the context's error", err)
	}
}

func TestPendingWaitsForItsLimitAndForNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPending(2)
		p.add(t.Context()) //nolint:errcheck // There is room.
		p.add(t.Context()) //nolint:errcheck // There is room.
		events := make(chan string, 3)
		go func() {
			p.add(t.Context()) //nolint:errcheck // The context does not end.
			events <- "added"
		}()
		go func() {
			p.wait(t.Context()) //nolint:errcheck // The context does not end.
			events <- "none"
		}()
		synctest.Wait()
		if len(events) != 0 {
			t.Fatal("did not wait")
		}
		p.done()
		synctest.Wait()
		if len(events) != 1 || <-events != "added" {
			t.Fatal("the third was not added after one was done")
		}
		p.done()
		p.done()
		if got := <-events; got != "none" {
			t.Errorf("got %s", got)
		}
	})
}

func TestAddressTableIsBoundedAndKeepsWhoIsActive(t *testing.T) {
	l := DefaultLimits()
	l.Addresses = 10
	table := newAddressTable(l)
	active := netip.MustParseAddr("192.0.2.1")
	first := table.budget(active)
	for i := range 1000 {
		table.budget(netip.AddrFrom4([4]byte{198, 51, byte(i >> 8), byte(i)}))
		if table.budget(active) != first {
			t.Fatalf("after %d addresses the active one lost its budget", i)
		}
		if n := len(table.budgets.younger) + len(table.budgets.older); n > 10 {
			t.Fatalf("%d addresses are remembered", n)
		}
	}
}

func TestAddressesAreCountedByNetwork(t *testing.T) {
	for a, want := range map[string]string{
		"192.0.2.7":          "192.0.2.7",
		"::ffff:192.0.2.7":   "192.0.2.7",
		"2001:db8:1:2:3::9":  "2001:db8:1:2::",
		"fe80::1%eth0":       "fe80::",
		"2001:db8:1:2:3::10": "2001:db8:1:2::",
	} {
		if got := network(netip.MustParseAddr(a)); got != netip.MustParseAddr(want) {
			t.Errorf("%s is counted as %s, want %s", a, got, want)
		}
	}
	if network(netip.Addr{}).IsValid() {
		t.Error("no address became one")
	}
}

func TestAnEventThatManyWaitForIsHeldOnce(t *testing.T) {
	all, rec := &memory{}, &Record{JSON: make([]byte, 1000)}
	var queues []*outbound
	for range 3 {
		q := newOutbound(10, 1<<20, &account{all: all})
		q.push(outgoing{head: make([]byte, 100), rec: rec})
		queues = append(queues, q)
		if own := q.account.own.Load(); own != 100+messageBytes+1000 {
			t.Errorf("a connection holds %d bytes", own)
		}
	}
	if n := all.held.Load(); n != 3*(100+messageBytes)+1000 {
		t.Errorf("all hold %d bytes", n)
	}
	for _, q := range queues {
		q.end()
		q.push(outgoing{rec: rec}) // after the end nothing waits
		if own := q.account.own.Load(); own != 0 {
			t.Errorf("a connection that ended holds %d bytes", own)
		}
	}
	if n := all.held.Load(); n != 0 {
		t.Errorf("%d bytes are left", n)
	}
}
