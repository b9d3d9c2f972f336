package conformance

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/nbd-wtf/go-nostr"
)

// hidden is a wrap for somebody that others ask for.
type hidden struct {
	to   *key
	wrap nostr.Event
}

// hide publishes a wrap.
func (t *trial) hide() *hidden {
	h := &hidden{to: t.key()}
	h.wrap = t.wrap(h.to)
	t.dial().accept(h.wrap)
	return h
}

// views are the filters by which somebody could look for the wrap without
// naming its kind.
func (h *hidden) views() map[string]filter {
	return map[string]filter{
		"ids":         {"ids": []string{h.wrap.ID}},
		"authors":     {"authors": []string{h.wrap.PubKey}},
		"#p":          {"#p": []string{h.to.pub}},
		"other kinds": {"ids": []string{h.wrap.ID}, "kinds": []int{0, 10002}},
		"time":        {"since": h.wrap.CreatedAt, "until": h.wrap.CreatedAt, "limit": 20},
	}
}

func (h *hidden) among(events []*message) bool {
	for _, m := range events {
		if m.event.ID == h.wrap.ID {
			return true
		}
	}
	return false
}

// named is the filter of the wraps of this key.
func (h *hidden) named() filter {
	return filter{"kinds": []int{kindWrap}, "#p": []string{h.to.pub}}
}

