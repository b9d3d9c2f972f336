package relay_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"
	"github.com/nbd-wtf/go-nostr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/parleykit/parley/relay"
	"github.com/parleykit/parley/relay/relaytest"
)

func TestREQSeesTheEventsSentBeforeIt(t *testing.T) {
	c := dial(t, start(t))
	const n = 100
	want := map[string]bool{}
	for range n {
		ev := newKey(t).note(nostr.Now(), "")
		want[ev.ID] = true
		c.send("EVENT", ev)
	}
	c.send("REQ", "q", nostr.Filter{})
	oks, found := 0, 0
	for {
		r := c.next()
		switch {
		case r.label == "OK" && r.ok && found == 0:
			oks++
		case r.label == "EVENT" && want[r.event.ID]:
			found++
		case r.label == "EOSE":
			if oks != n || found != n {
				t.Errorf("%d OKs, then %d events; want %d of both", oks, found, n)
			}
			return
		default:
			t.Fatalf("unexpected %v after %d OKs and %d events", r, oks, found)
		}
	}
}

func TestCLOSEWaitsForTheEventsSentBeforeIt(t *testing.T) {
	c, k := dial(t, start(t)), newKey(t)
	for range 20 {
		c.request("own", nostr.Filter{Authors: []string{k.pub}, LimitZero: true})
		ev := k.deletion(nostr.Now(), nostr.Tag{"e", newKey(t).pub})
		c.send("EVENT", ev)
		c.send("CLOSE", "own")
		got := []string{c.next().label, c.next().label}
		if diff := cmp.Diff([]string{"OK", "EVENT"}, got); diff != "" {
			t.Fatalf("answers (-want +got):\n%s", diff)
		}
	}
	c.silence()
}

func TestEachEventArrivesOnceAcrossTheSeam(t *testing.T) {
	s := relaytest.Start(t, relay.Options{Limits: relay.Limits{Results: 10_000}})
	const writers, each = 3, 60
	var writing sync.WaitGroup
	for range writers {
		c := dial(t, s)
		var events []nostr.Event
		for range each {
			events = append(events, newKey(t).note(nostr.Now(), ""))
		}
		writing.Go(func() {
			for _, ev := range events {
				c.send("EVENT", ev)
			}
		})
		go func() { // OKs must be read
			for {
				if _, err := c.read(); err != nil {
					return
				}
			}
		}()
	}
	var reading sync.WaitGroup
	for i := range 12 {
		c := dial(t, s)
		reading.Go(func() {
			for j := range 5 { // replace the subscription in the middle of it all
				c.send("REQ", "seam", nostr.Filter{Kinds: []int{0}, Limit: 1 + i + j})
			}
			c.send("REQ", "last", nostr.Filter{Kinds: []int{0}})
			seen := map[string]int{}
			for len(seen) < writers*each {
				r, err := c.read()
				if err != nil {
					t.Errorf("reader %d saw %d events: %v", i, len(seen), err)
					return
				}
				if r.label == "EVENT" && r.id == "last" {
					if seen[r.event.ID]++; seen[r.event.ID] > 1 {
						t.Errorf("reader %d got an event twice", i)
					}
				}
			}
		})
	}
	writing.Wait()
	reading.Wait()
}

// stalled dials with a small receive buffer and never reads again after
// subscribing.
func stalled(t *testing.T, s *relaytest.Server) *websocket.Conn {
	t.Helper()
	conn := unread(t, s)
	subscribeSlow(t, conn)
	return conn
}

func subscribeSlow(t *testing.T, conn *websocket.Conn) {
	t.Helper()
	if err := conn.Write(t.Context(), websocket.MessageText, []byte(`["REQ","slow",{"kinds":[0]}]`)); err != nil {
		t.Fatal(err)
	}
}

// unread is a connection that nobody reads.
func unread(t *testing.T, s *relaytest.Server) *websocket.Conn {
	t.Helper()
	transport := &http.Transport{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		if err == nil {
			err = conn.(*net.TCPConn).SetReadBuffer(4096)
		}
		return conn, err
	}}
	conn, _, err := websocket.Dial(t.Context(), s.URL, &websocket.DialOptions{HTTPClient: &http.Client{Transport: transport}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.CloseNow() })
	return conn
}

