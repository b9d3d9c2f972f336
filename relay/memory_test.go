package relay_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/nbd-wtf/go-nostr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/parleykit/parley/relay"
	"github.com/parleykit/parley/relay/relaytest"
)

const held = "parley_relay_connection_bytes"

func TestHungryConnectionsStayWithinTheMemoryOfAllAndOthersAreServed(t *testing.T) {
	const limit = 8 << 20
	reg := prometheus.NewRegistry()
	s := relaytest.Start(t, relay.Options{Registerer: reg, Limits: relay.Limits{ConnectionBytes: limit, CardBytes: -1, WriteTimeout: time.Hour}})
	healthy := dial(t, s)
	text := strings.Repeat("x", 60_000)
	for range 120 {
		healthy.accept(newKey(t).note(nostr.Now(), text))
	}
	var peak float64
	stop, watched := make(chan struct{}), sync.WaitGroup{}
	watched.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				peak = max(peak, counter(t, reg, held))
			}
		}
	})
	var hungry []*websocket.Conn
	for range 60 {
		hungry = append(hungry, unread(t, s))
	}
	for _, conn := range hungry { // each asks for megabytes
		subscribeSlow(t, conn)
	}
	for i := range 20 {
		ev := newKey(t).note(nostr.Now(), fmt.Sprint(i))
		eventually(t, func() bool { return healthy.publish(ev).ok }) // whom it is refused may try again
		eventually(t, func() bool {
			got, end := healthy.request("q", nostr.Filter{IDs: []string{ev.ID}})
			return end.label == "EOSE" && len(got) == 1
		})
	}
	eventually(t, func() bool { return counter(t, reg, held) <= limit })
	close(stop)
	watched.Wait()
	if n := valueOf(t, reg, `parley_relay_memory_refusals_total{work="outbound"}`); n == 0 {
		t.Error("nobody was cut off")
	}
	if peak > 2*limit {
		t.Errorf("they held %.1f MiB, want about %d", peak/(1<<20), limit>>20)
	}
	t.Logf("at most %.1f MiB held, %v of %d connections left", peak/(1<<20), counter(t, reg, "parley_relay_connections")-1, len(hungry))
	for _, conn := range hungry {
		conn.CloseNow()
	}
	healthy.send("CLOSE", "q")
	eventually(t, func() bool { return counter(t, reg, held) == 32<<10 })
}

func TestNewWorkIsRefusedWhileThereIsNoMemoryForIt(t *testing.T) {
	reg := prometheus.NewRegistry()
	const room = 4 << 10
	s := relaytest.Start(t, relay.Options{Registerer: reg, Limits: relay.Limits{ConnectionBytes: 2*(32<<10) + room}})
	a, b := dial(t, s), dial(t, s)
	wants := func(work string) {
		t.Helper()
		if n := valueOf(t, reg, `parley_relay_memory_refusals_total{work="`+work+`"}`); n != 1 {
			t.Errorf("%v refusals for a %s are counted, want 1", n, work)
		}
	}
	const short = "rate-limited: the relay is short of memory"

	if status := refusal(t, s.URL, nil); status != http.StatusServiceUnavailable {
		t.Errorf("a third connection is answered %d", status)
	}
	wants("connection")
	a.refuse(newKey(t).note(nostr.Now(), strings.Repeat("x", room)), short)
	wants("event")
	a.accept(newKey(t).note(nostr.Now(), "small"))
	if _, end := a.request("q", nostr.Filter{}); end.label != "CLOSED" || !strings.HasPrefix(end.text, short) {
		t.Errorf("a request for 500 events is answered %v", end)
	}
	wants("request")
	if got := a.stored(nostr.Filter{Limit: 5}); len(got) != 1 {
		t.Errorf("a small request finds %d events", len(got))
	}
	profiles(t, a, room/40)
	a.reconciles("NEG-ERR", short, "NEG-OPEN", "n", nostr.Filter{}, opening(t))
	wants("reconciliation")
	a.reconciles("NEG-MSG", "61", "NEG-OPEN", "n", nostr.Filter{Limit: 5}, opening(t))
	a.send("NEG-CLOSE", "n")

	b.sendRaw(`["REQ","` + strings.Repeat("x", 20_000) + `"]`)
	if _, err := b.read(); websocket.CloseStatus(err) != websocket.StatusTryAgainLater {
		t.Errorf("a large message ends the connection with %v", err)
	}
	wants("message")
	b.conn.CloseNow()
	a.send("CLOSE", "q")
	eventually(t, func() bool { return counter(t, reg, held) == 32<<10 })
	a.accept(newKey(t).note(nostr.Now(), strings.Repeat("x", room)))
}
