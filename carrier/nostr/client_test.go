package nostr_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	gonostr "github.com/nbd-wtf/go-nostr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/carrier/nostr"
	"github.com/parleykit/parley/protocol/canonical"
	"github.com/parleykit/parley/protocol/envelope"
	"github.com/parleykit/parley/relay"
	"github.com/parleykit/parley/relay/relaytest"
)

func wrapsFor(pubkey string) gonostr.Filter {
	return gonostr.Filter{Kinds: []int{envelope.KindWrap}, Tags: gonostr.TagMap{"p": {pubkey}}}
}

func signed(t *testing.T, signer nostr.Signer, kind int, content string) *gonostr.Event {
	t.Helper()
	ev := &gonostr.Event{Kind: kind, CreatedAt: gonostr.Now(), Tags: gonostr.Tags{}, Content: content}
	if err := signer.Sign(ev); err != nil {
		t.Fatal(err)
	}
	return ev
}

func TestRefusalsBecomeTypedErrors(t *testing.T) {
	key := newKey(t)
	url := serve(t, "", func(frame []json.RawMessage, send func(string)) {
		ev := eventOf(frame[1])
		ok := ev.Content == "accepted"
		send(fmt.Sprintf(`["OK","%s",%v,%q]`, ev.ID, ok, ev.Content))
	})
	client := newClient(t, nil)
	for text, want := range map[string]error{
		"accepted":                   nil,
		"duplicate: have it":         nil,
		"blocked: go away":           carrier.ErrPermanent,
		"invalid: no":                carrier.ErrPermanent,
		"restricted: no":             carrier.ErrPermanent,
		"pow: 24 bits":               carrier.ErrPermanent,
		"auth-required: who are you": carrier.ErrPermanent, // there is no key
		"error: disk":                carrier.ErrTransient,
		"rate-limited: slow down":    carrier.ErrTransient,
		"rate-limited: the recipient's box is full": carrier.ErrRecipient,
		"something without a known pattern":         carrier.ErrTransient,
	} {
		err := client.Publish(t.Context(), url, signed(t, key, 1, text))
		if want == nil && err != nil || want != nil && !errors.Is(err, want) {
			t.Errorf("%q gives %v, want %v", text, err, want)
		}
		var limited *carrier.RateLimited
		if limits := strings.HasPrefix(text, "rate") && want != carrier.ErrRecipient; limits != errors.As(err, &limited) {
			t.Errorf("%q: rate limit = %v", text, limited)
		}
	}
}

func TestSenderStaysAnonymousUntilTheRelayInsists(t *testing.T) {
	key := newKey(t)
	var authed atomic.Int32
	s := func(frame []json.RawMessage, send func(string)) {
		ev := eventOf(frame[1])
		if text(frame[0]) == "AUTH" {
			if ev.Kind != 22242 || ev.PubKey != key.PublicKey() || ev.Tags.Find("challenge")[1] != "c-1" {
				send(fmt.Sprintf(`["OK","%s",false,"invalid: %v"]`, ev.ID, ev))
				return
			}
			authed.Add(1)
			send(fmt.Sprintf(`["OK","%s",true,""]`, ev.ID))
			return
		}
		if ev.Content == "insist" && authed.Load() == 0 {
			send(fmt.Sprintf(`["OK","%s",false,"auth-required: members only"]`, ev.ID))
			return
		}
		send(fmt.Sprintf(`["OK","%s",true,""]`, ev.ID))
	}
	url := serve(t, `["AUTH","c-1"]`, s)
	client := newClient(t, key)
	if err := client.Publish(t.Context(), url, signed(t, key, 1, "open")); err != nil || authed.Load() != 0 {
		t.Errorf("publishing: %v after %d authentications, want none", err, authed.Load())
	}
	if err := client.Publish(t.Context(), url, signed(t, key, 1, "insist")); err != nil || authed.Load() != 1 {
		t.Errorf("publishing: %v after %d authentications, want one", err, authed.Load())
	}
}

