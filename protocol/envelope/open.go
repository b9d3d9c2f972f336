package envelope

import (
	"bytes"
	"fmt"
	"strconv"
	"time"

	"github.com/nbd-wtf/go-nostr"
	"github.com/nbd-wtf/go-nostr/nip44"

	"github.com/parleykit/parley/protocol/canonical"
	"github.com/parleykit/parley/protocol/message"
)

// Opened is what a wrap held: a message, or one part of a longer one.
type Opened struct {
	WrapID  string           // id of the wrap, 64 lowercase hex
	Sender  string           // key that signed the seal, 64 lowercase hex
	Expires time.Time        // the wrap's expiration, always after now
	Message *message.Message // nil when Part is set
	Part    *Part            // nil when Message is set
}

// Open decrypts one wrap addressed to me and checks all of it: the exact bytes,
// id and signature of the wrap, its kind, recipient and expiration; kind, tags,
// id and signature of the seal; kind, id and key of the unsigned rumor; shape,
// sender, recipient and times of the message. Reason tells which check failed.
// An error tells of the message at most the names of its members.
func Open(wrap []byte, me Keyer, now time.Time) (*Opened, error) {
	outer, err := parseWrap(wrap)
	if err != nil {
		return nil, err
	}
	expires, err := checkWrap(outer, me.PublicKey(), now)
	if err != nil {
		return nil, err
	}
	seal, err := openSeal(outer, me)
	if err != nil {
		return nil, err
	}
	rumor, err := openRumor(seal, me)
	if err != nil {
		return nil, err
	}
	opened := &Opened{WrapID: outer.ID, Sender: seal.PubKey, Expires: expires}
	if err := opened.content(rumor, me.PublicKey(), now); err != nil {
		return nil, err
	}
	return opened, nil
}

// Outside is what anybody can read of a wrap.
type Outside struct {
	ID        string    // of the wrap, 64 lowercase hex
	Recipient string    // 64 lowercase hex
	Expires   time.Time // always after now
}

// Inspect checks all of a wrap that needs no key, as Open does first: the exact
// bytes, kind, the one recipient, expiration, id and signature. It is for those who
// store wraps for others.
func Inspect(wrap []byte, now time.Time) (Outside, error) {
	outer, err := parseWrap(wrap)
	if err != nil {
		return Outside{}, err
	}
	recipient, _ := onlyTag(outer.Tags, "p")
	if !canonical.IsHex(recipient, 32) {
		return Outside{}, ErrRecipient
	}
	expires, err := checkWrap(outer, recipient, now)
	return Outside{outer.ID, recipient, expires}, err
}

// parseWrap reads a wrap and insists on its one spelling: what EncodeEvent
// would write.
func parseWrap(wrap []byte) (*nostr.Event, error) {
	if len(wrap) > EventLimit {
		return nil, fmt.Errorf("%w: wrap of %d bytes", ErrTooLarge, len(wrap))
	}
	ev, err := canonical.DecodeEvent(wrap)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	exact, err := canonical.EncodeEvent(ev)
	if err != nil || !bytes.Equal(exact, wrap) {
		return nil, fmt.Errorf("%w: not the exact bytes of an event", ErrMalformed)
	}
	return ev, nil
}

// checkWrap checks the outer layer, the cheap things first, and returns its
// expiration.
func checkWrap(wrap *nostr.Event, me string, now time.Time) (time.Time, error) {
	if wrap.Kind != KindWrap {
		return time.Time{}, fmt.Errorf("%w: kind %d", ErrKind, wrap.Kind)
	}
	if p, once := onlyTag(wrap.Tags, "p"); !once || p != me {
		return time.Time{}, ErrRecipient
	}
	expires, err := checkExpiration(wrap.Tags, now)
	if err != nil {
		return time.Time{}, err
	}
	if !authentic(wrap) {
		return time.Time{}, ErrSignature
	}
	return expires, nil
}

// checkExpiration wants an expiration that has not passed and lies no further
// ahead than a message sent now could live.
func checkExpiration(tags nostr.Tags, now time.Time) (time.Time, error) {
	text, once := onlyTag(tags, "expiration")
	seconds, err := strconv.ParseInt(text, 10, 64)
	if !once || err != nil || strconv.FormatInt(seconds, 10) != text {
		return time.Time{}, fmt.Errorf("%w: expiration tag", ErrMalformed)
	}
	expires := time.Unix(seconds, 0).UTC()
	switch {
	case !now.Before(expires):
		return time.Time{}, fmt.Errorf("%w: wrap", ErrExpired)
	case expires.After(now.Add(message.MaxSkew + message.MaxLifetime + expirationStep)):
		return time.Time{}, fmt.Errorf("%w: expiration too far ahead", ErrMalformed)
	}
	return expires, nil
}

