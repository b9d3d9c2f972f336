package receipt

import (
	"crypto/ed25519"
	"math/big"
	"strings"
)

// A did:key is the multibase base58btc ('z') of the multicodec of the key's
// kind, 0xed as a varint for an Ed25519 public key, and the key.
const (
	didKeyPrefix = "did:key:z"
	didKeyCodec  = "\xed\x01"
	base58       = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
	maxBase58    = 64 // digits; the key's 34 bytes take 48
)

// DIDKey is the issuer name of a key: a receipt by such an issuer brings the
// key it is verified with in its own iss, and needs no discovery.
func DIDKey(key ed25519.PublicKey) string {
	return didKeyPrefix + encodeBase58([]byte(didKeyCodec+string(key)))
}

// ParseDIDKey is the key that a did:key names. Other DIDs, other kinds of key,
// keys that Verify would not admit and other spellings are refused with
// *Error and CodeKeyNotFound.
func ParseDIDKey(did string) (ed25519.PublicKey, error) {
	digits, found := strings.CutPrefix(did, didKeyPrefix)
	if !found {
		return nil, refuse(CodeKeyNotFound, "", "not a did:key in base58btc")
	}
	data, ok := decodeBase58(digits)
	key, ours := strings.CutPrefix(string(data), didKeyCodec)
	if !ok || !ours || len(key) != ed25519.PublicKeySize || !isAdmissible([]byte(key)) {
		return nil, refuse(CodeKeyNotFound, "", "not a did:key of an admissible Ed25519 key")
	}
	return ed25519.PublicKey(key), nil
}

var radix = big.NewInt(int64(len(base58)))

// encodeBase58 writes data, whose first byte is not zero: leading zeros would
// need a digit each.
func encodeBase58(data []byte) string {
	var digits []byte
	n, digit := new(big.Int).SetBytes(data), new(big.Int)
	for n.Sign() > 0 {
		n.DivMod(n, radix, digit)
		digits = append(digits, base58[digit.Int64()])
	}
	for i, j := 0, len(digits)-1; i < j; i, j = i+1, j-1 {
		digits[i], digits[j] = digits[j], digits[i]
	}
	return string(digits)
}

// decodeBase58 reads digits that do not begin with a zero.
func decodeBase58(digits string) ([]byte, bool) {
	if digits == "" || len(digits) > maxBase58 || digits[0] == base58[0] {
		return nil, false
	}
	n := new(big.Int)
	for i := range len(digits) {
		value := strings.IndexByte(base58, digits[i])
		if value < 0 {
			return nil, false
		}
		n.Add(n.Mul(n, radix), big.NewInt(int64(value)))
	}
	return n.Bytes(), true
}
