package envelope

import (
	"encoding/base64"
	"math/bits"
	"strings"
	"unicode/utf8"

	"github.com/nbd-wtf/go-nostr"
	"github.com/nbd-wtf/go-nostr/nip44"

	"github.com/parleykit/parley/protocol/canonical"
)

// EventLimit is the most bytes a wrap may have on any carrier.
const EventLimit = 64 << 10

// Overheads of NIP-44 version 2: version, nonce and MAC around the padded
// plaintext, which starts with its length.
const (
	payloadFrame = 1 + 32 + 32
	lengthPrefix = 2
)

// sealOverhead and wrapOverhead are the bytes of the JSON of a seal and a wrap
// around their content; every variable member has a fixed width.
var (
	sealOverhead = eventOverhead(KindSeal, nil, true)
	wrapOverhead = eventOverhead(KindWrap, nostr.Tags{
		{"p", strings.Repeat("0", 64)},
		{"expiration", "1700000000"},
	}, true)
)

// maxRumor is the longest rumor JSON whose wrap keeps to EventLimit.
var maxRumor = longestRumor()

// eventOverhead is the length of an event's JSON with empty content. Times
// have ten digits until the year 2286.
func eventOverhead(kind int, tags nostr.Tags, signed bool) int {
	ev := nostr.Event{
		ID: strings.Repeat("0", 64), PubKey: strings.Repeat("0", 64),
		CreatedAt: 1_700_000_000, Kind: kind, Tags: tags,
	}
	if signed {
		ev.Sig = strings.Repeat("0", 128)
	}
	data, err := canonical.EncodeEvent(&ev)
	if err != nil {
		panic(err) // constant input
	}
	return len(data)
}

// longestRumor looks for the last length that fits, downwards from the longest
// plaintext NIP-44 takes.
func longestRumor() int {
	n := nip44.MaxPlaintextSize
	for wrapLen(n) > EventLimit {
		n--
	}
	return n
}

// wrapLen is the exact length of the wrap around a rumor JSON of n bytes.
func wrapLen(n int) int {
	return wrapOverhead + payloadLen(sealOverhead+payloadLen(n))
}

// payloadLen is the length of the base64 NIP-44 payload for n bytes.
func payloadLen(n int) int {
	return base64.StdEncoding.EncodedLen(payloadFrame + lengthPrefix + paddedLen(n))
}

// paddedLen is calc_padded_len of NIP-44: steps of an eighth of the next power
// of two, at least 32. n is at least 1.
func paddedLen(n int) int {
	chunk := max(32, 1<<bits.Len(uint(n-1))/8)
	return chunk * ((n-1)/chunk + 1)
}

// maxContent is how long a rumor's content may be, as JSON writes it, beside
// the given tags.
func maxContent(tags nostr.Tags) int {
	return maxRumor - eventOverhead(KindRumor, tags, false)
}

// escapedLen is the length of s inside a JSON string.
func escapedLen(s string) int {
	n := len(s)
	for i := range len(s) {
		n += escapeExtra(s[i])
	}
	return n
}

// escapeExtra is what one byte costs beyond itself inside a JSON string.
func escapeExtra(c byte) int {
	switch {
	case c == '"', c == '\\', c == '\b', c == '\f', c == '\n', c == '\r', c == '\t':
		return 1
	case c < 0x20:
		return 5
	}
	return 0
}

// split cuts s into the fewest pieces of at most limit bytes as JSON writes
// them, never inside a character.
func split(s string, limit int) []string {
	var pieces []string
	start, used := 0, 0
	for i, r := range s {
		width := utf8.RuneLen(r)
		if r < utf8.RuneSelf {
			width += escapeExtra(byte(r))
		}
		if used+width > limit {
			pieces = append(pieces, s[start:i])
			start, used = i, 0
		}
		used += width
	}
	return append(pieces, s[start:])
}
