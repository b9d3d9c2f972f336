package canonical

import (
	"encoding/hex"

	"github.com/google/uuid"
)

// IsHex reports whether s is the lowercase hex of n bytes. Upper case is
// refused, since it would give one value two spellings.
func IsHex(s string, n int) bool {
	if len(s) != hex.EncodedLen(n) {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// IsUUID reports whether s is a UUID of the given version in the one spelling
// RFC 9562 writes (section 4): 36 characters, lower case, variant 10.
func IsUUID(s string, version uuid.Version) bool {
	id, err := uuid.Parse(s)
	return err == nil && id.String() == s && id.Version() == version && id.Variant() == uuid.RFC4122
}
