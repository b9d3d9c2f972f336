package relay_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/nbd-wtf/go-nostr"
	"github.com/nbd-wtf/go-nostr/nip13"

	"github.com/parleykit/parley/internal/database/databasetest"
	"github.com/parleykit/parley/relay"
	"github.com/parleykit/parley/relay/relaytest"
)

// eachRelay runs the test on a relay over each of the stores.
func eachRelay(t *testing.T, test func(t *testing.T, start func(o relay.Options) *relaytest.Server)) {
	t.Run("pebble", func(t *testing.T) {
		test(t, func(o relay.Options) *relaytest.Server { return relaytest.Start(t, o) })
	})
	t.Run("postgres", func(t *testing.T) {
		address := databasetest.NewPostgres(t)
		test(t, func(o relay.Options) *relaytest.Server {
			store, err := relay.OpenPostgres(t.Context(), address, relay.PostgresOptions{})
			if err != nil {
				t.Fatal(err)
			}
			o.Store = store
			return relaytest.Start(t, o)
		})
	})
}

// document is the information document of the relay.
func document(t *testing.T, s *relaytest.Server) (doc struct {
	Name, Description, Icon string
	NIPs                    []int `json:"supported_nips"`
	Kinds                   []int
	PostingPolicy           string `json:"posting_policy"`
	Limitation              struct {
		Work int `json:"min_pow_difficulty"`
		Tags int `json:"max_event_tags"`
	}
	Retention []struct {
		Kinds []int
		Time  int64
	}
},
) {
	t.Helper()
	resp := get(t, "GET", s.HTTP, http.Header{"Accept": {"application/nostr+json"}})
	if err := json.NewDecoder(resp.Body).Decode(&doc); err != nil {
		t.Fatal(err)
	}
	return doc
}

func TestOperatorAddsKindsThatAreKeptByTheirRange(t *testing.T) {
	eachRelay(t, func(t *testing.T, start func(relay.Options) *relaytest.Server) {
		s := start(relay.Options{Policy: relay.Policy{Kinds: []int{1, 5, 62, 10000, 30023}}})
		c, k, now := dial(t, s), newKey(t), nostr.Now()
		notes := []nostr.Event{k.event(1, now-2, "one", nil), k.event(1, now-1, "two", nil)}
		lists := []nostr.Event{k.event(10000, now-2, "old", nil), k.event(10000, now-1, "new", nil)}
		texts := []nostr.Event{
			k.event(30023, now-2, "old", nostr.Tags{{"d", "a"}}), k.event(30023, now-1, "new", nostr.Tags{{"d", "a"}}), k.event(30023, now, "other", nostr.Tags{{"d", "b"}}),
		}
		for _, ev := range slices.Concat(notes, lists, texts) {
			c.accept(ev)
		}
		c.refuse(k.note(now, "a profile"), "blocked: kind 0")
		c.refuse(k.card("default", now), "blocked: kind 30417")
		c.refuse(k.event(20001, now, "", nil), "blocked: kind 20001")
		c.accept(k.event(5, now, "", nostr.Tags{{"e", notes[0].ID}, {"a", "30023:" + k.pub + ":b"}}))
		got := ids(c.stored(nostr.Filter{Authors: []string{k.pub}, Kinds: []int{1, 10000, 30023}}))
		want := []string{notes[1].ID, lists[1].ID, texts[1].ID}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("kept %v, want %v", got, want)
		}
		// A filter without kinds means all of them.
		if got := c.stored(nostr.Filter{Authors: []string{k.pub}}); len(got) != 4 {
			t.Errorf("without kinds %d events are found, want 4", len(got))
		}
		if doc := document(t, s); !slices.Equal(doc.Kinds, []int{1, 5, 62, 10000, 30023}) || len(doc.Retention) != 1 {
			t.Errorf("the document says %v", doc)
		}
	})
}

func TestAuthorsAreListedOrDenied(t *testing.T) {
	listed, denied, stranger := newKey(t), newKey(t), newKey(t)
	s := relaytest.Start(t, relay.Options{Policy: relay.Policy{Authors: []string{listed.pub}, Denied: []string{denied.pub}}})
	c, now := dial(t, s), nostr.Now()
	c.accept(listed.note(now, ""))
	c.refuse(denied.note(now, ""), "blocked: this key")
	c.refuse(stranger.note(now, ""), "restricted: only listed keys")
	// Wraps are signed by throwaway keys, and nobody is kept from leaving.
	c.accept(wrap(t, stranger.pub))
	c.refuse(wrap(t, denied.pub), "blocked: wraps for this recipient")
	for _, k := range []*key{denied, stranger} {
		c.accept(k.event(5, now-1, "", nostr.Tags{{"e", listed.note(now, "").ID}}))
		c.accept(k.event(62, now, "", nostr.Tags{{"relay", "ALL_RELAYS"}}))
	}
	s.SetPolicy(t, relay.Policy{})
	c.accept(stranger.note(now+1, ""))
	c.accept(denied.note(now+1, ""))
}

