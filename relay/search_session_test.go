package relay_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/nbd-wtf/go-nostr"

	"github.com/parleykit/parley/relay"
	"github.com/parleykit/parley/relay/relaytest"
)

// find sends a REQ of the filters and returns the ids of the stored events.
func (c *client) find(filters ...any) []string {
	c.t.Helper()
	c.send(append([]any{"REQ", "f"}, filters...)...)
	found := []string{}
	for {
		r := c.next()
		if r.label != "EVENT" {
			if r.label != "EOSE" {
				c.t.Fatalf("%v: %v", filters, r)
			}
			c.send("CLOSE", "f")
			return found
		}
		found = append(found, r.event.ID)
	}
}

func TestSearchAnswersTheBestFirstThenWhatElseIsAskedFor(t *testing.T) {
	for name, l := range map[string]relay.Limits{"in memory": {}, "in the store": {CardBytes: -1}} {
		t.Run(name, func(t *testing.T) {
			c := dial(t, relaytest.Start(t, relay.Options{Limits: l}))
			now := nostr.Now()
			named := newKey(t).note(now-9, `{"name":"Tax Office"}`)
			able := newKey(t).card("a", now-5, nostr.Tag{"t", "tax"})
			about := newKey(t).note(now, `{"about":"all about TAX"}`)
			other := newKey(t).note(now-1, `{"name":"else"}`)
			list := newKey(t).event(10002, now, "tax", nostr.Tags{{"r", "wss://tax.example"}})
			for _, ev := range []nostr.Event{about, other, able, named, list} {
				c.accept(ev)
			}
			search := func(text string, more ...any) map[string]any {
				f := map[string]any{"search": text}
				for i := 0; i+1 < len(more); i += 2 {
					f[more[i].(string)] = more[i+1]
				}
				return f
			}
			for _, tc := range []struct {
				filters []any
				want    []string
			}{
				{[]any{search("tax")}, []string{named.ID, able.ID, about.ID}},
				{[]any{search("tax", "limit", 2)}, []string{named.ID, able.ID}},
				{[]any{search("tax", "limit", 0)}, []string{}},
				{[]any{search("tax", "kinds", []int{0})}, []string{named.ID, about.ID}},
				{[]any{search("tax", "kinds", []int{10002})}, []string{}},
				{[]any{search("tax", "kinds", []int{})}, []string{}},
				{[]any{search("tax", "authors", []string{about.PubKey})}, []string{about.ID}},
				{[]any{search("tax", "since", now-6)}, []string{able.ID, about.ID}},
				{[]any{search("tax", "#t", []string{"tax"})}, []string{able.ID}},
				{[]any{search("office tax language:en")}, []string{named.ID}},
				{[]any{search("tax off")}, []string{named.ID}},
				{[]any{search("absent tax")}, []string{}},
				{[]any{nostr.Filter{Kinds: []int{0}}, search("tax", "limit", 1)}, []string{named.ID, about.ID, other.ID}},
				{[]any{search("tax", "limit", 1), search("else")}, []string{named.ID, other.ID}},
			} {
				if diff := cmp.Diff(tc.want, c.find(tc.filters...)); diff != "" {
					t.Errorf("%v (-want +got):\n%s", tc.filters, diff)
				}
			}
		})
	}
}

func TestLiveEventsAreSearchedToo(t *testing.T) {
	s := start(t)
	c, by := dial(t, s), dial(t, s)
	c.send("REQ", "s", map[string]any{"search": "tax cal"}, map[string]any{"search": "ledger", "kinds": []int{30417}})
	if r := c.next(); r.label != "EOSE" {
		t.Fatal(r)
	}
	for _, content := range []string{"tax", "calendar", `{"name":"ledger"}`, "tax CALENDAR"} {
		by.accept(newKey(t).note(nostr.Now(), content))
	}
	by.accept(newKey(t).card("c", nostr.Now(), nostr.Tag{"t", "ledger"}))
	by.silence() // its events were offered
	for _, want := range []string{"tax CALENDAR", ""} {
		if r := c.next(); r.label != "EVENT" || r.event.Content != want {
			t.Errorf("%v, want the event about %q", r, want)
		}
	}
	c.silence()
}

func TestSearchThatIsNoneIsRefused(t *testing.T) {
	c := dial(t, start(t))
	for _, bad := range []any{1, nil, []string{"x"}, strings.Repeat("x", 2000)} {
		c.send("REQ", "s", map[string]any{"search": bad})
		if r := c.next(); r.label != "CLOSED" || !strings.HasPrefix(r.text, "invalid: search ") {
			t.Errorf("%v: %v", bad, r)
		}
	}
}
