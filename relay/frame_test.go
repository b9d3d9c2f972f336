package relay

import (
	"context"
	"errors"
	"net/netip"
	"testing"

	"github.com/fiatjaf/eventstore"
	"github.com/nbd-wtf/go-nostr"
)

// idleRelay is a relay whose committer does not run.
func idleRelay(t *testing.T) *Relay {
	t.Helper()
	r, err := New(Options{Store: memoryStore(t), Origin: "http://127.0.0.1:8417"})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func signed(t *testing.T, kind int, tags nostr.Tags) *nostr.Event {
	t.Helper()
	ev := &nostr.Event{Kind: kind, CreatedAt: nostr.Now(), Tags: tags}
	if err := ev.Sign(nostr.GeneratePrivateKey()); err != nil {
		t.Fatal(err)
	}
	return ev
}

func TestFrameKeepsNothingOfAnEventItHandedOver(t *testing.T) {
	r := idleRelay(t)
	r.frame.OnEventSaved = append(r.frame.OnEventSaved, func(context.Context, *nostr.Event) {
		t.Error("the frame went on after the event was handed over")
	})
	for _, kind := range []int{kindProfile, kindDeletion} {
		ev := signed(t, kind, nostr.Tags{{"expiration", "99999999999"}})
		sub := &submission{rec: &Record{Event: ev, JSON: appendEvent(nil, ev)}, session: r.newSession(nil, netip.Addr{})}
		if a := r.submit(t.Context(), sub); a != nil || !sub.handed {
			t.Fatalf("kind %d: answered %v, want it handed over", kind, a)
		}
		if got := <-r.committer.in; got != sub {
			t.Error("the committer got another event")
		}
	}
}

func TestFrameStoresOnlyWhatCameThroughAConnection(t *testing.T) {
	r := idleRelay(t)
	if _, err := r.frame.AddEvent(t.Context(), signed(t, kindProfile, nostr.Tags{})); err == nil {
		t.Error("the frame took an event without a connection")
	}
	if err := r.handOver(t.Context(), signed(t, kindProfile, nostr.Tags{})); !errors.Is(err, errNoSubmission) || errors.Is(err, eventstore.ErrDupEvent) {
		t.Errorf("got %v, want errNoSubmission", err)
	}
	if r.frame.ServiceURL != r.opts.Origin {
		t.Errorf("service URL is %q", r.frame.ServiceURL)
	}
	if len(r.frame.QueryEvents)+len(r.frame.DeleteEvent) != 0 {
		t.Error("the frame can query or delete by itself")
	}
}

func TestPanicInACheckIsAnAnswer(t *testing.T) {
	r := idleRelay(t)
	r.frame.RejectEvent = append(r.frame.RejectEvent, func(context.Context, *nostr.Event) (bool, string) { panic("check") })
	ev := signed(t, kindProfile, nostr.Tags{})
	sub := &submission{rec: &Record{Event: ev, JSON: appendEvent(nil, ev)}, session: r.newSession(nil, netip.Addr{})}
	if a := r.submit(t.Context(), sub); a == nil || a.ok || a.result != resultError {
		t.Errorf("answered %v, want an error", a)
	}
}

func TestEmptyTagIsTheFirstCheck(t *testing.T) {
	r := idleRelay(t)
	for _, tags := range []nostr.Tags{{{"d"}}, {{"t", "x"}, {"d"}}, {{}}} {
		ev := &nostr.Event{Kind: 30417, Tags: tags}
		if refused, text := r.frame.RejectEvent[0](t.Context(), ev); !refused || text != "invalid: a tag has no value" {
			t.Errorf("%v: %v %q", tags, refused, text)
		}
		if _, err := r.frame.AddEvent(t.Context(), ev); err == nil {
			t.Errorf("%v: no error", tags)
		}
	}
}
