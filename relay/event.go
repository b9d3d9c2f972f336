package relay

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/nbd-wtf/go-nostr"

	"github.com/parleykit/parley/protocol/canonical"
)

// Kinds this relay stores.
const (
	kindProfile   = 0     // NIP-01 metadata
	kindDeletion  = 5     // NIP-09 deletion request
	kindWrap      = 1059  // NIP-59 gift wrap
	kindVanish    = 62    // NIP-62 request to vanish
	kindRelayList = 10002 // NIP-65 relay list
	kindInboxList = 10050 // NIP-17 list of relays for wraps
	kindCard      = 30417 // contact card
)

const (
	maxTagItems = 16      // strings of one tag
	maxTagBytes = 4 << 10 // one string of a tag
	maxKind     = 65535   // NIP-01
)

// wireEvent is the JSON of an event. Unknown members are ignored and never
// stored.
type wireEvent struct {
	ID        string     `json:"id"`
	PubKey    string     `json:"pubkey"`
	CreatedAt *int64     `json:"created_at"`
	Kind      *int       `json:"kind"`
	Tags      [][]string `json:"tags"`
	Content   *string    `json:"content"`
	Sig       string     `json:"sig"`
}

// parseEvent reads one event and checks its shape, but neither its id nor
// its signature. The error's text is fit for the peer. When only the shape is
// wrong the event is returned as well, so that an answer can name its id.
func parseEvent(data []byte) (*nostr.Event, error) {
	var w wireEvent
	if err := json.Unmarshal(data, &w); err != nil {
		return nil, errors.New("event is not well-formed JSON of an event")
	}
	if w.CreatedAt == nil || w.Kind == nil || w.Content == nil || w.Tags == nil {
		return &nostr.Event{ID: w.ID}, errors.New("created_at, kind, tags or content is missing")
	}
	ev := w.event()
	return ev, checkShape(ev)
}

// event converts w, of which no member may be missing.
func (w *wireEvent) event() *nostr.Event {
	ev := &nostr.Event{
		ID: w.ID, PubKey: w.PubKey, CreatedAt: nostr.Timestamp(*w.CreatedAt), Kind: *w.Kind,
		Tags: make(nostr.Tags, len(w.Tags)), Content: *w.Content, Sig: w.Sig,
	}
	for i, t := range w.Tags {
		ev.Tags[i] = t
	}
	return ev
}

// checkShape checks the form of every field (NIP-01).
func checkShape(ev *nostr.Event) error {
	switch {
	case !canonical.IsHex(ev.ID, 32):
		return errors.New("id is not 64 lowercase hex digits")
	case !canonical.IsHex(ev.PubKey, 32):
		return errors.New("pubkey is not 64 lowercase hex digits")
	case !canonical.IsHex(ev.Sig, 64):
		return errors.New("sig is not 128 lowercase hex digits")
	case ev.Kind < 0 || ev.Kind > maxKind:
		return errors.New("kind is not between 0 and 65535")
	case ev.CreatedAt < 0:
		return errors.New("created_at is negative")
	}
	for i, tag := range ev.Tags {
		if err := checkTag(tag); err != nil {
			return fmt.Errorf("tag %d %w", i, err)
		}
	}
	return nil
}

func checkTag(tag nostr.Tag) error {
	switch {
	case len(tag) == 0 || tag[0] == "":
		return errors.New("has no name")
	case len(tag) > maxTagItems:
		return fmt.Errorf("has more than %d items", maxTagItems)
	case tag[0] == "d" && len(tag) < 2:
		return errors.New("is a d tag without a value")
	}
	for _, s := range tag {
		if len(s) > maxTagBytes {
			return fmt.Errorf("holds more than %d bytes in one item", maxTagBytes)
		}
	}
	return nil
}

// appendEvent appends the NIP-01 JSON of ev in the fixed order of keys.
func appendEvent(dst []byte, ev *nostr.Event) []byte {
	dst = append(dst, `{"id":"`...)
	dst = append(dst, ev.ID...)
	dst = append(dst, `","pubkey":"`...)
	dst = append(dst, ev.PubKey...)
	dst = append(dst, `","created_at":`...)
	dst = strconv.AppendInt(dst, int64(ev.CreatedAt), 10)
	dst = append(dst, `,"kind":`...)
	dst = strconv.AppendInt(dst, int64(ev.Kind), 10)
	dst = append(dst, `,"tags":[`...)
	for i, tag := range ev.Tags {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, '[')
		for j, s := range tag {
			if j > 0 {
				dst = append(dst, ',')
			}
			dst = appendString(dst, s)
		}
		dst = append(dst, ']')
	}
	dst = append(dst, `],"content":`...)
	dst = appendString(dst, ev.Content)
	dst = append(dst, `,"sig":"`...)
	dst = append(dst, ev.Sig...)
	return append(dst, `"}`...)
}

// appendString appends s as a JSON string with the escapes of NIP-01: only
// control characters, the quotation mark and the backslash.
func appendString(dst []byte, s string) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	start := 0
	for i := range len(s) {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' {
			continue
		}
		dst = append(dst, s[start:i]...)
		start = i + 1
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\b':
			dst = append(dst, '\\', 'b')
		case '\t':
			dst = append(dst, '\\', 't')
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\f':
			dst = append(dst, '\\', 'f')
		case '\r':
			dst = append(dst, '\\', 'r')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}

// address is the identity a replaceable event is replaced under.
type address struct {
	kind   int
	pubkey string
	d      string
}

// addressOf returns the address of a replaceable or addressable event.
func addressOf(ev *nostr.Event) (address, bool) {
	switch {
	case nostr.IsReplaceableKind(ev.Kind):
		return address{ev.Kind, ev.PubKey, ""}, true
	case nostr.IsAddressableKind(ev.Kind):
		return address{ev.Kind, ev.PubKey, ev.Tags.GetD()}, true
	}
	return address{}, false
}

// newer reports whether the version (at, id) replaces (oldAt, oldID): the
// later one does, in the same second the lower id (NIP-01).
func newer(at nostr.Timestamp, id string, oldAt nostr.Timestamp, oldID string) bool {
	if at != oldAt {
		return at > oldAt
	}
	return id < oldID
}
