package conformance

import (
	"fmt"

	"github.com/nbd-wtf/go-nostr"
	"github.com/nbd-wtf/go-nostr/nip13"
)

// lifetime of the events of a check in seconds.
const lifetime = 3600

// maxWork is the proof of work, in bits, that a check makes for one event.
const maxWork = 18

// key signs events.
type key struct {
	t           *trial
	secret, pub string
}

// key makes a key for this trial.
func (t *trial) key() *key {
	k := t.keyOf(t.options.Secret())
	t.mu.Lock()
	defer t.mu.Unlock()
	t.keys = append(t.keys, k)
	return k
}

func (t *trial) keyOf(secret string) *key {
	pub, err := nostr.GetPublicKey(secret)
	if err != nil {
		t.skipf("a secret key cannot be used: %v", err)
	}
	return &key{t, secret, pub}
}

// secretOf returns the trial's key with this public key.
func (t *trial) secretOf(pub string) *key {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, k := range t.keys {
		if k.pub == pub {
			return k
		}
	}
	return nil
}

// plain signs an event as it is given, without work.
func (k *key) plain(kind int, at nostr.Timestamp, content string, tags nostr.Tags) nostr.Event {
	ev := nostr.Event{PubKey: k.pub, CreatedAt: at, Kind: kind, Tags: tags, Content: content}
	if ev.Tags == nil {
		ev.Tags = nostr.Tags{}
	}
	if err := ev.Sign(k.secret); err != nil {
		k.t.failf("the check cannot sign: %v", err)
	}
	return ev
}

// sign signs an event with the work that the relay asks for (NIP-13).
func (k *key) sign(kind int, at nostr.Timestamp, content string, tags nostr.Tags) nostr.Event {
	return k.plain(kind, at, content, k.worked(kind, at, content, tags, k.t.info.Limitation.MinPowDifficulty))
}

// worked adds a nonce of that many bits to the tags.
func (k *key) worked(kind int, at nostr.Timestamp, content string, tags nostr.Tags, bits int) nostr.Tags {
	if bits <= 0 {
		return tags
	}
	if bits > maxWork {
		k.t.skipf("the relay asks for %d bits of work", bits)
	}
	ev := nostr.Event{PubKey: k.pub, CreatedAt: at, Kind: kind, Tags: tags, Content: content}
	nonce, err := nip13.DoWork(k.t.ctx, ev, bits)
	if err != nil {
		k.t.inconclusivef("the work of %d bits was not done in time", bits)
	}
	return append(tags[:len(tags):len(tags)], nonce)
}

// marks are the tags of every event of a trial.
func (t *trial) marks(at nostr.Timestamp) nostr.Tags {
	return nostr.Tags{{"t", t.word}, {"expiration", fmt.Sprint(max(at, nostr.Now()) + lifetime)}}
}

// profile is a replaceable event.
func (t *trial) profile(k *key, at nostr.Timestamp, more ...nostr.Tag) nostr.Event {
	return k.sign(t.options.Kinds.Replaceable, at, `{"name":"relay check"}`, append(t.marks(at), more...))
}

// addressable is an addressable event, a valid card when the kind is that.
func (t *trial) addressable(k *key, d string, at nostr.Timestamp, more ...nostr.Tag) nostr.Event {
	tags := append(nostr.Tags{{"d", d}, {"alt", "Contact card of a relay check"}}, t.marks(at)...)
	return k.sign(t.options.Kinds.Addressable, at, "", append(tags, more...))
}

// regular is an event of a regular kind.
func (t *trial) regular(k *key, at nostr.Timestamp, content string) nostr.Event {
	return k.sign(t.options.Kinds.Regular, at, content, t.marks(at))
}

// deletion is a deletion request (NIP-09).
func (t *trial) deletion(k *key, at nostr.Timestamp, targets ...nostr.Tag) nostr.Event {
	return k.sign(nostr.KindDeletion, at, "", append(t.marks(at), targets...))
}

// address is the value of an a tag for the addressable event.
func (t *trial) address(k *key, d string) string {
	return fmt.Sprintf("%d:%s:%s", t.options.Kinds.Addressable, k.pub, d)
}

// wrap is a gift wrap for the recipient under a key nobody keeps (NIP-59).
func (t *trial) wrap(recipient *key) nostr.Event {
	at := nostr.Now()
	tags := nostr.Tags{{"p", recipient.pub}, {"expiration", fmt.Sprint(at + lifetime)}}
	return t.key().sign(kindWrap, at-100, "sealed "+t.word, tags)
}

const (
	kindWrap = 1059 // NIP-59
	kindAuth = 22242
	kindHTTP = 27235 // NIP-98
)

// all is the filter of everything this trial sent, wraps apart.
func (t *trial) all() filter { return filter{"#t": []string{t.word}} }

// with is all narrowed by one more condition.
func (t *trial) with(name string, value any) filter {
	f := t.all()
	f[name] = value
	return f
}
