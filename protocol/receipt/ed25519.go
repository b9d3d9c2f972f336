package receipt

import (
	"crypto/ed25519"
	"encoding/hex"
)

// verifySignature judges an Ed25519 signature by the protocol's profile, which
// is narrower than RFC 8032: a key or a signature's first half that is no
// canonical encoding, or a point of small order, is refused before the
// equation. Otherwise there are keys under which a signature holds for
// messages nobody signed. The standard library adds a reduced S and the
// equation without the cofactor.
func verifySignature(key ed25519.PublicKey, message string, signature []byte) *Error {
	if len(key) != ed25519.PublicKeySize {
		return refuse(CodeInvalidFormat, "", "a key of %d bytes, not %d", len(key), ed25519.PublicKeySize)
	}
	if len(signature) != ed25519.SignatureSize {
		return refuse(CodeInvalidSignature, "", "a signature of %d bytes, not %d", len(signature), ed25519.SignatureSize)
	}
	if !isAdmissible(key) || !isAdmissible(signature[:ed25519.PublicKeySize]) {
		return refuse(CodeInvalidSignature, "", "a point that is not admitted")
	}
	if !ed25519.Verify(key, []byte(message), signature) {
		return refuse(CodeInvalidSignature, "", "the signature does not match")
	}
	return nil
}

// isAdmissible judges the 32-byte encoding of a point: y little-endian, the
// sign of x in the topmost bit.
func isAdmissible(point []byte) bool {
	encoded := [32]byte(point)
	if refusedPoints[encoded] {
		return false
	}
	encoded[31] &= 0x7f
	y := encoded
	sign := point[31] != y[31]
	return !reachesPrime(y) && (!sign || y != yOne && y != yMinusOne)
}

// reachesPrime reports whether y is p = 2^255-19 or more.
func reachesPrime(y [32]byte) bool {
	if y[31] != 0x7f || y[0] < 0xed {
		return false
	}
	for _, b := range y[1:31] {
		if b != 0xff {
			return false
		}
	}
	return true
}

// At y = 1 and y = p-1 x is zero and has no sign.
var (
	yOne      = pointOf("0100000000000000000000000000000000000000000000000000000000000000")
	yMinusOne = pointOf("ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f")
)

// refusedPoints are the points of small order in their canonical encodings
// and two of order 4L.
var refusedPoints = map[[32]byte]bool{
	yOne:      true,
	yMinusOne: true,
	pointOf("0000000000000000000000000000000000000000000000000000000000000000"): true,
	pointOf("0000000000000000000000000000000000000000000000000000000000000080"): true,
	pointOf("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"): true,
	pointOf("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85"): true,
	pointOf("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a"): true,
	pointOf("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa"): true,
	pointOf("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac0305"): true,
	pointOf("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac0385"): true,
}

func pointOf(text string) [32]byte {
	point, err := hex.DecodeString(text)
	if err != nil {
		panic(err) // the tables above are part of the program
	}
	return [32]byte(point)
}
