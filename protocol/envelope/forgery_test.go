package envelope

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/nbd-wtf/go-nostr"
	"github.com/nbd-wtf/go-nostr/nip44"

	"github.com/parleykit/parley/protocol/canonical"
	"github.com/parleykit/parley/protocol/message"
)

// forgery builds a wrap layer by layer and breaks it where it is told to. The
// functions named before run ahead of id and signature, those named after
// change what is already signed; plain functions replace the encrypted JSON.
type forgery struct {
	message                              *message.Message
	sealer, rumorer                      key
	recipient                            key // whom seal and wrap are encrypted for
	beforeRumor, beforeSeal, beforeWrap  func(*nostr.Event)
	afterRumor, afterSeal, afterWrap     func(*nostr.Event)
	plainRumor, plainSeal                func(string) string
	payloadRumor, payloadSeal, bytesWrap func(string) string
	entropy                              *sealer
}

// forged is a wrap that nothing is wrong with yet.
func forged(t testing.TB, name string) *forgery {
	return &forgery{
		message: text(t, "hello"), sealer: alice, rumorer: alice, recipient: bob,
		entropy: &sealer{entropy: fixedEntropy(name), now: now},
	}
}

func (f *forgery) bytes(t testing.TB) []byte {
	t.Helper()
	data, err := f.message.Encode()
	if err != nil {
		t.Fatal(err)
	}
	rumor := nostr.Event{Kind: KindRumor, PubKey: f.rumorer.PublicKey(), CreatedAt: nostr.Timestamp(now.Unix()), Tags: nostr.Tags{}, Content: string(data)}
	apply(f.beforeRumor, &rumor)
	rumor.ID = rumor.GetID()
	apply(f.afterRumor, &rumor)

	seal := nostr.Event{Kind: KindSeal, CreatedAt: f.entropy.past(), Tags: nostr.Tags{}}
	seal.Content = f.encrypt(t, f.sealer, change(f.plainRumor, encode(t, &rumor)), f.payloadRumor)
	apply(f.beforeSeal, &seal)
	f.sign(t, &seal, f.sealer)
	apply(f.afterSeal, &seal)

	once := key{canonical.Digest(f.entropy.random(32))}
	wrap := nostr.Event{Kind: KindWrap, CreatedAt: f.entropy.past(), Tags: nostr.Tags{
		{"p", f.recipient.PublicKey()}, {"expiration", "1796126400"},
	}}
	wrap.Content = f.encrypt(t, once, change(f.plainSeal, encode(t, &seal)), f.payloadSeal)
	apply(f.beforeWrap, &wrap)
	f.sign(t, &wrap, once)
	apply(f.afterWrap, &wrap)
	return []byte(change(f.bytesWrap, encode(t, &wrap)))
}

func (f *forgery) encrypt(t testing.TB, from key, plain string, payload func(string) string) string {
	t.Helper()
	conversation, err := from.ConversationKey(f.recipient.PublicKey())
	if err != nil {
		t.Fatal(err)
	}
	data, err := nip44.Encrypt(plain, conversation, nip44.WithCustomNonce(f.entropy.random(32)))
	if err != nil {
		t.Fatal(err)
	}
	return change(payload, data)
}

func (f *forgery) sign(t testing.TB, ev *nostr.Event, k key) {
	t.Helper()
	if err := k.Sign(ev); err != nil {
		t.Fatal(err)
	}
}

func encode(t testing.TB, ev *nostr.Event) string {
	t.Helper()
	data, err := canonical.EncodeEvent(ev)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func apply(change func(*nostr.Event), ev *nostr.Event) {
	if change != nil {
		change(ev)
	}
}

func change(f func(string) string, s string) string {
	if f == nil {
		return s
	}
	return f(s)
}

// Ways to break things.

func setKind(kind int) func(*nostr.Event) { return func(ev *nostr.Event) { ev.Kind = kind } }

func setTags(tags ...nostr.Tag) func(*nostr.Event) {
	return func(ev *nostr.Event) { ev.Tags = tags }
}

func addTags(tags ...nostr.Tag) func(*nostr.Event) {
	return func(ev *nostr.Event) { ev.Tags = append(ev.Tags, tags...) }
}

func setContent(content string) func(*nostr.Event) {
	return func(ev *nostr.Event) { ev.Content = content }
}

func constant(s string) func(string) string { return func(string) string { return s } }

func replace(old, new string) func(string) string {
	return func(s string) string { return strings.Replace(s, old, new, 1) }
}

// otherOrder writes the same event as encoding/json's sorted keys would.
func otherOrder(s string) string {
	var members map[string]json.RawMessage
	if err := json.Unmarshal([]byte(s), &members); err != nil {
		panic(err)
	}
	data, err := json.Marshal(members)
	if err != nil {
		panic(err)
	}
	return string(data)
}

// otherID names an id that is not the event's.
func otherID(ev *nostr.Event) { ev.ID = canonical.Digest([]byte(ev.ID)) }

// otherSig has the form of a signature and is none.
func otherSig(ev *nostr.Event) { ev.Sig = strings.Repeat(canonical.Digest([]byte(ev.ID)), 2) }

func upperSig(ev *nostr.Event) { ev.Sig = strings.ToUpper(ev.Sig) }