func TestEventsThatAreForgedOrWereNotAskedForAreDropped(t *testing.T) {
	key, other := newKey(t), newKey(t)
	good := signed(t, key, 1, "good")
	forged := *good
	forged.Content = "forged"
	resigned := forged
	resigned.ID = resigned.GetID() // the id is right, the signature is not
	registry := prometheus.NewRegistry()
	url := serve(t, "", func(frame []json.RawMessage, send func(string)) {
		if text(frame[0]) != "REQ" {
			return
		}
		id := text(frame[1])
		send(`nonsense`)
		send(`["EVENT","another",{}]`)
		send(`["NOTICE","hello"]`)
		send(`["COUNT","x",{"count":1}]`)
		for _, ev := range []*gonostr.Event{&forged, &resigned, signed(t, other, 1, "of another author"), signed(t, key, 7, "of another kind"), good, good} {
			send(fmt.Sprintf(`["EVENT",%q,%s]`, id, ev))
		}
		send(fmt.Sprintf(`["EOSE",%q]`, id))
	})
	client, err := nostr.NewClient(nostr.ClientOptions{Dialer: loopback(), Registerer: registry})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	events, err := client.Query(t.Context(), url, gonostr.Filter{Kinds: []int{1}, Authors: []string{key.PublicKey()}})
	if err != nil || len(events) != 1 || events[0].ID != good.ID {
		t.Errorf("Query = %v, %v; want the good one once", events, err)
	}
	want := "# HELP parley_carrier_nostr_events_total Events that relays sent, by what checking them gave.\n" +
		"# TYPE parley_carrier_nostr_events_total counter\n" +
		`parley_carrier_nostr_events_total{result="invalid"} 2` + "\n" +
		`parley_carrier_nostr_events_total{result="unwanted"} 2` + "\n" +
		`parley_carrier_nostr_events_total{result="valid"} 2` + "\n"
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "parley_carrier_nostr_events_total"); err != nil {
		t.Error(err)
	}
	if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) > 0 {
		t.Errorf("lint: %v %v", problems, err)
	}
}

