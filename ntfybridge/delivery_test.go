package ntfybridge_test

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/internal/networktest"
	"github.com/parleykit/parley/ntfybridge"
	"github.com/parleykit/parley/ntfybridge/ntfytest"
)

// pair is two agents that know each other, over one server.
func pair(t *testing.T, url string) (alice, bob *agent) {
	t.Helper()
	b := &book{pages: make(map[string][]carrier.Address)}
	agents := make([]*agent, 2)
	for i, name := range []string{"alice", "bob"} {
		topic := url + "/" + name
		agents[i] = newAgent(t, b, newCarrier(t, ntfybridge.Options{Topics: []string{topic}, KeepAlive: 450 * time.Millisecond}, url), topic)
	}
	agents[0].knows(agents[1])
	agents[1].knows(agents[0])
	return agents[0].start(), agents[1].start()
}

func TestTwoEnginesTalkOverNtfy(t *testing.T) {
	server := ntfytest.Start(t, ntfytest.Unlimited)
	alice, bob := pair(t, server.URL)
	random := make([]byte, 7000)
	_, _ = rand.Read(random)
	there := alice.text(bob, hex.EncodeToString(random)) // does not shrink, so it goes in frames
	bob.wantInOrder([]string{there.ID})
	back := bob.text(alice, "hello yourself")
	alice.wantInOrder([]string{back.ID})
	alice.wantAcked(there.ID)
}

// wantInOrder waits until exactly these messages were handled, in order.
func (a *agent) wantInOrder(ids []string) {
	a.t.Helper()
	for i, id := range ids {
		select {
		case m := <-a.handled:
			if m.ID != id {
				a.t.Fatalf("message %d is %s, want %s", i, m.ID, id)
			}
		case <-time.After(patience):
			a.t.Fatalf("message %d of %d did not come", i, len(ids))
		}
	}
}

func (a *agent) wantAcked(id string) {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(a.t.Context(), patience)
	defer cancel()
	for changes := a.Subscribe(ctx); ; {
		rows, err := a.Outbox(a.t.Context(), carrier.OutboxFilter{MessageID: id})
		if err != nil || len(rows) != 1 {
			a.t.Fatalf("Outbox: %d rows, %v", len(rows), err)
		}
		if rows[0].State == carrier.StateAcked {
			return
		}
		if _, open := <-changes; !open {
			a.t.Fatalf("state %q (%s)", rows[0].State, rows[0].Reason)
		}
	}
}

func TestFaultsOfTheNetworkLoseAndRepeatNothing(t *testing.T) {
	server := ntfytest.Start(t, ntfytest.Options{Burst: -1, Subscriptions: 1000, KeepAlive: 100 * time.Millisecond})
	proxy := networktest.NewProxy(t, strings.TrimPrefix(server.URL, "http://"))
	alice, bob := pair(t, "http://"+proxy.Addr())
	start := alice.text(bob, "hello")
	bob.wantInOrder([]string{start.ID})
	var ids []string
	for i, fault := range networktest.Faults() {
		for range 3 {
			ids = append(ids, alice.artifact(bob, start.ID))
		}
		fault.Begin(proxy)
		for range 3 {
			ids = append(ids, alice.artifact(bob, start.ID))
		}
		time.Sleep(time.Duration(50+20*i) * time.Millisecond) // the fault lasts
		proxy.Heal()
		proxy.Reset()
	}
	if order := bob.wantHandledOnce(ids); !slices.Equal(order, ids) {
		t.Errorf("handled in the order %v, sent in %v", order, ids)
	}
	for _, id := range ids {
		alice.wantAcked(id)
	}
	select {
	case m := <-bob.handled:
		t.Errorf("message %s came again", m.ID)
	default:
	}
}

// TestLostFramesComeAgain loses every second frame of an envelope of 64 KiB
// once, after the sender was told that it was kept.
func TestLostFramesComeAgain(t *testing.T) {
	server := ntfytest.Start(t, ntfytest.Unlimited)
	var mu sync.Mutex
	lost, n := make(map[string]bool), 0
	url := serve(t, func(rw http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || r.URL.Path != "/bob" {
			server.Handler().ServeHTTP(rw, r)
			return
		}
		mu.Lock()
		n++
		lose := n%2 == 0 && n <= 22
		mu.Unlock()
		if lose { // an answer that looks right
			mu.Lock()
			lost[fmt.Sprint(n)] = true
			mu.Unlock()
			r.URL.Path = "/nowhere"
			server.Handler().ServeHTTP(renamed{rw}, r)
			return
		}
		server.Handler().ServeHTTP(rw, r)
	})
	wrap, pieces := frames(t, 64<<10)
	out, in := newCarrier(t, ntfybridge.Options{}, url), newCarrier(t, ntfybridge.Options{Topics: []string{url + "/bob"}}, url)
	for range 2 { // as an engine that was not acked
		for _, piece := range pieces {
			send(t, out, url+"/bob", string(piece))
		}
	}
	b := newBox()
	if err := in.Poll(t.Context(), "", b.handle); err != nil {
		t.Fatal(err)
	}
	got, _, _ := b.state()
	whole := make([]byte, len(wrap))
	for _, data := range got {
		f, err := carrier.ParseFrame([]byte(data))
		if err != nil {
			t.Fatal(err)
		}
		copy(whole[f.Offset:], f.Payload)
	}
	if string(whole) != string(wrap) || len(lost) != 11 || len(got) != 2*len(pieces)-11 {
		t.Errorf("%d frames lost, %d came, whole: %v", len(lost), len(got), string(whole) == string(wrap))
	}
}

// renamed writes an answer about topic nowhere as one about bob.
type renamed struct{ http.ResponseWriter }

func (r renamed) Write(p []byte) (int, error) {
	_, err := r.ResponseWriter.Write([]byte(strings.Replace(string(p), `"topic":"nowhere"`, `"topic":"bob"`, 1)))
	return len(p), err
}
