package conformance

import (
	"fmt"
	"time"

	"github.com/nbd-wtf/go-nostr"
)

// expiring is an event of the kind with its own expiration.
func (t *trial) expiring(kind int, at, expires nostr.Timestamp) nostr.Event {
	tags := nostr.Tags{{"d", "a"}, {"alt", "Contact card of a relay check"}, {"t", t.word}, {"expiration", fmt.Sprint(int64(expires))}}
	if kind != t.options.Kinds.Addressable {
		tags = tags[2:]
	}
	return t.key().sign(kind, at, "", tags)
}

// expirationChecks are about NIP-40.
var expirationChecks = []Check{
	conditional("nip40.expired-event-is-not-served", 40, "an event that is expired when it comes is not served", func(t *trial) {
		c := t.dial()
		ev := t.expiring(t.options.Kinds.Replaceable, nostr.Now()-20, nostr.Now()-10)
		c.publish(ev)
		t.expect("by id", c.stored(filter{"ids": []string{ev.ID}}))
	}),
	conditional("nip40.expired-event-is-refused", 40, "an event that is expired when it comes is answered OK false", func(t *trial) {
		t.dial().refuse("it", t.expiring(t.options.Kinds.Addressable, nostr.Now()-20, nostr.Now()-10))
	}),
	conditional("nip40.expired-event-is-not-sent", 40, "an event that is expired when it comes is not sent to subscriptions", func(t *trial) {
		c, by := t.dial(), t.dial()
		c.open("s", t.all())
		by.publish(t.expiring(t.options.Kinds.Replaceable, nostr.Now()-20, nostr.Now()-10))
		c.silent("it", "s", by)
	}),
	conditional("nip40.event-goes-when-it-expires", 40, "an event is served until it expires and not afterwards", func(t *trial) {
		c := t.dial()
		ev := t.expiring(t.options.Kinds.Replaceable, nostr.Now(), nostr.Now()+2)
		if ok := c.publish(ev); !ok.ok {
			t.inconclusivef("an event of two seconds was refused: %s", ok.text)
		}
		// The relay's clock may differ by a few seconds.
		for range 10 {
			t.sleep(500 * time.Millisecond)
			if len(c.stored(filter{"ids": []string{ev.ID}})) == 0 {
				return
			}
		}
		t.failf("it is served three seconds later")
	}),
	conditional("nip40.event-is-served-before-it-expires", 40, "an event that expires in an hour is served", func(t *trial) {
		c := t.dial()
		ev := t.expiring(t.options.Kinds.Addressable, nostr.Now(), nostr.Now()+3600)
		c.accept(ev)
		t.expect("by id", c.stored(filter{"ids": []string{ev.ID}}), ev.ID)
	}),
	conditional("nip40.bad-expiration-does-no-harm", 40, "an event whose expiration is no number is answered with an OK", func(t *trial) {
		c := t.dial()
		ev := t.key().sign(t.options.Kinds.Replaceable, nostr.Now(), "{}", nostr.Tags{{"expiration", "tomorrow"}, {"t", t.word}})
		c.send("EVENT", ev)
		c.wait("OK", labelled("OK", ev.ID))
		c.sync()
	}),
}
