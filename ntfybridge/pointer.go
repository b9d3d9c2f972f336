package ntfybridge

import (
	"encoding/hex"
	"strings"

	"github.com/parleykit/parley/carrier"
)

// WakeUp is the text of a wake-up: something may wait at the receiver's relays.
const WakeUp = "parley/1 wake-up"

const pointerPrefix = "parley/1 envelope "

// Pointer is the text that says that the wrap of an id waits at the receiver's
// relays. id is 64 hex characters in lower case.
func Pointer(id string) string { return pointerPrefix + id }

// ParsePointer reads the text of a pointer and returns the id of the wrap.
func ParsePointer(text string) (id string, ok bool) {
	id, ok = strings.CutPrefix(text, pointerPrefix)
	raw, err := hex.DecodeString(id)
	return id, ok && err == nil && len(raw) == 32 && id == strings.ToLower(id)
}

// What a message of a topic can be.
const (
	kindEnvelope  = "envelope"
	kindFrame     = "frame"
	kindWakeUp    = "wake_up"
	kindPointer   = "pointer"
	kindUnknown   = "unknown"   // text of somebody else
	kindOversized = "oversized" // longer than a wrap may be
)

// kindOf looks at how a message begins.
func kindOf(data []byte) string {
	switch {
	case len(data) > maxMessage:
		return kindOversized
	case carrier.IsFrame(data):
		return kindFrame
	case len(data) > 0 && data[0] == '{':
		return kindEnvelope
	case string(data) == WakeUp:
		return kindWakeUp
	}
	if _, ok := ParsePointer(string(data)); ok {
		return kindPointer
	}
	return kindUnknown
}