// wrapChecks are about who sees gift wraps (NIP-17, NIP-59). They need a relay
// that can tell its readers apart.
var wrapChecks = []Check{
	needing(42, "nip59.wrap-is-taken-from-anybody", 59, "a wrap is taken from a connection without a key, although its time lies back", func(t *trial) {
		t.hide()
	}),
	needing(42, "nip59.recipient-finds-the-wrap", 59, "the authenticated recipient finds the wrap", func(t *trial) {
		h, c := t.hide(), t.dial()
		c.authenticate(h.to)
		t.expect("by kind and recipient", c.stored(h.named()), h.wrap.ID)
	}),
	needing(42, "nip59.wrap-comes-back-unchanged", 59, "the wrap is served byte for byte as NIP-01 writes it", func(t *trial) {
		h, c := t.hide(), t.dial()
		c.authenticate(h.to)
		events := c.open("s", h.named())
		tags, _ := json.Marshal(h.wrap.Tags)
		want := fmt.Sprintf(`{"id":"%s","pubkey":"%s","created_at":%d,"kind":1059,"tags":%s,"content":"%s","sig":"%s"}`,
			h.wrap.ID, h.wrap.PubKey, h.wrap.CreatedAt, tags, h.wrap.Content, h.wrap.Sig)
		if len(events) != 1 || !strings.HasSuffix(events[0].raw, `,`+want+`]`) {
			t.failf("it is served in another form")
		}
	}),
	needing(42, "nip59.wrap-is-hidden-from-nobody", 59, "a connection without a key does not find the wrap by any filter", func(t *trial) {
		h, c := t.hide(), t.dial()
		t.unseen(h, c)
		if events, _ := c.request("named", h.named()); h.among(events) {
			t.failf("it is found by its kind")
		}
	}),
	needing(42, "nip59.wrap-is-hidden-from-strangers", 59, "a connection with another key does not find the wrap by any filter", func(t *trial) {
		h, c := t.hide(), t.dial()
		c.authenticate(t.key())
		t.unseen(h, c)
		for _, f := range []filter{h.named(), {"kinds": []int{kindWrap}}, {"kinds": []int{kindWrap}, "ids": []string{h.wrap.ID}}} {
			if events, _ := c.request("named", f); h.among(events) {
				t.failf("it is found by its kind")
			}
		}
	}),
	needing(42, "nip59.naming-wraps-needs-a-key", 59, "a REQ that names wraps without a key is closed with \"auth-required:\"", func(t *trial) {
		h := t.hide()
		if _, end := t.dial().request("w", h.named()); end.label != "CLOSED" || !strings.HasPrefix(end.text, "auth-required:") {
			t.failf("the answer is %s", end)
		}
	}),
	needing(42, "nip59.recipient-finds-own-wraps-only", 59, "a recipient who names another one too finds own wraps only", func(t *trial) {
		a, b := t.hide(), t.hide()
		c := t.dial()
		c.authenticate(a.to)
		both := filter{"kinds": []int{kindWrap}, "#p": []string{a.to.pub, b.to.pub}}
		events, _ := c.request("both", both)
		if b.among(events) {
			t.failf("another one's wrap came")
		}
		noRecipient := filter{"kinds": []int{kindWrap}, "authors": []string{a.wrap.PubKey, b.wrap.PubKey}}
		t.expect("without a recipient", c.stored(noRecipient), a.wrap.ID)
	}),
	needing(42, "nip59.live-wrap-reaches-its-recipient", 59, "a wrap reaches the recipient's open subscription", func(t *trial) {
		c, k := t.dial(), t.key()
		c.authenticate(k)
		c.open("s", filter{"kinds": []int{kindWrap}, "#p": []string{k.pub}})
		w := t.wrap(k)
		t.dial().accept(w)
		c.live("s", w)
	}),
	needing(42, "nip59.live-wrap-reaches-nobody-else", 59, "a wrap reaches no subscription of others, whatever its filter", func(t *trial) {
		k, by, none, other := t.key(), t.dial(), t.dial(), t.dial()
		other.authenticate(t.key())
		for _, c := range []*client{none, other} {
			c.open("s", t.all(), filter{"#p": []string{k.pub}})
			c.request("n", filter{"kinds": []int{kindWrap}, "#p": []string{k.pub}})
		}
		w := t.wrap(k)
		by.accept(w)
		for _, c := range []*client{none, other} {
			came := append(c.heard("s", by), ids(c.take(labelled("EVENT", "n")))...)
			if slices.Contains(came, w.ID) {
				t.failf("it came to a subscription of somebody else")
			}
		}
	}),
	needing(42, "nip59.later-key-does-not-widen-a-subscription", 59, "a key proven later does not add its wraps to a subscription that is open", func(t *trial) {
		a, b, c, by := t.key(), t.key(), t.dial(), t.dial()
		c.authenticate(a)
		c.open("s", filter{"kinds": []int{kindWrap}})
		c.authenticate(b)
		later, w := t.wrap(b), t.wrap(a)
		by.accept(later, w)
		c.live("s", w)
		if slices.Contains(ids(c.take(labelled("EVENT", "s"))), later.ID) {
			t.failf("a wrap for the later key came")
		}
	}),
	needing(42, "nip59.stranger-cannot-delete-a-wrap", 59, "a deletion request of a stranger does not delete a wrap", func(t *trial) {
		h, c := t.hide(), t.dial()
		c.publish(t.deletion(t.key(), nostr.Now(), nostr.Tag{"e", h.wrap.ID}, nostr.Tag{"k", "1059"}))
		c.authenticate(h.to)
		t.expect("left", c.stored(h.named()), h.wrap.ID)
	}),
	needing(42, "nip59.wraps-do-not-take-places-of-a-limit", 59, "wraps that are hidden do not count against a limit", func(t *trial) {
		h, c := t.hide(), t.dial()
		ev := h.to.sign(t.options.Kinds.Replaceable, h.wrap.CreatedAt-10, "{}", append(t.marks(0), nostr.Tag{"p", h.to.pub}))
		c.accept(ev)
		t.expect("the newest visible one", c.stored(filter{"#p": []string{h.to.pub}, "limit": 1}), ev.ID)
	}),
}

// unseen demands that no view shows the wrap.
func (t *trial) unseen(h *hidden, c *client) {
	for name, f := range h.views() {
		if events, _ := c.request("v", f); h.among(events) {
			t.failf("it is found by %s", name)
		}
	}
}
