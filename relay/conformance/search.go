package conformance

import (
	"strings"

	"github.com/nbd-wtf/go-nostr"
)

// search is a filter for the words among this trial's kind of event.
func (t *trial) search(text string) filter {
	return filter{"search": text, "kinds": []int{t.options.Kinds.Addressable}}
}

// card is an addressable event about the words: in its alt and t tags, and in
// the content of kinds that are no cards.
func (t *trial) card(k *key, at nostr.Timestamp, words ...string) nostr.Event {
	text := "Contact card about " + strings.Join(words, " ")
	tags := append(nostr.Tags{{"d", "a"}, {"alt", text}}, t.marks(at)...)
	for _, word := range words {
		tags = append(tags, nostr.Tag{"t", word})
	}
	content := ""
	if t.options.Kinds.Addressable != DefaultKinds().Addressable {
		content = text
	}
	return k.sign(t.options.Kinds.Addressable, at, content, tags)
}

// rare is a word nobody else uses.
func rare() string { return "rare" + randomHex(6) }

// searchChecks are about NIP-50.
var searchChecks = []Check{
	conditional("nip50.word-is-found", 50, "a search for a word finds the event that holds it, and no other", func(t *trial) {
		c, word := t.dial(), rare()
		ev := t.card(t.key(), nostr.Now(), word)
		c.accept(ev, t.card(t.key(), nostr.Now(), rare()))
		t.expect("found", c.stored(t.search(word)), ev.ID)
	}),
	conditional("nip50.absent-word-finds-nothing", 50, "a search for a word that no event holds finds nothing", func(t *trial) {
		c := t.dial()
		c.accept(t.card(t.key(), nostr.Now(), rare()))
		t.expect("found", c.stored(t.search(rare())))
	}),
	conditional("nip50.search-joins-other-conditions", 50, "the other conditions of the filter hold for a search", func(t *trial) {
		c, word, k := t.dial(), rare(), t.key()
		a, b := t.card(k, nostr.Now()-9, word), t.card(t.key(), nostr.Now(), word)
		c.accept(a, b)
		f := t.search(word)
		f["authors"] = []string{k.pub}
		t.expect("by author", c.stored(f), a.ID)
		f = t.search(word)
		f["since"] = nostr.Now() - 5
		t.expect("since", c.stored(f), b.ID)
		f = t.search(word)
		f["kinds"] = []int{t.options.Kinds.Replaceable}
		t.expect("of another kind", c.stored(f))
	}),
	conditional("nip50.search-keeps-the-limit", 50, "a search answers no more events than its limit", func(t *trial) {
		c, word := t.dial(), rare()
		for range 3 {
			c.accept(t.card(t.key(), nostr.Now(), word))
		}
		f := t.search(word)
		f["limit"] = 2
		if n := len(c.stored(f)); n != 2 {
			t.failf("%d events came, want 2", n)
		}
	}),
	conditional("nip50.unknown-extensions-are-ignored", 50, "key:value pairs that the relay does not know do not change what is found", func(t *trial) {
		c, word := t.dial(), rare()
		ev := t.card(t.key(), nostr.Now(), word)
		c.accept(ev)
		t.expect("found", c.stored(t.search(word+" parleycheck:yes")), ev.ID)
	}),
	conditional("nip50.search-forgets-what-is-replaced", 50, "a word of a version that was replaced is not found", func(t *trial) {
		c, k, word, next := t.dial(), t.key(), rare(), rare()
		ev := t.card(k, nostr.Now(), next)
		c.accept(t.card(k, nostr.Now()-9, word), ev)
		t.expect("the old word", c.stored(t.search(word)))
		t.expect("the new word", c.stored(t.search(next)), ev.ID)
	}),
	conditional("nip50.search-forgets-what-is-deleted", 50, "a word of a deleted event is not found", func(t *trial) {
		c, k, word := t.dial(), t.key(), rare()
		ev := t.card(k, nostr.Now()-9, word)
		c.accept(ev, t.deletion(k, nostr.Now(), nostr.Tag{"e", ev.ID}))
		t.expect("found", c.stored(t.search(word)))
	}),
	conditional("nip50.strange-text-does-no-harm", 50, "a search for signs, quotes and operators is answered", func(t *trial) {
		for _, text := range []string{"", " ", `"`, `' OR 1=1 --`, "* AND (", "%_\\", "\u0000", "🜁", strings.Repeat("x ", 400)} {
			t.dial().request("s", t.search(text))
		}
	}),
	needing(50, "nip50.wraps-are-not-searched", 59, "a search finds no wrap, with its kind named or not", func(t *trial) {
		h, c := t.hide(), t.dial()
		c.authenticate(t.key())
		for _, f := range []filter{{"search": t.word}, {"search": "sealed " + t.word}, {"search": t.word, "kinds": []int{kindWrap}}, {"search": h.to.pub}} {
			if events, _ := c.request("w", f); h.among(events) {
				t.failf("it is found")
			}
		}
	}),
}
