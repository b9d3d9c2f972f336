package envelope

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/nbd-wtf/go-nostr"
	"github.com/nbd-wtf/go-nostr/nip44"

	"github.com/parleykit/parley/protocol/canonical"
	"github.com/parleykit/parley/protocol/message"
)

// Kinds of the three layers. 13 and 1059 are NIP-59's; 1417 is a Parley
// message and never published.
const (
	KindRumor = 1417
	KindSeal  = 13
	KindWrap  = 1059
)

// MaxBackdate is how far a wrap's created_at may lie before its making. A
// reader that resumes by created_at must look back this far and a bit.
const MaxBackdate = 48 * time.Hour

// Keyer holds the secret key of one agent.
type Keyer interface {
	// PublicKey is the agent's key in 64 lowercase hex characters.
	PublicKey() string
	// Sign sets pubkey, id and sig of ev.
	Sign(ev *nostr.Event) error
	// ConversationKey is the NIP-44 version 2 conversation key with peer.
	ConversationKey(peer string) ([32]byte, error)
}

// Wrap is one gift wrap, ready for any carrier.
type Wrap struct {
	ID    string // id of the wrap, 64 lowercase hex
	Bytes []byte // its NIP-01 JSON; carriers pass it on unchanged
}

// Seal encrypts m for its recipient: one wrap, or 2 to MaxParts when it is too
// long for one. Each has a key, a time and nonces of its own from crypto/rand,
// so sealing the same message twice gives unrelated wraps. m.From must be
// from's key and m must not be expired at now.
func Seal(m *message.Message, from Keyer, now time.Time) ([]Wrap, error) {
	return sealWith(rand.Reader, m, from, now)
}

// sealWith is Seal with the source of every random choice named.
func sealWith(entropy io.Reader, m *message.Message, from Keyer, now time.Time) ([]Wrap, error) {
	if m.From != from.PublicKey() {
		return nil, fmt.Errorf("%w: message from another key", ErrSender)
	}
	if err := m.Check(now); err != nil {
		return nil, messageError(err)
	}
	data, err := m.Encode()
	if err != nil {
		return nil, messageError(err)
	}
	peer, err := from.ConversationKey(m.To)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRecipient, err)
	}
	s := &sealer{entropy: entropy, from: from, peer: peer, message: m, now: now}
	contents, tags, err := s.slices(data)
	if err != nil {
		return nil, err
	}
	wraps := make([]Wrap, len(contents))
	for i, content := range contents {
		if wraps[i], err = s.wrap(content, tags[i]); err != nil {
			return nil, err
		}
	}
	return wraps, nil
}

// sealer is what the wraps of one message have in common.
type sealer struct {
	entropy io.Reader
	from    Keyer
	peer    [32]byte // conversation key of sender and recipient
	message *message.Message
	now     time.Time
}

// slices packs the message's JSON and cuts it where one wrap cannot hold it;
// it returns the contents of the rumors and their tags.
func (s *sealer) slices(data []byte) ([]string, []nostr.Tags, error) {
	content, tags := pack(data)
	if escapedLen(content) <= maxContent(tags) {
		return []string{content}, []nostr.Tags{tags}, nil
	}
	part := Part{Index: MaxParts, Total: MaxParts, Digest: canonical.Digest(data)}
	contents := split(content, maxContent(append(tags[:len(tags):len(tags)], part.tag())))
	if len(contents) > MaxParts {
		return nil, nil, fmt.Errorf("%w: %d parts, at most %d", ErrTooLarge, len(contents), MaxParts)
	}
	part.Total = len(contents)
	all := make([]nostr.Tags, len(contents))
	for i := range contents {
		part.Index = i + 1
		all[i] = append(tags[:len(tags):len(tags)], part.tag())
	}
	return contents, all, nil
}

// wrap builds the three layers around one content.
func (s *sealer) wrap(content string, tags nostr.Tags) (Wrap, error) {
	rumor := nostr.Event{
		Kind: KindRumor, PubKey: s.message.From, CreatedAt: nostr.Timestamp(s.message.SentAt.Unix()),
		Tags: tags, Content: content,
	}
	rumor.ID = rumor.GetID()
	seal, err := s.seal(&rumor)
	if err != nil {
		return Wrap{}, err
	}
	wrap, err := s.giftWrap(seal)
	if err != nil {
		return Wrap{}, err
	}
	data, err := canonical.EncodeEvent(wrap)
	if err != nil {
		return Wrap{}, err
	}
	if len(data) > EventLimit {
		return Wrap{}, fmt.Errorf("%w: wrap of %d bytes", ErrTooLarge, len(data))
	}
	return Wrap{ID: wrap.ID, Bytes: data}, nil
}

func (s *sealer) seal(rumor *nostr.Event) (*nostr.Event, error) {
	seal := &nostr.Event{Kind: KindSeal, CreatedAt: s.past(), Tags: nostr.Tags{}}
	var err error
	if seal.Content, err = s.encrypt(rumor, s.peer); err != nil {
		return nil, err
	}
	if err := s.from.Sign(seal); err != nil {
		return nil, fmt.Errorf("envelope: signing the seal: %w", err)
	}
	if seal.PubKey != s.message.From {
		return nil, fmt.Errorf("%w: seal signed by another key", ErrSender)
	}
	return seal, nil
}

func (s *sealer) giftWrap(seal *nostr.Event) (*nostr.Event, error) {
	secret := hex.EncodeToString(s.random(32))
	key, err := nip44.GenerateConversationKey(s.message.To, secret)
	if err != nil {
		return nil, fmt.Errorf("%w: agreeing on a wrap key", ErrRecipient)
	}
	expiration := roundUp(s.message.ExpiresAt.Time, expirationStep).Unix()
	wrap := &nostr.Event{Kind: KindWrap, CreatedAt: s.past(), Tags: nostr.Tags{
		{"p", s.message.To},
		{"expiration", strconv.FormatInt(expiration, 10)},
	}}
	if wrap.Content, err = s.encrypt(seal, key); err != nil {
		return nil, err
	}
	if err := wrap.Sign(secret); err != nil {
		return nil, fmt.Errorf("envelope: signing the wrap: %w", err)
	}
	return wrap, nil
}

func (s *sealer) encrypt(inner *nostr.Event, key [32]byte) (string, error) {
	data, err := canonical.EncodeEvent(inner)
	if err != nil {
		return "", err
	}
	payload, err := nip44.Encrypt(string(data), key, nip44.WithCustomNonce(s.random(32)))
	if err != nil {
		return "", fmt.Errorf("envelope: encrypting: %w", err)
	}
	return payload, nil
}

// past is a second chosen evenly from the MaxBackdate before now.
func (s *sealer) past() nostr.Timestamp {
	seconds := binary.BigEndian.Uint64(s.random(8)) % uint64(MaxBackdate/time.Second+1)
	return nostr.Timestamp(s.now.Unix() - int64(seconds))
}

// random reads n bytes. crypto/rand never fails; a test's source is long
// enough or the test is wrong.
func (s *sealer) random(n int) []byte {
	data := make([]byte, n)
	if _, err := io.ReadFull(s.entropy, data); err != nil {
		panic("envelope: entropy source failed: " + err.Error())
	}
	return data
}

// expirationStep blurs when exactly a message expires.
const expirationStep = time.Hour

func roundUp(t time.Time, step time.Duration) time.Time {
	down := t.Truncate(step)
	if down.Before(t) {
		return down.Add(step)
	}
	return down
}
