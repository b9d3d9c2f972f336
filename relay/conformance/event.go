package conformance

import (
	"encoding/json"
	"regexp"
	"strings"

	"github.com/nbd-wtf/go-nostr"
)

// eventChecks are about EVENT and its OK (NIP-01).
var eventChecks = []Check{
	required("nip01.valid-event-is-accepted", 1, "a valid event of a fresh key is answered OK true", func(t *trial) {
		ok := t.dial().publish(t.profile(t.key(), nostr.Now()))
		if !ok.ok {
			t.failf("refused: %s", ok.text)
		}
	}),
	required("nip01.accepted-event-is-found", 1, "an event is found by its id as soon as it was answered OK true", func(t *trial) {
		c, ev := t.dial(), t.addressable(t.key(), "a", nostr.Now())
		c.accept(ev)
		t.expect("by id", c.stored(filter{"ids": []string{ev.ID}}), ev.ID)
	}),
	required("nip01.accepted-event-is-found-by-others", 1, "an event is found on another connection once it was answered OK true", func(t *trial) {
		a, b, ev := t.dial(), t.dial(), t.profile(t.key(), nostr.Now())
		a.accept(ev)
		t.expect("on another connection", b.stored(filter{"ids": []string{ev.ID}}), ev.ID)
	}),
	required("nip01.event-comes-back-unchanged", 1, "an event is served with all its members as they were, its signature valid", func(t *trial) {
		ev := t.profile(t.key(), nostr.Now(), nostr.Tag{"x", "", "third", ""}, nostr.Tag{"alt", "a  b"})
		t.unchanged(ev)
	}),
	required("nip01.any-text-comes-back-unchanged", 1, "control characters, quotes, backslashes and all planes of Unicode come back as they were", func(t *trial) {
		content, _ := json.Marshal(map[string]string{"name": "x", "about": "\u0001\b\t\n\f\r\"\\/\u007f\u2028 äß 漢字 🜁 \u202e"})
		ev := t.key().sign(t.options.Kinds.Replaceable, nostr.Now(), string(content), append(t.marks(0), nostr.Tag{"x", "\n\t\"\\ 🜁\u0000"}))
		t.unchanged(ev)
	}),
	required("nip01.duplicate-is-answered-true", 1, "an event sent again is answered OK true with \"duplicate:\" or nothing", func(t *trial) {
		c, ev := t.dial(), t.profile(t.key(), nostr.Now())
		c.accept(ev)
		ok := c.publish(ev)
		if !ok.ok || ok.text != "" && !strings.HasPrefix(ok.text, "duplicate:") {
			t.failf("the second time: %s", ok)
		}
		t.expect("sent twice", c.stored(t.all()), ev.ID)
	}),
	bad("nip01.wrong-id-is-refused", "an event whose id is not its hash is refused", func(_ *trial, ev *nostr.Event) {
		ev.Content += " "
	}),
	bad("nip01.wrong-signature-is-refused", "an event with the signature of another event is refused", func(t *trial, ev *nostr.Event) {
		k := t.secretOf(ev.PubKey)
		ev.Sig = k.plain(ev.Kind, ev.CreatedAt, "other", ev.Tags).Sig
	}),
	bad("nip01.signature-of-another-key-is-refused", "an event signed by another key than it names is refused", func(t *trial, ev *nostr.Event) {
		ev.PubKey = t.key().pub
		ev.ID = ev.GetID()
	}),
	raw("nip01.upper-case-hex-is-refused", "an id in upper case is refused", func(ev map[string]any) {
		ev["id"] = strings.ToUpper(ev["id"].(string))
	}),
	raw("nip01.short-key-is-refused", "a public key that is too short is refused", func(ev map[string]any) {
		ev["pubkey"] = ev["pubkey"].(string)[:62]
	}),
	raw("nip01.missing-member-is-refused", "an event without created_at is refused", func(ev map[string]any) { delete(ev, "created_at") }),
	raw("nip01.text-as-time-is-refused", "an event whose created_at is a string is refused", func(ev map[string]any) { ev["created_at"] = "1700000000" }),
	raw("nip01.number-as-content-is-refused", "an event whose content is a number is refused", func(ev map[string]any) { ev["content"] = 7 }),
	raw("nip01.kind-beyond-65535-is-refused", "an event of a kind above 65535 is refused", func(ev map[string]any) { ev["kind"] = 65536 }),
	raw("nip01.negative-kind-is-refused", "an event of a negative kind is refused", func(ev map[string]any) { ev["kind"] = -1 }),
	raw("nip01.tag-of-numbers-is-refused", "an event with a tag of numbers is refused", func(ev map[string]any) {
		ev["tags"] = [][]any{{"t", 1}}
	}),
	required("nip01.tag-without-value-is-answered", 1, "a signed event whose d tag has no value is answered with an OK", func(t *trial) {
		c := t.dial()
		ev := t.key().sign(t.options.Kinds.Addressable, nostr.Now(), "", append(t.marks(0), nostr.Tag{"d"}))
		c.send("EVENT", ev)
		c.wait("OK", labelled("OK", ev.ID))
		t.dial().sync()
	}),
	optional("nip01.refusal-has-a-prefix", 1, "an OK false begins with a word in lower case, a colon and a space", func(t *trial) {
		ev := t.profile(t.key(), nostr.Now())
		ev.Content += " "
		ok := t.dial().refuse("a wrong id", ev)
		if !regexp.MustCompile(`^[a-z][a-z-]*: .`).MatchString(ok.text) {
			t.failf("the text is %q", ok.text)
		}
	}),
	required("nip01.regular-events-are-all-kept", 1, "regular events of one author stay beside each other", func(t *trial) {
		c, k, now := t.dial(), t.key(), nostr.Now()
		a, b := t.regular(k, now-1, "a"), t.regular(k, now, "b")
		c.accept(a, b)
		t.expect("both", c.stored(t.all()), a.ID, b.ID)
	}),
	required("nip01.ephemeral-event-is-passed-on-not-stored", 1, "an ephemeral event reaches subscriptions and is not found later", func(t *trial) {
		c, by := t.dial(), t.dial()
		c.open("s", t.all())
		ev := t.key().sign(t.options.Kinds.Ephemeral, nostr.Now(), "", t.marks(0))
		by.accept(ev)
		c.live("s", ev)
		t.expect("later", by.stored(t.all()))
	}),
}

