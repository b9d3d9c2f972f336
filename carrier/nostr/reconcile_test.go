package nostr_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	gonostr "github.com/nbd-wtf/go-nostr"

	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/carrier/nostr"
	"github.com/parleykit/parley/protocol/envelope"
	"github.com/parleykit/parley/relay"
	"github.com/parleykit/parley/relay/relaytest"
)

func known(events ...*gonostr.Event) iter.Seq2[gonostr.Timestamp, string] {
	return func(yield func(gonostr.Timestamp, string) bool) {
		for _, ev := range events {
			if !yield(ev.CreatedAt, ev.ID) {
				return
			}
		}
	}
}

func sortedIDs(events ...*gonostr.Event) (ids []string) {
	for _, ev := range events {
		ids = append(ids, ev.ID)
	}
	slices.Sort(ids)
	return ids
}

func TestReconcileFindsWhatEachSideLacks(t *testing.T) {
	server := relaytest.Start(t, relay.Options{})
	client := newClient(t, nil)
	var all []*gonostr.Event
	for i := range 60 {
		ev := signed(t, newKey(t), 0, fmt.Sprint(i))
		all = append(all, ev)
		if i >= 10 {
			if err := client.Publish(t.Context(), server.URL, ev); err != nil {
				t.Fatal(err)
			}
		}
	}
	profiles := gonostr.Filter{Kinds: []int{0}}
	got, err := client.Reconcile(t.Context(), server.URL, profiles, known(all[:50]...))
	if err != nil {
		t.Fatal(err)
	}
	want := nostr.Difference{Have: sortedIDs(all[:10]...), Need: sortedIDs(all[50:]...)}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := client.Query(t.Context(), server.URL, profiles); err != nil {
		t.Errorf("the connection afterwards: %v", err)
	}
	if _, err := client.Reconcile(t.Context(), server.URL, profiles, known(&gonostr.Event{ID: "x"})); !errors.Is(err, carrier.ErrPermanent) {
		t.Errorf("with an id that is none: %v", err)
	}
}

func TestReconcileAuthenticatesWhenTheRelayAsksForIt(t *testing.T) {
	server := relaytest.Start(t, relay.Options{})
	me := newKey(t)
	w := wraps(t, newKey(t), me.PublicKey(), 1)[0]
	publisher := newClient(t, nil)
	var ev gonostr.Event
	if err := json.Unmarshal(w.Bytes, &ev); err != nil {
		t.Fatal(err)
	}
	if err := publisher.Publish(t.Context(), server.URL, &ev); err != nil {
		t.Fatal(err)
	}
	filter := gonostr.Filter{Kinds: []int{envelope.KindWrap}}
	got, err := newClient(t, me).Reconcile(t.Context(), server.URL, filter, known())
	if err != nil || !slices.Equal(got.Need, []string{ev.ID}) {
		t.Errorf("needed %v, %v, want %s", got.Need, err, ev.ID)
	}
	if _, err := publisher.Reconcile(t.Context(), server.URL, filter, known()); !errors.Is(err, carrier.ErrPermanent) {
		t.Errorf("without a key: %v", err)
	}
}

func TestReconcileOfTooMuchSaysSo(t *testing.T) {
	server := relaytest.Start(t, relay.Options{Limits: relay.Limits{ReconciliationEvents: 2}})
	client := newClient(t, nil)
	for i := range 3 {
		if err := client.Publish(t.Context(), server.URL, signed(t, newKey(t), 0, fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
	_, err := client.Reconcile(t.Context(), server.URL, gonostr.Filter{Kinds: []int{0}}, known())
	if !errors.Is(err, nostr.ErrTooBig) || !errors.Is(err, carrier.ErrPermanent) {
		t.Errorf("got %v, want ErrTooBig", err)
	}
}

func TestReconcileSurvivesAHostileRelay(t *testing.T) {
	many := "61000002" + "ff7f" + strings.Repeat("ab", 32)
	for name, tc := range map[string]struct {
		answer string // with the id for %s
		want   error
	}{
		"not hex":           {`["NEG-MSG","%s","6g"]`, carrier.ErrPermanent},
		"too many ids":      {`["NEG-MSG","%s","` + many + `"]`, carrier.ErrPermanent},
		"other version":     {`["NEG-MSG","%s","60"]`, carrier.ErrPermanent},
		"an event":          {`["EOSE","%s"]`, carrier.ErrPermanent},
		"refused":           {`["NEG-ERR","%s","blocked: go away"]`, carrier.ErrPermanent},
		"too big, a number": {`["NEG-ERR","%s","blocked: this query is too big",500000]`, nostr.ErrTooBig},
		"no reason":         {`["NEG-ERR","%s"]`, carrier.ErrTransient},
		"duplicate":         {`["NEG-ERR","%s","duplicate: what"]`, carrier.ErrPermanent},
		"closed":            {`["CLOSED","%s","error: no"]`, carrier.ErrTransient},
		// A fingerprint that never fits is asked about again and again.
		"without end": {`["NEG-MSG","%s","61000001` + strings.Repeat("00", 16) + `"]`, carrier.ErrPermanent},
	} {
		t.Run(name, func(t *testing.T) {
			url := serve(t, "", func(frame []json.RawMessage, send func(string)) {
				if text(frame[0]) != "NEG-CLOSE" {
					send(fmt.Sprintf(tc.answer, text(frame[1])))
				}
			})
			_, err := newClient(t, nil).Reconcile(t.Context(), url, gonostr.Filter{}, known(signed(t, newKey(t), 0, "")))
			if !errors.Is(err, tc.want) || errors.Is(err, nostr.ErrTooBig) != (tc.want == nostr.ErrTooBig) {
				t.Errorf("got %v, want %v", err, tc.want)
			}
		})
	}
}
