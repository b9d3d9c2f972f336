package relay_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nbd-wtf/go-nostr"

	"github.com/parleykit/parley/relay"
	"github.com/parleykit/parley/relay/relaytest"
)

func TestWrapsAreHiddenFromEverybodyElse(t *testing.T) {
	s := start(t)
	me, thief := newKey(t), newKey(t)
	w := wrap(t, me.pub)
	dial(t, s).accept(w)

	none := dial(t, s)
	other := dial(t, s)
	other.authenticate(thief)
	for name, f := range map[string]nostr.Filter{
		"no kinds":           {},
		"id":                 {IDs: []string{w.ID}},
		"author":             {Authors: []string{w.PubKey}},
		"recipient":          {Tags: nostr.TagMap{"p": {me.pub}}},
		"id and open kinds":  {IDs: []string{w.ID}, Kinds: []int{0, 5, 10002, 30417}},
		"two recipients":     {Tags: nostr.TagMap{"p": {me.pub, thief.pub}}},
		"time of the wrap":   {Since: &w.CreatedAt, Until: &w.CreatedAt},
		"id, author, p, all": {IDs: []string{w.ID}, Authors: []string{w.PubKey}, Tags: nostr.TagMap{"p": {me.pub}}},
	} {
		t.Run(name, func(t *testing.T) {
			for who, c := range map[string]*client{"nobody": none, "another key": other} {
				if got := c.stored(f); len(got) != 0 {
					t.Errorf("%s found %v without naming the kind", who, ids(got))
				}
			}
			f.Kinds = []int{1059, 30417}
			if got, end := none.request("x", f); len(got) != 0 || end.label != "CLOSED" || !strings.HasPrefix(end.text, "auth-required: ") {
				t.Errorf("nobody naming the kind: %v %v, want CLOSED auth-required", ids(got), end)
			}
			if got := other.stored(f); len(got) != 0 {
				t.Errorf("another key found %v", ids(got))
			}
		})
	}
}

func TestRecipientFindsOwnWrapsOnly(t *testing.T) {
	s := start(t)
	me, second, other := newKey(t), newKey(t), newKey(t)
	pub := dial(t, s)
	mine, also, theirs := wrap(t, me.pub), wrap(t, second.pub), wrap(t, other.pub)
	for _, w := range []nostr.Event{mine, also, theirs} {
		pub.accept(w)
	}
	c := dial(t, s)
	c.authenticate(me)
	find := func(f nostr.Filter, want ...string) {
		t.Helper()
		if diff := cmp.Diff(append([]string{}, want...), ids(c.stored(f))); diff != "" {
			t.Errorf("found (-want +got):\n%s", diff)
		}
	}
	find(nostr.Filter{Kinds: []int{1059}}, mine.ID)
	find(nostr.Filter{Kinds: []int{1059}, Tags: nostr.TagMap{"p": {me.pub, other.pub}}}, mine.ID)
	find(nostr.Filter{Kinds: []int{1059}, Tags: nostr.TagMap{"p": {other.pub}}})
	find(nostr.Filter{Kinds: []int{1059}, IDs: []string{theirs.ID, mine.ID}}, mine.ID)
	find(nostr.Filter{})
	c.authenticate(second)
	if got := c.stored(nostr.Filter{Kinds: []int{1059}}); len(got) != 2 {
		t.Errorf("two keys found %v, want two wraps", ids(got))
	}
}

func TestWrapsAndOpenKindsShareOneLimit(t *testing.T) {
	s, me := start(t), newKey(t)
	c := dial(t, s)
	c.authenticate(me)
	now := nostr.Now()
	var want []string
	for i := range nostr.Timestamp(4) {
		w := newKey(t).event(1059, now-2*i, "", nostr.Tags{{"p", me.pub}})
		note := newKey(t).note(now-2*i-1, "")
		c.accept(w)
		c.accept(note)
		want = append(want, w.ID, note.ID)
	}
	got := c.stored(nostr.Filter{Kinds: []int{0, 1059}, Limit: 3})
	if diff := cmp.Diff(want[:3], ids(got)); diff != "" {
		t.Errorf("found (-want +got):\n%s", diff)
	}
}

