package relay_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/nbd-wtf/go-nostr"

	"github.com/parleykit/parley/relay"
	"github.com/parleykit/parley/relay/relaytest"
)

func TestEventIsStoredAndFound(t *testing.T) {
	c, k := dial(t, start(t)), newKey(t)
	card := k.card("default", nostr.Now(), nostr.Tag{"t", "translation"})
	c.accept(card)
	for name, f := range map[string]nostr.Filter{
		"id":        {IDs: []string{card.ID}},
		"author":    {Authors: []string{k.pub}},
		"kind":      {Kinds: []int{30417}},
		"address":   {Authors: []string{k.pub}, Kinds: []int{30417}, Tags: nostr.TagMap{"d": {"default"}}},
		"tag":       {Tags: nostr.TagMap{"t": {"other", "translation"}}},
		"anything":  {},
		"since":     {Since: &card.CreatedAt},
		"until":     {Until: &card.CreatedAt},
		"kind, tag": {Kinds: []int{0, 30417}, Tags: nostr.TagMap{"t": {"translation"}}},
	} {
		t.Run(name, func(t *testing.T) {
			got := c.stored(f)
			if diff := cmp.Diff([]string{card.ID}, ids(got)); diff != "" {
				t.Fatalf("found (-want +got):\n%s", diff)
			}
			if got[0].String() != card.String() {
				t.Errorf("event came back as %s, want %s", got[0], card)
			}
		})
	}
}

func TestFilterThatDoesNotMatchFindsNothing(t *testing.T) {
	c, k := dial(t, start(t)), newKey(t)
	now := nostr.Now()
	c.accept(k.card("default", now))
	later, earlier := now+1, now-1
	for name, f := range map[string]nostr.Filter{
		"id":      {IDs: []string{strings.Repeat("0", 64)}},
		"author":  {Authors: []string{newKey(t).pub}},
		"kind":    {Kinds: []int{1}},
		"d":       {Authors: []string{k.pub}, Kinds: []int{30417}, Tags: nostr.TagMap{"d": {"other"}}},
		"tag":     {Tags: nostr.TagMap{"t": {"translation"}}},
		"since":   {Since: &later},
		"until":   {Until: &earlier},
		"limit 0": {LimitZero: true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := c.stored(f); len(got) != 0 {
				t.Errorf("found %v, want nothing", ids(got))
			}
		})
	}
}

func TestEmptyListMatchesNothing(t *testing.T) {
	c := dial(t, start(t))
	c.accept(newKey(t).note(nostr.Now(), ""))
	for _, name := range []string{"ids", "authors", "kinds", "#d"} {
		c.sendRaw(`["REQ","empty",{"` + name + `":[]}]`)
		if r := c.next(); r.label != "EOSE" {
			t.Errorf("%s: got %v, want EOSE", name, r)
		}
	}
}

func TestStoredEventsComeNewestFirstUpToTheLimit(t *testing.T) {
	s := relaytest.Start(t, relay.Options{Limits: relay.Limits{Results: 6}})
	c := dial(t, s)
	now := nostr.Now()
	var want []string
	for i := range 9 {
		ev := newKey(t).note(now-nostr.Timestamp(i), "")
		c.accept(ev)
		want = append(want, ev.ID)
	}
	for _, tc := range []struct{ limit, n int }{{1, 1}, {4, 4}, {0, 6}, {100, 6}} {
		got := c.stored(nostr.Filter{Kinds: []int{0}, Limit: tc.limit})
		if diff := cmp.Diff(want[:tc.n], ids(got)); diff != "" {
			t.Errorf("limit %d (-want +got):\n%s", tc.limit, diff)
		}
	}
	first, second := now, now-1
	got := c.stored(
		nostr.Filter{Until: &second, Limit: 2},
		nostr.Filter{Since: &second, Until: &first},
	)
	if diff := cmp.Diff(want[:3], ids(got)); diff != "" {
		t.Errorf("two filters answer their union in order, each event once (-want +got):\n%s", diff)
	}
}

func TestEventsOfOneSecondComeByLowestID(t *testing.T) {
	c := dial(t, start(t))
	now := nostr.Now()
	for range 8 {
		c.accept(newKey(t).note(now, ""))
	}
	got := ids(c.stored(nostr.Filter{}))
	for i := 1; i < len(got); i++ {
		if got[i-1] >= got[i] {
			t.Fatalf("order is %v, want ascending ids", got)
		}
	}
}

