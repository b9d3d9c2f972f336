package relay

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"

	"github.com/go-json-experiment/json"
	"github.com/nbd-wtf/go-nostr"
)

// The first byte of every key names its table. "tail" is the inverted
// created_at (8 bytes, so that newer sorts first) and the id (32 bytes).
const (
	tableEvent     = 'e' // id → header, JSON
	tableCreated   = 'c' // tail
	tableKind      = 'k' // kind, tail
	tableAuthor    = 'a' // pubkey, kind, tail
	tableTag       = 't' // letter, hash of the value, tail
	tableAddress   = 'd' // kind, pubkey, hash of d → created_at, id
	tableExpires   = 'x' // expiration, id
	tableDeletedID = 'i' // id, pubkey → created_at of the deletion
	tableDeletedAt = 'r' // kind, pubkey, hash of d → created_at of the deletion
	tableVanished  = 'n' // pubkey → created_at of the request to vanish
	tableRuling    = 'm' // list, subject → JSON; without both the version
	tableQuota     = 'q' // recipient → number of events
	tableFormat    = 'v' // → format number
)

const (
	storeFormat = 1
	idSize      = 32
	tailSize    = 8 + idSize
	tagHashSize = 16
	headerSize  = 8 + 8 + 4 + 32 + 32 // expires, created_at, kind, pubkey, recipient
)

// appendHex appends the bytes of a hex string whose form was checked.
func appendHex(key []byte, s string) []byte {
	key, _ = hex.AppendDecode(key, []byte(s))
	return key
}

func appendTail(key []byte, at nostr.Timestamp, id string) []byte {
	return appendHex(binary.BigEndian.AppendUint64(key, invert(at)), id)
}

// invert maps times so that later ones sort first.
func invert(at nostr.Timestamp) uint64 { return math.MaxUint64 - uint64(at) }

func vanishedKey(pubkey string) []byte { return appendHex([]byte{tableVanished}, pubkey) }

func eventKey(id string) []byte { return appendHex([]byte{tableEvent}, id) }

func kindPrefix(kind int) []byte {
	return binary.BigEndian.AppendUint32([]byte{tableKind}, uint32(kind))
}

func authorPrefix(pubkey string, kind int) []byte {
	return binary.BigEndian.AppendUint32(appendHex([]byte{tableAuthor}, pubkey), uint32(kind))
}

// tagPrefix hashes the value: keys stay short. Two values of one hash are
// told apart when the event itself is compared with the filter.
func tagPrefix(letter byte, value string) []byte {
	sum := sha256.Sum256([]byte(value))
	return append([]byte{tableTag, letter}, sum[:tagHashSize]...)
}

func (a address) key(table byte) []byte {
	key := binary.BigEndian.AppendUint32([]byte{table}, uint32(a.kind))
	key = appendHex(key, a.pubkey)
	sum := sha256.Sum256([]byte(a.d))
	return append(key, sum[:]...)
}

func expiresKey(at int64, id string) []byte {
	return appendHex(binary.BigEndian.AppendUint64([]byte{tableExpires}, uint64(at)), id)
}

func deletedIDKey(id, pubkey string) []byte {
	return appendHex(appendHex([]byte{tableDeletedID}, id), pubkey)
}

func quotaKey(recipient string) []byte { return appendHex([]byte{tableQuota}, recipient) }

// indexKeys returns the keys without a value that lead to the record.
func indexKeys(rec *Record) [][]byte {
	ev := rec.Event
	keys := [][]byte{
		appendTail([]byte{tableCreated}, ev.CreatedAt, ev.ID),
		appendTail(kindPrefix(ev.Kind), ev.CreatedAt, ev.ID),
		appendTail(authorPrefix(ev.PubKey, ev.Kind), ev.CreatedAt, ev.ID),
	}
	for _, tag := range ev.Tags {
		if len(tag) >= 2 && isTagLetter(tag[0]) {
			keys = append(keys, appendTail(tagPrefix(tag[0][0], tag[1]), ev.CreatedAt, ev.ID))
		}
	}
	if rec.Expires != 0 {
		keys = append(keys, expiresKey(rec.Expires, ev.ID))
	}
	return keys
}

// isTagLetter reports whether tags of this name are indexed (NIP-01).
func isTagLetter(name string) bool {
	return len(name) == 1 && (name[0] >= 'a' && name[0] <= 'z' || name[0] >= 'A' && name[0] <= 'Z')
}

// encodeRecord is the value of an event key.
func encodeRecord(rec *Record) []byte {
	ev := rec.Event
	v := make([]byte, 0, headerSize+len(rec.JSON))
	v = binary.BigEndian.AppendUint64(v, uint64(rec.Expires))
	v = binary.BigEndian.AppendUint64(v, uint64(ev.CreatedAt))
	v = binary.BigEndian.AppendUint32(v, uint32(ev.Kind))
	v = appendHex(v, ev.PubKey)
	if rec.Recipient == "" {
		v = append(v, make([]byte, 32)...)
	} else {
		v = appendHex(v, rec.Recipient)
	}
	return append(v, rec.JSON...)
}

// errShortValue says that a stored event is damaged.
var errShortValue = errors.New("relay: stored event is too short")

// header is the part of a stored value that is read without its JSON.
type header struct {
	expires   int64
	kind      int
	pubkey    string
	recipient string
}

func decodeHeader(v []byte) (header, error) {
	if len(v) < headerSize {
		return header{}, errShortValue
	}
	h := header{
		expires: int64(binary.BigEndian.Uint64(v)),
		kind:    int(binary.BigEndian.Uint32(v[16:])),
		pubkey:  hex.EncodeToString(v[20:52]),
	}
	if r := [32]byte(v[52:84]); r != [32]byte{} {
		h.recipient = hex.EncodeToString(r[:])
	}
	return h, nil
}

// decodeRecord reads a stored value; the record shares no memory with it.
func decodeRecord(v []byte) (*Record, error) {
	h, err := decodeHeader(v)
	if err != nil {
		return nil, err
	}
	rec := &Record{JSON: append([]byte(nil), v[headerSize:]...), Expires: h.expires, Recipient: h.recipient}
	var w wireEvent
	if err := json.Unmarshal(rec.JSON, &w); err != nil {
		return nil, fmt.Errorf("reading stored event: %w", err)
	}
	rec.Event = w.event()
	return rec, nil
}
