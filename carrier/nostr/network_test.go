package nostr_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	gonostr "github.com/nbd-wtf/go-nostr"

	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/carrier/nostr"
	"github.com/parleykit/parley/internal/networktest"
	"github.com/parleykit/parley/protocol/message"
	"github.com/parleykit/parley/relay"
	"github.com/parleykit/parley/relay/relaytest"
)

// behindProxy starts a relay that is reached through a bad network.
func behindProxy(t *testing.T) (*networktest.Proxy, *relaytest.Server, string) {
	t.Helper()
	p := networktest.NewProxy(t, "")
	server := relaytest.Start(t, relay.Options{Origin: "http://" + p.Addr()})
	p.Point(strings.TrimPrefix(server.URL, "ws://"))
	return p, server, "ws://" + p.Addr()
}

// eventually waits for what other goroutines bring about.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it did not come about: %s", what)
		}
	}
}

// wantNoGoroutine demands that nothing of this package runs any more.
func wantNoGoroutine(t *testing.T) {
	t.Helper()
	var stacks string
	eventually(t, "the goroutines end", func() bool {
		data := make([]byte, 1<<20)
		stacks = string(data[:runtime.Stack(data, true)])
		return !strings.Contains(stacks, "parley/carrier/nostr.(")
	})
}

// Two agents write to each other while the network to the relay fails in every
// way. Each message is handled once and acked, by the same two processes.
func TestMessagesSurviveABadNetwork(t *testing.T) {
	p, _, url := behindProxy(t)
	var b book
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	agents := []*agent{newAgent(t, &b, url), newAgent(t, &b, url)}
	ended := make(chan error, len(agents))
	for i, a := range agents {
		a.knows(agents[1-i])
		go func() { ended <- a.Run(ctx) }()
	}
	for _, point := range networktest.Points() {
		sent := make([][]*message.Message, 2)
		talk := func() {
			for i, a := range agents {
				for range 1 + point.Rand.IntN(2) {
					sent[i] = append(sent[i], a.text(agents[1-i], point.String()))
				}
			}
		}
		talk()
		if point.Rand.IntN(2) == 0 { // a quiet moment, or in the middle of it
			agents[0].wantState(sent[0][0], carrier.StateAcked)
		}
		point.Fault.Begin(p)
		talk()
		time.Sleep(time.Duration(point.Rand.IntN(50)) * time.Millisecond) // the length of the fault
		p.Heal()
		talk()
		for i, a := range agents {
			agents[1-i].wantEach(sent[i])
			for _, m := range sent[i] {
				a.wantState(m, carrier.StateAcked)
			}
		}
		if t.Failed() {
			t.Fatal(point)
		}
	}
	for i, a := range agents {
		select {
		case m := <-a.handled:
			t.Errorf("agent %d handled message %s again", i, m.ID)
		default:
		}
	}
	stop()
	for i := range agents {
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
		agents[i].carrier.Close()
	}
	eventually(t, "all connections end", func() bool { return p.Connections() == 0 })
	wantNoGoroutine(t)
}

// A direct call answers the truth or an error that says to try again, in time.
func TestPublishAndQueryTellTheTruthOverABadNetwork(t *testing.T) {
	p, server, url := behindProxy(t)
	key, direct := newKey(t), newClient(t, nil)
	client, err := nostr.NewClient(nostr.ClientOptions{Dialer: loopback(), Signer: key, DialTimeout: 200 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	mine := gonostr.Filter{Authors: []string{key.PublicKey()}, Kinds: []int{30417}}
	stored := make(map[string]bool) // what Publish said is stored
	limited := func(call func(context.Context) error) error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		return call(ctx)
	}
	for _, point := range networktest.Points() {
		at := gonostr.Now()
		ev := gonostr.Event{Kind: 30417, CreatedAt: at, Tags: gonostr.Tags{
			{"d", fmt.Sprint(point.Number)}, {"alt", "a card"}, {"expiration", fmt.Sprint(at + 3600)},
		}}
		if err := key.Sign(&ev); err != nil {
			t.Fatal(err)
		}
		answers := make(chan error, 2)
		go func() {
			answers <- limited(func(ctx context.Context) error { return client.Publish(ctx, url, &ev) })
		}()
		time.Sleep(time.Duration(point.Rand.IntN(3000)) * time.Microsecond) // where in the exchange it begins
		point.Fault.Begin(p)
		published := <-answers
		if published == nil {
			stored[ev.ID] = true
		}
		var found []*gonostr.Event
		queried := limited(func(ctx context.Context) (err error) { found, err = client.Query(ctx, url, mine); return err })
		p.Heal()
		for what, err := range map[string]error{"Publish": published, "Query": queried} {
			if err != nil && !errors.Is(err, carrier.ErrTransient) {
				t.Errorf("%s: %s failed with an error that is not transient: %v", point, what, err)
			}
		}
		if queried == nil {
			wantAll(t, point.String()+": Query answered", found, stored)
		}
		err := limited(func(ctx context.Context) error { return client.Publish(ctx, url, &ev) })
		for tries := 0; err != nil && tries < 5; tries++ { // a broken connection may cost a call
			err = limited(func(ctx context.Context) error { return client.Publish(ctx, url, &ev) })
		}
		if err != nil {
			t.Fatalf("%s: it does not recover: %v", point, err)
		}
		stored[ev.ID] = true
		all, err := direct.Query(t.Context(), server.URL, mine)
		if err != nil {
			t.Fatal(err)
		}
		wantAll(t, point.String()+": the relay holds", all, stored)
	}
	client.Close()
	eventually(t, "all connections end", func() bool { return p.Connections() == 0 })
}

func wantAll(t *testing.T, what string, got []*gonostr.Event, want map[string]bool) {
	t.Helper()
	have := make(map[string]bool)
	for _, ev := range got {
		have[ev.ID] = true
	}
	for id := range want {
		if !have[id] {
			t.Errorf("%s %d events, without %s that was answered as stored", what, len(got), id)
		}
	}
}
