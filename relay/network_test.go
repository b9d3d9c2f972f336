package relay_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/parleykit/parley/internal/database/databasetest"
	"github.com/parleykit/parley/internal/networktest"
	"github.com/parleykit/parley/relay"
	"github.com/parleykit/parley/relay/relaytest"
)

// A relay's connections to PostgreSQL fail in every way while events are
// published here and in another process. What was answered OK is in the
// database, a refusal says to try again, and a live subscription gets each
// event once, all without a restart.
func TestLiveSubscriptionsSurviveABadNetworkToPostgreSQL(t *testing.T) {
	address := databasetest.NewPostgres(t)
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	p := networktest.NewProxy(t, u.Host)
	u.Host = p.Addr()
	here, there := startShared(t, u.String()), startShared(t, address)
	reader, near, far := dial(t, here), dial(t, here), dial(t, there)
	k := newKey(t)
	reader.send("REQ", "live", nostr.Filter{Authors: []string{k.pub}})
	reader.next() // EOSE
	got := make(chan string, 10_000)
	go func() {
		defer close(got)
		for {
			r, err := reader.read()
			if err != nil {
				return
			}
			got <- r.event.ID
		}
	}()
	want := map[string]bool{}
	publish := func(c *client, point networktest.Point, name string) {
		ev := k.card(fmt.Sprint(point.Number, name), nostr.Now()-8)
		r := c.publish(ev)
		if !r.ok && !strings.HasPrefix(r.text, "error: ") {
			t.Errorf("%s: refused for good: %v", point, r)
		}
		for tries := 0; !r.ok && name == "after" && tries < 5; tries++ {
			r = c.publish(ev)
		}
		if r.ok {
			want[ev.ID] = true
		} else if name == "after" || c == far {
			t.Fatalf("%s: it does not recover: %v", point, r)
		}
	}
	for _, point := range networktest.Points() {
		publish(near, point, "before")
		point.Fault.Begin(p)
		publish(far, point, "elsewhere")
		if !strings.HasPrefix(point.Fault.Name, "stall") { // during a stall nothing is answered
			publish(near, point, "during")
		}
		time.Sleep(time.Duration(point.Rand.IntN(20)) * time.Millisecond) // the length of the fault
		p.Heal()
		publish(near, point, "after")
	}
	wantOnce(t, got, want)
	assertHolds(t, address, keysOf(want))
	here.Stop()
	eventually(t, func() bool { return p.Connections() == 0 })
}

func keysOf(set map[string]bool) (list []string) {
	for id := range set {
		list = append(list, id)
	}
	return list
}

// wantOnce waits until each wanted id came, none twice. Others are events whose
// answer was lost and that were stored all the same.
func wantOnce(t *testing.T, got <-chan string, want map[string]bool) {
	t.Helper()
	seen := map[string]bool{}
	left := len(want)
	limit := time.After(patience)
	for left > 0 {
		select {
		case id, open := <-got:
			if !open || seen[id] {
				t.Fatalf("event %s came twice, or the connection was lost", id)
			}
			seen[id] = true
			if want[id] {
				left--
			}
		case <-limit:
			t.Fatalf("%d of %d events did not come", left, len(want))
		}
	}
}

// A peer that half-closes its connection or is reset leaves nothing behind.
func TestBrokenConnectionsFreeTheirSessions(t *testing.T) {
	p := networktest.NewProxy(t, "")
	reg := prometheus.NewRegistry()
	s := relaytest.Start(t, relay.Options{Origin: "http://" + p.Addr(), Registerer: reg})
	p.Point(strings.TrimPrefix(s.URL, "ws://"))
	k := newKey(t)
	for name, fault := range map[string]func(){
		"reset": p.Reset, "half-close to the relay": p.HalfCloseServer,
		"half-close to the peer": func() { p.HalfClose(); p.HalfCloseServer() },
	} {
		for range 5 {
			c := dialURL(t, "ws://"+p.Addr())
			c.authenticate(k)
			c.send("REQ", "live", nostr.Filter{Kinds: []int{1059}})
			c.next() // EOSE
		}
		if n := counter(t, reg, "parley_relay_connections"); n != 5 {
			t.Fatalf("%s: %v connections, want 5", name, n)
		}
		fault()
		eventually(t, func() bool {
			return counter(t, reg, "parley_relay_connections") == 0 && counter(t, reg, "parley_relay_subscriptions") == 0
		})
	}
}