// TestWrapComesInItsExactBytes: relays write the keys of an event in any
// order; the envelope has one.
func TestWrapComesInItsExactBytes(t *testing.T) {
	sender, me := newKey(t), newKey(t)
	wrap := wraps(t, sender, me.PublicKey(), 1)[0]
	ev, err := canonical.DecodeEvent(wrap.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	url := serve(t, "", func(frame []json.RawMessage, send func(string)) {
		if text(frame[0]) == "REQ" {
			send(fmt.Sprintf(`["EVENT", %q, %s]`, text(frame[1]), strings.ReplaceAll(ev.String(), `,"`, ` , "`)))
			send(fmt.Sprintf(`["EOSE",%q]`, text(frame[1])))
		}
	})
	c := newCarrier(t, me, url)
	var got []byte
	err = c.Poll(t.Context(), "", func(_ context.Context, data []byte, _ carrier.Cursor) error {
		if data != nil {
			got = data
		}
		return nil
	})
	if err != nil || string(got) != string(wrap.Bytes) {
		t.Errorf("Poll = %v, bytes\n%s\nwant\n%s", err, got, wrap.Bytes)
	}
}

func TestSendPublishesTheBytesAsTheyAre(t *testing.T) {
	key := newKey(t)
	wrap := wraps(t, key, newKey(t).PublicKey(), 1)[0]
	got := make(chan string, 1)
	url := serve(t, "", func(frame []json.RawMessage, send func(string)) {
		got <- string(frame[1])
		send(fmt.Sprintf(`["OK","%s",true,""]`, wrap.ID))
	})
	c := newCarrier(t, key)
	if err := c.Send(t.Context(), carrier.Address{Scheme: "nostr", Address: url}, wrap.Bytes); err != nil {
		t.Fatal(err)
	}
	if sent := <-got; sent != string(wrap.Bytes) {
		t.Errorf("sent\n%s\nwant\n%s", sent, wrap.Bytes)
	}
	for _, bad := range [][]byte{nil, []byte("{}"), []byte("x")} {
		if err := c.Send(t.Context(), carrier.Address{Scheme: "nostr", Address: url}, bad); !errors.Is(err, carrier.ErrPermanent) {
			t.Errorf("Send(%q) = %v", bad, err)
		}
	}
}

func TestCursorOfTheFutureIsNotBelieved(t *testing.T) {
	me := newKey(t)
	ev := &gonostr.Event{Kind: envelope.KindWrap, CreatedAt: gonostr.Now() + 1_000_000, Tags: gonostr.Tags{{"p", me.PublicKey()}}}
	if err := newKey(t).Sign(ev); err != nil {
		t.Fatal(err)
	}
	since := make(chan int64, 1)
	url := serve(t, "", func(frame []json.RawMessage, send func(string)) {
		if text(frame[0]) != "REQ" {
			return
		}
		var f struct{ Since, Until int64 }
		_ = json.Unmarshal(frame[2], &f)
		if f.Until == 0 {
			since <- f.Since
			send(fmt.Sprintf(`["EVENT",%q,%s]`, text(frame[1]), ev))
		}
		send(fmt.Sprintf(`["EOSE",%q]`, text(frame[1])))
	})
	c := newCarrier(t, me, url)
	var last carrier.Cursor
	for _, begin := range []carrier.Cursor{"", "x"} {
		if begin == "x" {
			begin = last
		}
		err := c.Poll(t.Context(), begin, func(_ context.Context, _ []byte, next carrier.Cursor) error { last = next; return nil })
		if err != nil {
			t.Fatal(err)
		}
		got := <-since
		if latest := time.Now().Add(-49 * time.Hour).Unix(); got > latest || begin == last && got < latest-60 {
			t.Errorf("from cursor %q the relay is asked since %d, want about %d", begin, got, latest)
		}
	}
}

func TestMarkGoesBackWhenALiveWrapCouldNotBeStored(t *testing.T) {
	me := newKey(t)
	wrap := wraps(t, newKey(t), me.PublicKey(), 1)[0]
	since := make(chan string, 10)
	url := serve(t, "", func(frame []json.RawMessage, send func(string)) {
		if text(frame[0]) != "REQ" {
			return
		}
		id := text(frame[1])
		var f map[string]json.RawMessage
		_ = json.Unmarshal(frame[2], &f)
		if f["until"] == nil {
			since <- string(f["since"])
			send(fmt.Sprintf(`["EOSE",%q]`, id))
			send(fmt.Sprintf(`["EVENT",%q,%s]`, id, wrap.Bytes))
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	sessions := 0
	err := newCarrier(t, me, url).Receive(ctx, "", func(_ context.Context, wrap []byte, _ carrier.Cursor) error {
		if wrap == nil {
			return nil
		}
		if sessions++; sessions == 2 {
			cancel()
			return nil
		}
		return errors.New("disk full")
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("Receive = %v", err)
	}
	for range 2 {
		if got := <-since; got != "" {
			t.Errorf("the relay was asked since %s, want everything", got)
		}
	}
}

func TestQueryIsBounded(t *testing.T) {
	key := newKey(t)
	url := serve(t, "", func(frame []json.RawMessage, send func(string)) {
		for i := 0; text(frame[0]) == "REQ" && i < 5; i++ {
			send(fmt.Sprintf(`["EVENT",%q,%s]`, text(frame[1]), signed(t, key, 1, fmt.Sprint(i))))
		}
	})
	client, err := nostr.NewClient(nostr.ClientOptions{Dialer: loopback(), MaxEvents: 3})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := client.Query(t.Context(), url, gonostr.Filter{Kinds: []int{1}}); !errors.Is(err, carrier.ErrPermanent) {
		t.Errorf("Query of endless events = %v", err)
	}
}

func TestQueryIsBoundedInBytesThatAreDroppedToo(t *testing.T) {
	unwanted := signed(t, newKey(t), 2, strings.Repeat("x", 1000)) // asked for is kind 1
	url := serve(t, "", func(frame []json.RawMessage, send func(string)) {
		for i := 0; text(frame[0]) == "REQ" && i < 50; i++ {
			send(fmt.Sprintf(`["EVENT",%q,%s]`, text(frame[1]), unwanted))
		}
	})
	client, err := nostr.NewClient(nostr.ClientOptions{Dialer: loopback(), MaxBytes: 20_000})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if _, err := client.Query(ctx, url, gonostr.Filter{Kinds: []int{1}}); !errors.Is(err, carrier.ErrPermanent) {
		t.Errorf("Query of endless events nobody asked for = %v", err)
	}
}

func TestPeerThatSendsNonsenseIsDropped(t *testing.T) {
	url := serve(t, "", func(_ []json.RawMessage, send func(string)) {
		for range 100 {
			send(`[[[`)
		}
	})
	_, err := newClient(t, nil).Query(t.Context(), url, gonostr.Filter{Kinds: []int{1}})
	if !errors.Is(err, carrier.ErrTransient) || !strings.Contains(err.Error(), "malformed frames") {
		t.Errorf("Query = %v", err)
	}
}

func TestRelayThatRedirectsIsNotFollowed(t *testing.T) {
	server := relaytest.Start(t, relay.Options{})
	err := newClient(t, nil).Publish(t.Context(), server.URL+"/elsewhere", signed(t, newKey(t), 1, "x"))
	if !errors.Is(err, carrier.ErrTransient) {
		t.Errorf("Publish to a path that is no relay = %v", err)
	}
}

func TestSubscribeSurvivesReconnectsAndEndsWithItsHandler(t *testing.T) {
	key := newKey(t)
	p := newProxy(t)
	server := relaytest.Start(t, relay.Options{Origin: "http://" + p.address})
	p.point(server.URL)
	client := newClient(t, key)
	profile := signed(t, key, 0, `{"name":"one"}`)
	if err := client.Publish(t.Context(), server.URL, profile); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	times, enough := 0, errors.New("enough")
	err := client.Subscribe(ctx, "ws://"+p.address, func(_ context.Context, ev *gonostr.Event) error {
		if ev.ID != profile.ID {
			t.Errorf("event %v", ev)
		}
		if times++; times == 2 {
			return enough
		}
		p.point(server.URL) // cuts the connection
		return nil
	}, gonostr.Filter{Kinds: []int{0}, Authors: []string{key.PublicKey()}})
	if !errors.Is(err, enough) {
		t.Errorf("Subscribe = %v after %d events", err, times)
	}
}

func TestConnectionsAreSharedAndBounded(t *testing.T) {
	key := newKey(t)
	registry := prometheus.NewRegistry()
	client, err := nostr.NewClient(nostr.ClientOptions{Dialer: loopback(), Registerer: registry, Connections: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for range 3 {
		server := relaytest.Start(t, relay.Options{})
		for i := range 5 {
			if err := client.Publish(t.Context(), server.URL, signed(t, key, 0, fmt.Sprint(i))); err != nil {
				t.Fatal(err)
			}
		}
	}
	want := "# HELP parley_carrier_nostr_dials_total Attempts to connect to a relay, by result.\n" +
		"# TYPE parley_carrier_nostr_dials_total counter\n" +
		`parley_carrier_nostr_dials_total{result="failed"} 0` + "\n" + `parley_carrier_nostr_dials_total{result="ok"} 3` + "\n"
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "parley_carrier_nostr_dials_total"); err != nil {
		t.Error(err)
	}
}

func TestNewRefusesIncompleteOptions(t *testing.T) {
	key := newKey(t)
	var many []string
	for i := range nostr.MaxRelays + 1 {
		many = append(many, fmt.Sprintf("wss://r%d.example", i))
	}
	for name, o := range map[string]nostr.Options{
		"no key":          {Dialer: loopback()},
		"no dialer":       {Signer: key},
		"bad relay":       {Signer: key, Dialer: loopback(), Relays: []string{"https://relay.example"}},
		"too many relays": {Signer: key, Dialer: loopback(), Relays: many},
	} {
		if _, err := nostr.New(o); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := nostr.NewClient(nostr.ClientOptions{}); err == nil {
		t.Error("client without a dialer: accepted")
	}
}