func TestCardNeedsACarrierOfThePolicy(t *testing.T) {
	s := relaytest.Start(t, relay.Options{Policy: relay.Policy{Carriers: []string{"nostr", "https"}}})
	c, k, now := dial(t, s), newKey(t), nostr.Now()
	c.refuse(k.card("default", now), "blocked: a card names a carrier of these here: nostr, https")
	c.accept(k.card("default", now, carried("nostr", "wss://relay.example/")...))
}

func TestWorkIsAskedForByKindAndCommittedTo(t *testing.T) {
	s := relaytest.Start(t, relay.Options{Policy: relay.Policy{Work: 4, KindWork: map[int]int{0: 8, 5: 0}}})
	c, k, now := dial(t, s), newKey(t), nostr.Now()
	worked := func(kind, bits, committed int) nostr.Event {
		t.Helper()
		for i := 0; ; i++ {
			ev := k.event(kind, now, "", nil)
			ev.Tags = nostr.Tags{{"nonce", fmt.Sprint(i), fmt.Sprint(committed)}}
			if ev.ID = ev.GetID(); nip13.Difficulty(ev.ID) >= bits {
				if err := ev.Sign(k.secret); err != nil {
					t.Fatal(err)
				}
				return ev
			}
		}
	}
	c.refuse(k.event(0, now, "", nil), "pow: the id needs 8 zero bits")
	c.refuse(worked(0, 8, 7), "pow: the nonce tag commits to less")
	c.refuse(worked(10002, 4, 3), "pow: the nonce tag commits to less")
	c.accept(worked(0, 8, 8))
	c.accept(worked(10002, 4, 12))
	c.accept(k.event(5, now, "", nostr.Tags{{"e", k.note(now, "").ID}}))
	forged := k.event(0, now+1, "", nostr.Tags{{"nonce", "1", "8"}})
	forged.ID = "000000000000" + forged.ID[12:]
	c.refuse(forged, "invalid: the id is not the hash")
	if doc := document(t, s); doc.Limitation.Work != 0 || !slices.Contains(doc.NIPs, 13) {
		t.Errorf("the document says %v", doc)
	}
	s.SetPolicy(t, relay.Policy{Work: 4})
	if doc := document(t, s); doc.Limitation.Work != 4 {
		t.Errorf("the document says %v", doc)
	}
	s.SetPolicy(t, relay.Policy{})
	if doc := document(t, s); doc.Limitation.Work != 0 || slices.Contains(doc.NIPs, 13) {
		t.Errorf("the document says %v", doc)
	}
}

func TestRateOfAKeyHoldsOverItsConnections(t *testing.T) {
	s := relaytest.Start(t, relay.Options{Now: newClock().Now, Limits: relay.Limits{KeyEventRate: 1, KeyEventBurst: 3}})
	a, b := dial(t, s), dial(t, s)
	k, other, now := newKey(t), newKey(t), nostr.Now()
	forged := k.note(now, "forged")
	forged.Sig = other.note(now, "").Sig
	for range 5 { // nobody uses up the rate of another key
		a.refuse(forged, "invalid: the signature")
	}
	a.accept(k.note(now-3, "1"))
	b.accept(k.note(now-2, "2"))
	a.accept(k.note(now-1, "3"))
	b.refuse(k.note(now, "4"), "rate-limited: too many events of this key")
	b.accept(other.note(now, "another key"))
	for range 5 {
		b.accept(wrap(t, k.pub))
	}
}

func TestRelayListForWrapsNamesRelays(t *testing.T) {
	c, k, now := dial(t, start(t)), newKey(t), nostr.Now()
	c.refuse(k.event(10050, now, "", nil), "invalid: a list of relays")
	c.refuse(k.event(10050, now, "", nostr.Tags{{"relay", "https://relay.example"}}), "invalid: a relay tag")
	list := k.event(10050, now, "", nostr.Tags{{"relay", "wss://relay.example"}})
	c.accept(list)
	if got := ids(c.stored(nostr.Filter{Kinds: []int{10050}})); !slices.Equal(got, []string{list.ID}) {
		t.Errorf("found %v", got)
	}
}

func TestChangedPolicyHoldsAtOnceAndABadOneNotAtAll(t *testing.T) {
	s := relaytest.Start(t, relay.Options{Policy: relay.Policy{Name: "before"}})
	c, k, now := dial(t, s), newKey(t), nostr.Now()
	if err := s.Relay.Reconfigure(relay.Policy{Name: "bad", Kinds: []int{1}}, relay.Limits{}); err == nil {
		t.Error("a policy without deletions is taken")
	}
	if err := s.Relay.Reconfigure(relay.Policy{Name: "bad", Kinds: []int{5, 62}}, relay.Limits{Filters: -1}); err == nil {
		t.Error("a negative limit is taken")
	}
	c.accept(k.note(now-1, ""))
	if doc := document(t, s); doc.Name != "before" {
		t.Errorf("the name is %q", doc.Name)
	}
	if err := s.Relay.Reconfigure(relay.Policy{Name: "after", Kinds: []int{5, 62, 1}, PostingPolicy: "https://relay.example/rules"}, relay.Limits{EventTags: 20}); err != nil {
		t.Fatal(err)
	}
	c.refuse(k.note(now, ""), "blocked: kind 0")
	c.accept(k.event(1, now, "", nil))
	var tags nostr.Tags
	for i := range 21 {
		tags = append(tags, nostr.Tag{"t", fmt.Sprint(i)})
	}
	c.refuse(k.event(1, now, "", tags), "invalid: more than 20 tags")
	doc := document(t, s)
	if doc.Name != "after" || !slices.Equal(doc.Kinds, []int{1, 5, 62}) || doc.Limitation.Tags != 20 || doc.PostingPolicy == "" {
		t.Errorf("the document says %v", doc)
	}
}