// bad is a check that an event changed after signing is refused, not stored
// and not sent to subscriptions.
func bad(name, property string, change func(t *trial, ev *nostr.Event)) Check {
	return required(name, 1, property, func(t *trial) {
		c, by := t.dial(), t.dial()
		c.open("s", t.all())
		ev := t.profile(t.key(), nostr.Now())
		change(t, &ev)
		by.refuse("it", ev)
		t.expect("refused, by id", by.stored(filter{"ids": []string{ev.ID}}))
		c.silent("the refused event", "s", by)
	})
}

// raw is a check that JSON of another form than an event has is not stored.
// The answer may be an OK false, a NOTICE or a close.
func raw(name, property string, change func(ev map[string]any)) Check {
	return required(name, 1, property, func(t *trial) {
		c := t.dial()
		k := t.key()
		good := t.profile(k, nostr.Now())
		ev := map[string]any{}
		if err := json.Unmarshal([]byte(good.String()), &ev); err != nil {
			t.failf("the check cannot read its event: %v", err)
		}
		change(ev)
		c.send("EVENT", ev)
		if m := c.answer(func(m *message) bool { return m.label == "OK" || m.label == "NOTICE" }); m != nil && m.ok {
			t.failf("it was answered OK true")
		}
		t.expect("stored", t.dial().stored(filter{"authors": []string{k.pub}}))
	})
}

// unchanged publishes the event and compares what is served.
func (t *trial) unchanged(ev nostr.Event) {
	c := t.dial()
	c.accept(ev)
	events := c.open("s", filter{"ids": []string{ev.ID}})
	if len(events) != 1 {
		t.failf("%d events are served, want 1", len(events))
	}
	got := events[0].event
	if valid, err := got.CheckSignature(); err != nil || !valid || !got.CheckID() {
		t.failf("what is served has a wrong id or signature")
	}
	if got.String() != ev.String() {
		t.failf("served as %s", got)
	}
}
