package keys

import (
	"encoding/hex"
	"fmt"
	"strings"
)

// The two prefixes of NIP-19 used here, both over 32 bytes.
const (
	prefixPublic = "npub"
	prefixSecret = "nsec"
)

// charset is the alphabet of bech32 (BIP-173).
const charset = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"

// encodeNIP19 writes 32 bytes, given as hex digits, in bech32 (BIP-173).
func encodeNIP19(prefix, digits string) string {
	raw, _ := hex.DecodeString(digits)
	words := make([]byte, 0, 52)
	var buffer, bits uint
	for _, b := range raw {
		buffer, bits = buffer<<8|uint(b), bits+8
		for ; bits >= 5; bits -= 5 {
			words = append(words, byte(buffer>>(bits-5)&31))
		}
	}
	if bits > 0 {
		words = append(words, byte(buffer<<(5-bits)&31))
	}
	check := polymod(prefix, append(words[:len(words):len(words)], 0, 0, 0, 0, 0, 0)) ^ 1
	for i := range 6 {
		words = append(words, byte(check>>(5*(5-i))&31))
	}
	var text strings.Builder
	text.WriteString(prefix + "1")
	for _, word := range words {
		text.WriteByte(charset[word])
	}
	return text.String()
}

// decodeNIP19 reads 32 bytes and returns them as lowercase hex digits. The
// error does not show the input, which may be a secret.
func decodeNIP19(prefix, text string) (string, error) {
	lower := strings.ToLower(text)
	if lower != text && strings.ToUpper(text) != text {
		return "", fmt.Errorf("%w: %s in mixed case", ErrMalformed, prefix)
	}
	data, ok := strings.CutPrefix(lower, prefix+"1")
	if !ok || len(data) != 52+6 {
		return "", fmt.Errorf("%w: not an %s of 32 bytes", ErrMalformed, prefix)
	}
	words := make([]byte, len(data))
	for i := range data {
		at := strings.IndexByte(charset, data[i])
		if at < 0 {
			return "", fmt.Errorf("%w: %s has a character outside bech32", ErrMalformed, prefix)
		}
		words[i] = byte(at)
	}
	if polymod(prefix, words) != 1 {
		return "", fmt.Errorf("%w: %s has a wrong checksum", ErrMalformed, prefix)
	}
	raw, ok := bytesOf(words[:52])
	if !ok {
		return "", fmt.Errorf("%w: %s has bits left over", ErrMalformed, prefix)
	}
	return hex.EncodeToString(raw), nil
}

// bytesOf joins 52 words of 5 bits to 32 bytes; the 4 bits over must be zero.
func bytesOf(words []byte) ([]byte, bool) {
	raw := make([]byte, 0, 32)
	var buffer, bits uint
	for _, word := range words {
		buffer, bits = buffer<<5|uint(word), bits+5
		if bits >= 8 {
			raw = append(raw, byte(buffer>>(bits-8)))
			bits -= 8
		}
	}
	return raw, buffer&(1<<bits-1) == 0
}

// polymod is the checksum of BIP-173 over the expanded prefix and the words.
func polymod(prefix string, words []byte) uint32 {
	expanded := make([]byte, 0, 2*len(prefix)+1+len(words))
	for i := range prefix {
		expanded = append(expanded, prefix[i]>>5)
	}
	expanded = append(expanded, 0)
	for i := range prefix {
		expanded = append(expanded, prefix[i]&31)
	}
	check := uint32(1)
	for _, word := range append(expanded, words...) {
		top := check >> 25
		check = (check&0x1ffffff)<<5 ^ uint32(word)
		for i, generator := range [5]uint32{0x3b6a57b2, 0x26508e6d, 0x1ea119fa, 0x3d4233dd, 0x2a1462b3} {
			if top>>i&1 == 1 {
				check ^= generator
			}
		}
	}
	return check
}