// onlyTag returns the value of the tag with this name if there is exactly one.
func onlyTag(tags nostr.Tags, name string) (value string, once bool) {
	count := 0
	for _, tag := range tags {
		if len(tag) > 0 && tag[0] == name {
			count++
			if len(tag) > 1 {
				value = tag[1]
			}
		}
	}
	return value, count == 1
}

// authentic checks id and signature. The library's signature check ignores
// the id that is written down.
func authentic(ev *nostr.Event) bool {
	if !ev.CheckID() {
		return false
	}
	valid, err := ev.CheckSignature()
	return err == nil && valid
}

// openSeal decrypts the seal out of a wrap and checks it.
func openSeal(wrap *nostr.Event, me Keyer) (*nostr.Event, error) {
	plain, err := decrypt(wrap, me)
	if err != nil {
		return nil, err
	}
	return parseSeal(plain)
}

func parseSeal(plain []byte) (*nostr.Event, error) {
	seal, err := canonical.DecodeEvent(plain)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: shape", ErrSeal)
	case seal.Kind != KindSeal:
		return nil, fmt.Errorf("%w: kind %d", ErrSeal, seal.Kind)
	case len(seal.Tags) != 0:
		return nil, fmt.Errorf("%w: has tags", ErrSeal)
	case !authentic(seal):
		return nil, fmt.Errorf("%w: signature", ErrSeal)
	}
	return seal, nil
}

// openRumor decrypts the rumor out of a seal and checks it.
func openRumor(seal *nostr.Event, me Keyer) (*nostr.Event, error) {
	plain, err := decrypt(seal, me)
	if err != nil {
		return nil, err
	}
	return parseRumor(plain, seal.PubKey)
}

func parseRumor(plain []byte, sealedBy string) (*nostr.Event, error) {
	rumor, err := canonical.DecodeEvent(plain)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: shape", ErrRumor)
	case rumor.Sig != "":
		return nil, fmt.Errorf("%w: is signed", ErrRumor)
	case rumor.PubKey != sealedBy:
		return nil, fmt.Errorf("%w: rumor of another key", ErrSender)
	case rumor.Kind != KindRumor:
		return nil, fmt.Errorf("%w: kind %d", ErrRumor, rumor.Kind)
	case !rumor.CheckID():
		return nil, fmt.Errorf("%w: id", ErrRumor)
	}
	return rumor, nil
}

// decrypt undoes the NIP-44 encryption of an event's content.
func decrypt(outer *nostr.Event, me Keyer) ([]byte, error) {
	// Checked here because the library would index into nothing when the
	// payload is all line breaks.
	if _, err := decodeBase64(outer.Content); err != nil {
		return nil, fmt.Errorf("%w: not base64", ErrDecrypt)
	}
	key, err := me.ConversationKey(outer.PubKey)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDecrypt, err)
	}
	plain, err := nip44.Decrypt(outer.Content, key)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDecrypt, err)
	}
	return []byte(plain), nil
}

// content reads the rumor's tags and with them its content.
func (o *Opened) content(rumor *nostr.Event, me string, now time.Time) error {
	part, deflate, err := readTags(rumor.Tags)
	if err != nil {
		return err
	}
	if part != nil {
		if rumor.Content == "" {
			return fmt.Errorf("%w: empty part", ErrRumor)
		}
		part.Deflate, part.Slice = deflate, rumor.Content
		o.Part = part
		return nil
	}
	data, err := unpack(rumor.Content, deflate)
	if err != nil {
		return err
	}
	o.Message, err = read(data, o.Sender, me, now)
	return err
}

// readTags takes an encoding tag and a part tag, each at most once, and
// nothing else.
func readTags(tags nostr.Tags) (part *Part, deflate bool, err error) {
	for _, tag := range tags {
		switch {
		case len(tag) == 2 && tag[0] == encodingTag[0] && tag[1] == encodingTag[1] && !deflate:
			deflate = true
		case len(tag) > 0 && tag[0] == "part" && part == nil:
			if part, err = parsePart(tag); err != nil {
				return nil, false, err
			}
		default:
			return nil, false, fmt.Errorf("%w: unknown or repeated tag", ErrRumor)
		}
	}
	return part, deflate, nil
}

// read parses message JSON and checks who wrote it, for whom and when.
func read(data []byte, sender, me string, now time.Time) (*message.Message, error) {
	m, err := message.Parse(data)
	switch {
	case err != nil:
		return nil, messageError(err)
	case m.From != sender:
		return nil, fmt.Errorf("%w: message from another key", ErrSender)
	case m.To != me:
		return nil, fmt.Errorf("%w: message to another key", ErrRecipient)
	}
	if err := m.Check(now); err != nil {
		return nil, messageError(err)
	}
	return m, nil
}