func TestSlowConsumerHoldsUpNobodyAndIsCutOff(t *testing.T) {
	reg := prometheus.NewRegistry()
	s := relaytest.Start(t, relay.Options{Registerer: reg, Limits: relay.Limits{OutboundBytes: 512 << 10, WriteTimeout: time.Hour}})
	slow := stalled(t, s)
	eventually(t, func() bool { return counter(t, reg, "parley_relay_subscriptions") == 1 })
	healthy, publisher := dial(t, s), dial(t, s)
	healthy.request("live", nostr.Filter{Kinds: []int{0}})
	text := strings.Repeat("x", 60_000)
	for i := range 150 {
		ev := newKey(t).note(nostr.Now(), text)
		publisher.accept(ev)
		if r := healthy.next(); r.label != "EVENT" || r.event.ID != ev.ID {
			t.Fatalf("event %d: the healthy consumer got %v", i, r)
		}
	}
	eventually(t, func() bool { return counter(t, reg, "parley_relay_slow_consumers_total") == 1 })
	eventually(t, func() bool { return counter(t, reg, "parley_relay_connections") == 2 })
	slow.CloseNow() // it lived until here
}

func TestPeerThatDoesNotReadItsAnswersIsCutOff(t *testing.T) {
	reg := prometheus.NewRegistry()
	s := relaytest.Start(t, relay.Options{Registerer: reg, Limits: relay.Limits{WriteTimeout: time.Second}})
	publisher := dial(t, s)
	text := strings.Repeat("x", 60_000)
	for range 120 {
		publisher.accept(newKey(t).note(nostr.Now(), text))
	}
	slow := stalled(t, s)
	eventually(t, func() bool { return counter(t, reg, "parley_relay_slow_consumers_total") >= 1 })
	eventually(t, func() bool { return counter(t, reg, "parley_relay_connections") == 1 })
	slow.CloseNow()
	publisher.silence()
}

func TestHostileFramesDoNotEndTheRelay(t *testing.T) {
	s := start(t)
	witness := dial(t, s)
	id := strings.Repeat("a", 64)
	event := `{"id":"` + id + `","pubkey":"` + id + `","created_at":1,"kind":0,"tags":[],"content":"","sig":"` + id + id + `"}`
	for _, frame := range []string{
		``, ` `, `x`, `null`, `0`, `""`, `{}`, `[]`, `[null]`, `[1,2]`, `["EVENT"]`, `["REQ"]`, `["CLOSE"]`, `["AUTH"]`,
		`["EVENT",null]`, `["EVENT",1]`, `["EVENT",[]]`, `["EVENT",{}]`, `["EVENT",{"id":1}]`, `["AUTH",{}]`, `["AUTH",null]`,
		`["REQ",1]`, `["REQ","",{}]`, `["REQ","` + strings.Repeat("x", 65) + `",{}]`, `["CLOSE",{}]`,
		`["NOPE","x"]`, `["EVENT",` + event, `["EVENT",` + event + `]]`, `["EVENT",` + event + `] trailing`,
		`["EVENT",` + strings.Replace(event, `"kind":0`, `"kind":1e2`, 1) + `]`,
		`["EVENT",` + strings.Replace(event, `"kind":0`, `"kind":99999999999999999999`, 1) + `]`,
		`["EVENT",` + strings.Replace(event, `"created_at":1`, `"created_at":-1`, 1) + `]`,
		`["EVENT",` + strings.Replace(event, `"tags":[]`, `"tags":[null]`, 1) + `]`,
		`["EVENT",` + strings.Replace(event, `"tags":[]`, `"tags":[[null]]`, 1) + `]`,
		`["EVENT",` + strings.Replace(event, `"tags":[]`, `"tags":[[]]`, 1) + `]`,
		`["EVENT",` + strings.Replace(event, `"tags":[]`, `"tags":[["d"]]`, 1) + `]`,
		`["EVENT",` + strings.Replace(event, `"tags":[]`, `"kind":5,"tags":[]`, 1) + `]`,
		`["EVENT",` + strings.Replace(event, `"content":""`, `"content":"\ud800"`, 1) + `]`,
		"[\"EVENT\",\"\xff\xfe\"]",
		strings.Repeat("[", 100_000), strings.Repeat(`{"a":`, 20_000), `["REQ","x",` + strings.Repeat("[", 60_000) + strings.Repeat("]", 60_000) + `]`,
		`["REQ","x"` + strings.Repeat(",{}", 30_000) + `]`,
		`["REQ","x",{"ids":[` + strings.Repeat(`"a",`, 20_000) + `"a"]}]`,
	} {
		c := dial(t, s)
		c.sendRaw(frame)
		if r := c.next(); r.ok || (r.label != "NOTICE" && r.label != "OK" && r.label != "CLOSED") {
			t.Errorf("%.60q: got %v, want a refusal", frame, r)
		}
		c.silence()
		c.conn.CloseNow()
	}
	witness.accept(newKey(t).note(nostr.Now(), "still here"))
}

