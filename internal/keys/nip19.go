package keys

import (
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/nbd-wtf/go-nostr/nip19"
)

// The two prefixes of NIP-19 used here, both over 32 bytes.
const (
	prefixPublic = "npub"
	prefixSecret = "nsec"
)

// nip19Length is the length of both forms: prefix, separator, 52 characters of
// data and 6 of checksum (BIP-173).
const nip19Length = len(prefixPublic) + 1 + 52 + 6

// encodeNIP19 writes 32 bytes, given as hex digits, in bech32.
func encodeNIP19(prefix, digits string) string {
	encode := nip19.EncodePublicKey
	if prefix == prefixSecret {
		encode = nip19.EncodePrivateKey
	}
	text, err := encode(digits)
	if err != nil {
		return ""
	}
	return text
}

// decodeNIP19 reads 32 bytes and returns them as lowercase hex digits. The
// error does not show the input, which may be a secret.
func decodeNIP19(prefix, text string) (string, error) {
	if len(text) != nip19Length || !strings.HasPrefix(strings.ToLower(text), prefix+"1") {
		return "", fmt.Errorf("%w: not an %s of 32 bytes", ErrMalformed, prefix)
	}
	_, value, err := nip19.Decode(text)
	digits, ok := value.(string)
	if err != nil || !ok {
		return "", fmt.Errorf("%w: %s is mistyped", ErrMalformed, prefix)
	}
	if raw, err := hex.DecodeString(digits); err != nil || len(raw) != 32 {
		return "", fmt.Errorf("%w: not an %s of 32 bytes", ErrMalformed, prefix)
	}
	return digits, nil
}
