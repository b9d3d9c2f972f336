package relay_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nbd-wtf/go-nostr"

	"github.com/parleykit/parley/relay"
	"github.com/parleykit/parley/relay/relaytest"
)

// count sends a COUNT and demands this answer.
func (c *client) count(want string, filters ...any) {
	c.t.Helper()
	c.send(append([]any{"COUNT", "c"}, filters...)...)
	if r := c.next(); r.label != "COUNT" && !strings.HasPrefix(r.text, want) || r.label == "COUNT" && string(r.raw) != want {
		c.t.Errorf("filters %v: %v %s, want %s", filters, r, r.raw, want)
	}
}

func TestCountIsExactAndCountsAnEventOfSeveralFiltersOnce(t *testing.T) {
	s := relaytest.Start(t, relay.Options{Limits: relay.Limits{Results: 3}})
	c, k := dial(t, s), newKey(t)
	for i := range 7 {
		c.accept(k.card(fmt.Sprint("card", i), nostr.Now()-nostr.Timestamp(i), nostr.Tag{"t", []string{"tax", "law"}[i%2]}))
	}
	c.accept(k.note(nostr.Now(), `{"name":"tax"}`))
	c.count(`{"count":8}`, nostr.Filter{})
	c.count(`{"count":7}`, nostr.Filter{Kinds: []int{30417}}, nostr.Filter{Tags: nostr.TagMap{"t": {"tax", "law"}}})
	c.count(`{"count":4}`, nostr.Filter{Tags: nostr.TagMap{"t": {"tax"}}})
	c.count(`{"count":2}`, nostr.Filter{Tags: nostr.TagMap{"t": {"tax"}}, Limit: 2})
	c.count(`{"count":5}`, map[string]any{"search": "tax"})
	c.count(`{"count":8}`, map[string]any{"search": "tax"}, nostr.Filter{Tags: nostr.TagMap{"t": {"law"}}}, nostr.Filter{Kinds: []int{30417}, Limit: 1})
	c.count(`{"count":0}`, map[string]any{"limit": 0})
	c.silence()
}

func TestCountThatReadsTooMuchIsRefused(t *testing.T) {
	for name, l := range map[string]relay.Limits{"in memory": {Scan: 5}, "in the store": {Scan: 5, CardBytes: -1}} {
		t.Run(name, func(t *testing.T) {
			c := dial(t, relaytest.Start(t, relay.Options{Limits: l}))
			for i := range 6 {
				c.accept(newKey(t).note(nostr.Now(), fmt.Sprint(i)))
			}
			c.count("error: the filter reads too much", nostr.Filter{Kinds: []int{0}})
			c.count(`{"count":5}`, nostr.Filter{Kinds: []int{0}, Limit: 5})
		})
	}
}

func TestRefusedCountIsClosed(t *testing.T) {
	c := dial(t, start(t))
	c.count("invalid: a request has at least one filter")
	c.count("invalid: ", map[string]any{"ids": []string{"x"}})
	c.count("unsupported: ", map[string]any{"~": 1})
	c.count("auth-required: ", nostr.Filter{Kinds: []int{1059}})
	c.silence()
}