func TestNewerVersionReplacesOlder(t *testing.T) {
	for name, version := range map[string]func(k *key, at nostr.Timestamp, text string) nostr.Event{
		"replaceable": func(k *key, at nostr.Timestamp, text string) nostr.Event { return k.note(at, text) },
		"addressable": func(k *key, at nostr.Timestamp, text string) nostr.Event {
			return k.card("default", at, nostr.Tag{"t", text})
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, k := dial(t, start(t)), newKey(t)
			now := nostr.Now()
			older, newer := version(k, now-10, "older"), version(k, now, "newer")
			c.accept(older)
			c.accept(newer)
			if diff := cmp.Diff([]string{newer.ID}, ids(c.stored(nostr.Filter{Authors: []string{k.pub}}))); diff != "" {
				t.Errorf("found (-want +got):\n%s", diff)
			}
			for _, stale := range []nostr.Event{older, version(k, now-5, "between")} {
				if r := c.publish(stale); !r.ok || !strings.HasPrefix(r.text, "duplicate: ") {
					t.Errorf("stale version: %v, want OK true duplicate", r)
				}
			}
			if diff := cmp.Diff([]string{newer.ID}, ids(c.stored(nostr.Filter{Authors: []string{k.pub}}))); diff != "" {
				t.Errorf("found after a stale version (-want +got):\n%s", diff)
			}
			if got := c.stored(nostr.Filter{IDs: []string{older.ID}}); len(got) != 0 {
				t.Error("the replaced version is still found by its id")
			}
		})
	}
}

func TestLowestIDWinsATie(t *testing.T) {
	c, k := dial(t, start(t)), newKey(t)
	now := nostr.Now()
	a, b := k.note(now, "a"), k.note(now, "b")
	if a.ID > b.ID {
		a, b = b, a
	}
	c.accept(b)
	c.accept(a)
	if r := c.publish(b); !r.ok || !strings.HasPrefix(r.text, "duplicate: ") {
		t.Errorf("higher id: %v, want OK true duplicate", r)
	}
	if diff := cmp.Diff([]string{a.ID}, ids(c.stored(nostr.Filter{Authors: []string{k.pub}}))); diff != "" {
		t.Errorf("found (-want +got):\n%s", diff)
	}
}

func TestDuplicateIsAnsweredTrue(t *testing.T) {
	c, k := dial(t, start(t)), newKey(t)
	ev := k.note(nostr.Now(), "once")
	c.accept(ev)
	if r := c.publish(ev); !r.ok || !strings.HasPrefix(r.text, "duplicate: ") {
		t.Errorf("second time: %v, want OK true duplicate", r)
	}
}

func TestBadEventsAreRefused(t *testing.T) {
	c, k := dial(t, start(t)), newKey(t)
	now := nostr.Now()
	good := k.note(now, "good")
	wrongID := good
	wrongID.Content = "changed"
	wrongSig := k.note(now, "sig")
	wrongSig.Sig = good.Sig
	otherAuthor := k.note(now, "author")
	otherAuthor.PubKey = newKey(t).pub
	upper := k.note(now, "upper")
	upper.ID = strings.ToUpper(upper.ID)
	for name, tc := range map[string]struct {
		ev     nostr.Event
		prefix string
	}{
		"wrong id":          {wrongID, "invalid: the id"},
		"wrong signature":   {wrongSig, "invalid: the signature"},
		"other author":      {otherAuthor, "invalid: the id"},
		"future":            {k.note(now+16*60, ""), "invalid: created_at"},
		"kind 1":            {k.event(1, now, "", nil), "blocked: kind 1 "},
		"ephemeral kind":    {k.event(20001, now, "", nil), "blocked: kind 20001 "},
		"too many tags":     {k.event(0, now, "", make201()), "invalid: more than 200 tags"},
		"too large":         {k.note(now, strings.Repeat("x", 70<<10)), "invalid: event is larger"},
		"empty tag":         {k.event(0, now, "", nostr.Tags{{}}), "invalid: tag 0"},
		"card without alt":  {k.event(30417, now, "", nostr.Tags{{"d", "x"}}), "invalid: card: "},
		"bad expiration":    {k.event(0, now, "", nostr.Tags{{"expiration", "soon"}}), "invalid: the expiration"},
		"protected, no key": {k.event(0, now, "", nostr.Tags{{"-"}}), "auth-required: "},
	} {
		t.Run(name, func(t *testing.T) { c.refuse(tc.ev, tc.prefix) })
	}
	c.send("EVENT", upper)
	if r := c.next(); r.ok || r.label != "OK" || r.id != "" {
		t.Errorf("id in upper case: %v, want OK false without an id", r)
	}
	if got := c.stored(nostr.Filter{}); len(got) != 0 {
		t.Errorf("stored %v, want nothing", ids(got))
	}
	c.accept(good)
}

func make201() nostr.Tags {
	tags := nostr.Tags{}
	for range 201 {
		tags = append(tags, nostr.Tag{"t", "x"})
	}
	return tags
}