func TestLiveWrapsReachTheirRecipientOnly(t *testing.T) {
	s := start(t)
	me, thief := newKey(t), newKey(t)
	mine, other, none := dial(t, s), dial(t, s), dial(t, s)
	mine.authenticate(me)
	other.authenticate(thief)
	mine.request("live", nostr.Filter{Kinds: []int{1059}})
	other.request("live", nostr.Filter{Kinds: []int{1059, 0}}, nostr.Filter{Tags: nostr.TagMap{"p": {me.pub}}}, nostr.Filter{})
	none.request("live", nostr.Filter{}, nostr.Filter{Tags: nostr.TagMap{"p": {me.pub}}})
	w := wrap(t, me.pub)
	dial(t, s).accept(w)
	if r := mine.next(); r.label != "EVENT" || r.event.ID != w.ID {
		t.Errorf("recipient got %v, want the wrap", r)
	}
	other.silence()
	none.silence()
}

func TestLaterKeyDoesNotWidenAnOpenSubscription(t *testing.T) {
	s := start(t)
	first, second := newKey(t), newKey(t)
	c := dial(t, s)
	c.authenticate(first)
	c.request("live", nostr.Filter{Kinds: []int{1059}})
	c.authenticate(second)
	dial(t, s).accept(wrap(t, second.pub))
	c.silence()
}

func TestWrapsAreServedByteForByte(t *testing.T) {
	s, me := start(t), newKey(t)
	w := wrap(t, me.pub)
	tags, _ := json.Marshal(w.Tags)
	want := fmt.Sprintf(`{"id":"%s","pubkey":"%s","created_at":%d,"kind":1059,"tags":%s,"content":"%s","sig":"%s"}`,
		w.ID, w.PubKey, w.CreatedAt, tags, w.Content, w.Sig)
	c := dial(t, s)
	c.authenticate(me)
	c.sendRaw(`["EVENT",` + want + `]`)
	c.next()
	c.send("REQ", "q", nostr.Filter{Kinds: []int{1059}})
	if r := c.next(); string(r.raw) != want {
		t.Errorf("served\n%s\nwant\n%s", r.raw, want)
	}
}

func TestWrapIsRefused(t *testing.T) {
	admitted, refused := newKey(t), newKey(t)
	s := relaytest.Start(t, relay.Options{
		Policy: relay.Policy{WrapQuota: 2, Recipients: []string{admitted.pub}},
	})
	c := dial(t, s)
	now := nostr.Now()
	sender := newKey(t)
	c.refuse(wrap(t, refused.pub), "blocked: ")
	c.refuse(wrap(t, admitted.pub, nostr.Tag{"p", refused.pub}), "invalid: a wrap has exactly one p tag")
	c.refuse(wrap(t, "someone"), "invalid: a wrap has exactly one p tag")
	c.refuse(sender.event(1059, now, "", nil), "invalid: a wrap has exactly one p tag")
	c.refuse(sender.event(1059, now, strings.Repeat("x", 64<<10), nostr.Tags{{"p", admitted.pub}}), "invalid: event is larger")
	c.accept(wrap(t, admitted.pub))
	c.accept(wrap(t, admitted.pub))
	c.refuse(wrap(t, admitted.pub), "rate-limited: the recipient")
	c.accept(sender.note(now, "quota counts wraps only"))
}

func TestExpiryFreesTheQuota(t *testing.T) {
	clock := newClock()
	me := newKey(t)
	s := relaytest.Start(t, relay.Options{Policy: relay.Policy{WrapQuota: 1}, Now: clock.Now, SweepInterval: time.Millisecond})
	c := dial(t, s)
	c.accept(wrap(t, me.pub))
	c.refuse(wrap(t, me.pub), "rate-limited: the recipient")
	clock.advance(2 * time.Hour)
	next := newKey(t).event(1059, nostr.Now(), "", nostr.Tags{{"p", me.pub}})
	eventually(t, func() bool { return c.publish(next).ok })
}

func TestWrapIsKeptNoLongerThanTheRetention(t *testing.T) {
	clock := newClock()
	me := newKey(t)
	s := relaytest.Start(t, relay.Options{Now: clock.Now, Policy: relay.Policy{WrapRetention: time.Hour}})
	c := dial(t, s)
	c.authenticate(me)
	c.accept(newKey(t).event(1059, nostr.Now(), "no expiration", nostr.Tags{{"p", me.pub}}))
	c.accept(newKey(t).event(1059, nostr.Now(), "far", nostr.Tags{{"p", me.pub}, {"expiration", fmt.Sprint(nostr.Now() + 9e9)}}))
	if got := c.stored(nostr.Filter{Kinds: []int{1059}}); len(got) != 2 {
		t.Fatalf("found %v, want both", ids(got))
	}
	clock.advance(61 * time.Minute)
	if got := c.stored(nostr.Filter{Kinds: []int{1059}}); len(got) != 0 {
		t.Errorf("found %v after the retention", ids(got))
	}
}
