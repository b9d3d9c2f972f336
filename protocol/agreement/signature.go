package agreement

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/parleykit/parley/protocol/canonical"
)

// KindSignature is the Nostr kind of a signature over an act. It is never
// published; the number is not in the public table of kinds.
const KindSignature = 1418

// MaxSkew is how far created_at of a signature may lie ahead of the venue's
// clock, and for a proposal also behind it.
const MaxSkew = 15 * time.Minute

// MaxSignatureSize bounds a signature document in bytes before parsing.
const MaxSignatureSize = 64 << 10

// Signer holds a secp256k1 key. Sign fills in pubkey, id and sig.
type Signer interface {
	PublicKey() string // lower-case hex
	Sign(ev *nostr.Event) error
}

// Signature is a NIP-01 event as documents carry it, read without tolerance.
type Signature struct {
	ID        string     `json:"id"`
	PubKey    string     `json:"pubkey"`
	CreatedAt int64      `json:"created_at"`
	Kind      int        `json:"kind"`
	Tags      [][]string `json:"tags"`
	Content   string     `json:"content"`
	Sig       string     `json:"sig"`
}

// ParseSignature reads one NIP-01 event strictly: seven members, nothing else,
// kind 1418. It does not verify it. Errors are *Refusal with CodeInvalid.
func ParseSignature(data []byte) (*nostr.Event, error) {
	s := new(Signature)
	if err := decode(data, MaxSignatureSize, s); err != nil {
		return nil, err
	}
	if s.Kind != KindSignature {
		return nil, refuse(CodeInvalid, "/kind: not %d", KindSignature)
	}
	ev := s.Event()
	return &ev, nil
}

// SignatureOf is ev as documents carry it.
func SignatureOf(ev nostr.Event) Signature {
	tags := make([][]string, len(ev.Tags))
	for i, tag := range ev.Tags {
		tags[i] = slices.Clone(tag)
	}
	return Signature{ev.ID, ev.PubKey, int64(ev.CreatedAt), ev.Kind, tags, ev.Content, ev.Sig}
}

// Event is s as a Nostr event.
func (s Signature) Event() nostr.Event {
	tags := make(nostr.Tags, len(s.Tags))
	for i, tag := range s.Tags {
		tags[i] = slices.Clone(tag)
	}
	return nostr.Event{
		ID: s.ID, PubKey: s.PubKey, CreatedAt: nostr.Timestamp(s.CreatedAt), Kind: s.Kind,
		Tags: tags, Content: s.Content, Sig: s.Sig,
	}
}

// signatureTags are the tags of a signature, all of them, in their order.
func signatureTags(a *Agreement, digest, action, outcome string) nostr.Tags {
	tags := nostr.Tags{
		{"venue", a.Venue},
		{"agreement", a.AgreementID},
		{"revision", strconv.FormatInt(a.Revision, 10)},
		{"x", digest},
		{"action", action},
	}
	if outcome != "" {
		tags = append(tags, nostr.Tag{"outcome", outcome})
	}
	return append(tags, nostr.Tag{"-"})
}

// Sign makes the kind-1418 event by which by does action on the digest. The
// content is the advisory text, so that it is bound as well. Whoever signs
// must have computed the digest from the revision it was shown.
func Sign(a *Agreement, digest, action, body string, by Signer, now time.Time) (nostr.Event, error) {
	return sign(signatureTags(a, digest, action, ""), body, by, now)
}

func sign(tags nostr.Tags, content string, by Signer, now time.Time) (nostr.Event, error) {
	ev := nostr.Event{
		PubKey: by.PublicKey(), CreatedAt: nostr.Timestamp(now.Unix()), Kind: KindSignature,
		Tags: tags, Content: content,
	}
	if err := by.Sign(&ev); err != nil {
		return nostr.Event{}, fmt.Errorf("agreement: signing: %w", err)
	}
	return ev, nil
}

// VerifySignature tells whether ev proves that pubkey did action with body on
// the digest of a: kind, exact tags, content, id, BIP-340 signature, and
// created_at no more than MaxSkew after now. That created_at is not too early
// is for the room, which knows when it was locked. Errors are *Refusal with
// CodeSignatureInvalid.
func VerifySignature(ev nostr.Event, a *Agreement, digest, action, body, pubkey string, now time.Time) error {
	if r := verify(ev, signatureTags(a, digest, action, ""), body, pubkey); r != nil {
		return r
	}
	if created(ev).After(now.Add(MaxSkew)) {
		return refuse(CodeSignatureInvalid, "created_at is more than 15 minutes ahead of the venue's clock")
	}
	return nil
}

func created(ev nostr.Event) time.Time { return time.Unix(int64(ev.CreatedAt), 0) }

func verify(ev nostr.Event, tags nostr.Tags, content, pubkey string) *Refusal {
	switch {
	case ev.Kind != KindSignature:
		return refuse(CodeSignatureInvalid, "kind is not %d", KindSignature)
	case ev.PubKey != pubkey || !canonical.IsHex(ev.PubKey, 32):
		return refuse(CodeSignatureInvalid, "made by another key")
	case !slices.EqualFunc(ev.Tags, tags, func(x, y nostr.Tag) bool { return slices.Equal(x, y) }):
		return refuse(CodeSignatureInvalid, "tags are not those of the act")
	case ev.Content != content:
		return refuse(CodeSignatureInvalid, "content is not that of the act")
	case ev.CreatedAt < 0:
		return refuse(CodeSignatureInvalid, "created_at is negative")
	case !canonical.IsHex(ev.ID, 32) || !ev.CheckID():
		return refuse(CodeSignatureInvalid, "id is not the hash of the event")
	case !canonical.IsHex(ev.Sig, 64):
		return refuse(CodeSignatureInvalid, "sig is not 128 lower-case hex characters")
	}
	if ok, err := ev.CheckSignature(); err != nil || !ok {
		return refuse(CodeSignatureInvalid, "sig does not verify")
	}
	return nil
}