func TestLiveEventsFollowEOSE(t *testing.T) {
	s := start(t)
	c, other, k := dial(t, s), dial(t, s), newKey(t)
	if _, end := c.request("live", nostr.Filter{Authors: []string{k.pub}}, nostr.Filter{Kinds: []int{30417}}); end.label != "EOSE" {
		t.Fatal(end)
	}
	card := k.card("default", nostr.Now())
	other.accept(newKey(t).note(nostr.Now(), "not asked for"))
	other.accept(card)
	r := c.next()
	if r.label != "EVENT" || r.id != "live" || r.event.ID != card.ID {
		t.Fatalf("got %v, want the card", r)
	}
	if want := `{"id":"` + card.ID + `","pubkey":"`; !strings.HasPrefix(string(r.raw), want) || strings.Contains(string(r.raw), ": ") {
		t.Errorf("event is written as %s, want NIP-01 order without spaces", r.raw)
	}
	c.silence() // both filters match, one copy came
	c.send("CLOSE", "live")
	c.silence()
	other.accept(k.note(nostr.Now(), "after close"))
	c.silence()
}

func TestREQOfTheSameIDReplacesTheSubscription(t *testing.T) {
	s := start(t)
	c, other, k := dial(t, s), dial(t, s), newKey(t)
	c.request("s", nostr.Filter{Kinds: []int{0}})
	c.request("s", nostr.Filter{Kinds: []int{0, 30417}})
	ev := k.note(nostr.Now(), "")
	other.accept(ev)
	if r := c.next(); r.label != "EVENT" || r.event.ID != ev.ID {
		t.Fatalf("got %v, want one event", r)
	}
	c.silence()
	c.request("s", nostr.Filter{Kinds: []int{30417}})
	other.accept(newKey(t).note(nostr.Now(), "first filter"))
	c.silence()
}

func TestStaleVersionIsNotSentToSubscriptions(t *testing.T) {
	s := start(t)
	c, other, k := dial(t, s), dial(t, s), newKey(t)
	other.accept(k.card("default", nostr.Now()))
	other.stored(nostr.Filter{}) // its deliveries are over before anybody listens
	c.request("live", nostr.Filter{Kinds: []int{30417}, LimitZero: true})
	if r := other.publish(k.card("default", nostr.Now()-60)); !r.ok {
		t.Fatal(r)
	}
	other.stored(nostr.Filter{}) // the commit and its deliveries are over
	c.silence()
}

func TestBadRequestsAreClosed(t *testing.T) {
	s := relaytest.Start(t, relay.Options{Limits: relay.Limits{Filters: 2, Subscriptions: 2, FilterValues: 3}})
	c := dial(t, s)
	for name, tc := range map[string]struct{ filters, prefix string }{
		"no filter":        {``, "invalid: "},
		"not an object":    {`,[]`, "invalid: "},
		"null":             {`,null`, "invalid: "},
		"unknown element":  {`,{"color":["x"]}`, "unsupported: filter contains unknown elements"},
		"long tag name":    {`,{"#title":["x"]}`, "unsupported: "},
		"search":           {`,{"search":1}`, "invalid: "},
		"short id":         {`,{"ids":["abc"]}`, "invalid: "},
		"upper author":     {`,{"authors":["` + strings.Repeat("A", 64) + `"]}`, "invalid: "},
		"kinds of strings": {`,{"kinds":["1"]}`, "invalid: "},
		"negative limit":   {`,{"limit":-1}`, "invalid: "},
		"fraction":         {`,{"since":1.5}`, "invalid: "},
		"null list":        {`,{"kinds":null}`, "invalid: "},
		"too many values":  {`,{"kinds":[1,2,3,4]}`, "invalid: "},
		"too many filters": {`,{},{},{}`, "invalid: "},
	} {
		t.Run(name, func(t *testing.T) {
			c.sendRaw(`["REQ","r"` + tc.filters + `]`)
			if r := c.next(); r.label != "CLOSED" || r.id != "r" || !strings.HasPrefix(r.text, tc.prefix) {
				t.Errorf("got %v, want CLOSED %q", r, tc.prefix)
			}
		})
	}
	c.request("1", nostr.Filter{})
	c.request("2", nostr.Filter{})
	if _, end := c.request("3", nostr.Filter{}); end.label != "CLOSED" || !strings.HasPrefix(end.text, "restricted: ") {
		t.Errorf("third subscription: %v, want CLOSED restricted", end)
	}
	if _, end := c.request("2", nostr.Filter{}); end.label != "EOSE" {
		t.Errorf("replacing the second: %v, want EOSE", end)
	}
}