func TestFrameOverTheLimitClosesTheConnection(t *testing.T) {
	s := start(t)
	witness := dial(t, s)
	for name, tc := range map[string]struct {
		kind websocket.MessageType
		data string
		want websocket.StatusCode
	}{
		"too big": {websocket.MessageText, strings.Repeat("x", 128<<10+1), websocket.StatusMessageTooBig},
		"binary":  {websocket.MessageBinary, "x", websocket.StatusUnsupportedData},
	} {
		c := dial(t, s)
		c.conn.Write(t.Context(), tc.kind, []byte(tc.data)) //nolint:errcheck // It may be cut off.
		if _, err := c.read(); websocket.CloseStatus(err) != tc.want {
			t.Errorf("%s: %v, want status %d", name, err, tc.want)
		}
	}
	witness.silence()
}

func TestManyRefusedFramesCloseTheConnection(t *testing.T) {
	clock := newClock()
	c := dial(t, relaytest.Start(t, relay.Options{Now: clock.Now}))
	for range 150 {
		if c.write("x") != nil {
			break
		}
	}
	for range 200 {
		if _, err := c.read(); err != nil {
			if websocket.CloseStatus(err) != websocket.StatusPolicyViolation {
				t.Errorf("ended with %v, want a policy violation", err)
			}
			return
		}
	}
	t.Error("the connection is still open")
}

func TestDTagWithoutValueIsRefused(t *testing.T) {
	s := start(t)
	c, k := dial(t, s), newKey(t)
	for _, kind := range []int{0, 10002, 30417, 30000} {
		c.refuse(k.event(kind, nostr.Now(), "", nostr.Tags{{"alt", "x"}, {"d"}}), "invalid: ")
	}
	c.accept(k.note(nostr.Now(), ""))
}

func TestStopAnswersWhatWasTakenAndSaysGoodbye(t *testing.T) {
	dir := t.TempDir()
	s := relaytest.Start(t, relay.Options{Dir: dir, DrainTimeout: patience})
	c := dial(t, s)
	for range 200 {
		c.send("EVENT", newKey(t).note(nostr.Now(), ""))
	}
	var stored []string
	stored = append(stored, c.next().id)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		s.Stop()
	}()
	for {
		r, err := c.read()
		if err != nil {
			if websocket.CloseStatus(err) != websocket.StatusGoingAway {
				t.Errorf("connection ended with %v, want going away", err)
			}
			break
		}
		if r.label != "OK" || !r.ok {
			t.Fatalf("got %v, want OK", r)
		}
		stored = append(stored, r.id)
	}
	<-stopped
	if n := assertStored(t, dir, stored); n != len(stored) {
		t.Errorf("%d events are stored and %d were answered", n, len(stored))
	}
}

// assertStored opens the store, demands every id and returns how many events
// there are.
func assertStored(t *testing.T, dir string, want []string) (n int) {
	t.Helper()
	store, err := relay.OpenPebble(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	for _, id := range want {
		found := 0
		for _, err := range store.Query(t.Context(), nostr.Filter{IDs: []string{id}}, time.Now(), 10) {
			if err != nil {
				t.Fatal(err)
			}
			found++
		}
		if found != 1 {
			t.Fatalf("event %s was answered OK and is not stored", id)
		}
	}
	for range store.Query(t.Context(), nostr.Filter{}, time.Now(), 1<<20) {
		n++
	}
	return n
}

func TestConcurrentPublishersGetEveryOK(t *testing.T) {
	s := start(t)
	var all sync.WaitGroup
	shared := newKey(t)
	now := nostr.Now()
	for i := range 8 {
		c := dial(t, s)
		var events []nostr.Event
		for j := range 20 {
			events = append(events, shared.card("default", now+nostr.Timestamp(j), nostr.Tag{"t", fmt.Sprint(i)}))
		}
		all.Go(func() {
			for _, ev := range events {
				if r := c.publish(ev); !r.ok {
					t.Errorf("got %v, want OK true", r)
				}
			}
		})
	}
	all.Wait()
	if got := dial(t, s).stored(nostr.Filter{Kinds: []int{30417}}); len(got) != 1 || got[0].CreatedAt != now+19 {
		t.Errorf("stored %v, want the newest version alone", got)
	}
}