// carried are the tags of a card with one carrier.
func carried(scheme, address string) []nostr.Tag {
	tags := []nostr.Tag{{"carrier", scheme, address, "1"}, {"L", "parley.carrier"}, {"l", scheme, "parley.carrier"}}
	if scheme == "nostr" {
		tags = append(tags, nostr.Tag{"relays", address})
	}
	return tags
}

func TestBridgeReadsWrapsOfRecipientsWithItsCarrier(t *testing.T) {
	bridge, near, far, other := newKey(t), newKey(t), newKey(t), newKey(t)
	policy := relay.Policy{Bridges: []relay.Bridge{{Key: bridge.pub, Scheme: "ntfy"}}}
	s := relaytest.Start(t, relay.Options{Policy: policy})
	c, now := dial(t, s), nostr.Now()
	ntfy := carried("ntfy", "https://ntfy.example/topic")
	c.accept(near.card("default", now, ntfy...))
	c.accept(far.card("default", now, ntfy...))
	c.accept(other.card("default", now, carried("nostr", "wss://relay.example/")...))
	var wraps []string
	for _, k := range []*key{near, far, other} {
		w := wrap(t, k.pub)
		c.accept(w)
		wraps = append(wraps, w.ID)
	}
	of := func(keys ...*key) nostr.Filter {
		f := nostr.Filter{Kinds: []int{1059}, Tags: nostr.TagMap{"p": {}}}
		for _, k := range keys {
			f.Tags["p"] = append(f.Tags["p"], k.pub)
		}
		return f
	}
	check := func(what string, c *client, f nostr.Filter, want ...string) {
		t.Helper()
		got := ids(c.stored(f))
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s: found %v, want %v", what, got, want)
		}
	}
	b := dial(t, s)
	b.authenticate(bridge)
	check("recipients with the carrier", b, of(near, far, other), wraps[0], wraps[1])
	check("nobody named", b, nostr.Filter{Kinds: []int{1059}})
	check("by id", b, nostr.Filter{Kinds: []int{1059}, IDs: wraps})
	stranger := dial(t, s)
	stranger.authenticate(newKey(t))
	check("another key", stranger, of(near, far, other))

	// Live, for the subscription that named them.
	if _, end := b.request("live", of(near, other)); end.label != "EOSE" {
		t.Fatal(end)
	}
	hidden, shown := wrap(t, other.pub), wrap(t, near.pub)
	c.accept(hidden)
	c.accept(shown)
	if r := b.next(); r.label != "EVENT" {
		t.Fatal(r)
	}
	check("wraps may not hide behind it", b, of(far), wraps[1])

	policy.Bridges[0].Recipients = []string{far.pub}
	s.SetPolicy(t, policy)
	check("narrowed", b, of(near, far), wraps[1])
	c.accept(far.event(5, now+1, "", nostr.Tags{{"a", "30417:" + far.pub + ":default"}}))
	check("the card is gone", b, of(near, far))
	s.SetPolicy(t, relay.Policy{})
	check("the right is gone", b, of(near, far))
}

func TestRelayListIsFoundByItsAuthor(t *testing.T) {
	eachRelay(t, func(t *testing.T, start func(relay.Options) *relaytest.Server) {
		c, k, now := dial(t, start(relay.Options{})), newKey(t), nostr.Now()
		older := k.event(10002, now-1, "", nostr.Tags{{"r", "wss://a.example/"}})
		newer := k.event(10002, now, "", nostr.Tags{{"r", "wss://b.example/", "read"}, {"r", "wss://c.example/", "write"}})
		c.accept(older)
		c.accept(newer)
		if r := c.publish(older); !r.ok {
			t.Errorf("the older one: %v", r)
		}
		for _, f := range []nostr.Filter{{Authors: []string{k.pub}, Kinds: []int{10002}}, {Tags: nostr.TagMap{"r": {"wss://b.example/"}}}} {
			if got := ids(c.stored(f)); !slices.Equal(got, []string{newer.ID}) {
				t.Errorf("%v finds %v", f, got)
			}
		}
		c.accept(k.event(5, now, "", nostr.Tags{{"a", "10002:" + k.pub + ":"}}))
		if got := c.stored(nostr.Filter{Authors: []string{k.pub}, Kinds: []int{10002}}); len(got) != 0 {
			t.Errorf("after its deletion %v is found", ids(got))
		}
	})
}
