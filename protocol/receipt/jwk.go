package receipt

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
)

// JWK is a public Ed25519 key as JSON (RFC 8037, section 2).
type JWK struct {
	KeyType   string `json:"kty"`          // "OKP"
	Curve     string `json:"crv"`          // "Ed25519"
	X         string `json:"x"`            // base64url of the 32 bytes
	KeyID     string `json:"kid,omitzero"` // at most 256 bytes
	Use       string `json:"use,omitzero"` // "sig" or nothing
	Algorithm string `json:"alg,omitzero"` // "EdDSA" or nothing
}

// NewJWK is the JWK of a public key for signatures. An empty kid stands for
// the key's thumbprint.
func NewJWK(key ed25519.PublicKey, kid string) JWK {
	j := JWK{
		KeyType: "OKP", Curve: "Ed25519", X: base64.RawURLEncoding.EncodeToString(key),
		KeyID: kid, Use: "sig", Algorithm: "EdDSA",
	}
	if j.KeyID == "" {
		j.KeyID = j.Thumbprint()
	}
	return j
}

// PublicKey is the key, which Verify would admit; refusals are *Error with
// CodeVerifyJWKSInvalid.
func (j JWK) PublicKey() (ed25519.PublicKey, error) {
	key, ok := decodeBase64(j.X)
	switch {
	case j.KeyType != "OKP" || j.Curve != "Ed25519":
		return nil, refuse(CodeVerifyJWKSInvalid, "/crv", "not an Ed25519 key")
	case j.Use != "" && j.Use != "sig":
		return nil, refuse(CodeVerifyJWKSInvalid, "/use", "not a key for signatures")
	case j.Algorithm != "" && j.Algorithm != "EdDSA":
		return nil, refuse(CodeVerifyJWKSInvalid, "/alg", "only EdDSA is known")
	case len(j.KeyID) > MaxKeyID:
		return nil, refuse(CodeVerifyJWKSInvalid, "/kid", "more than %d bytes", MaxKeyID)
	case !ok || len(key) != ed25519.PublicKeySize || !isAdmissible(key):
		return nil, refuse(CodeVerifyJWKSInvalid, "/x", "not base64url of an admissible key")
	}
	return key, nil
}

// Thumbprint is the SHA-256 of the key's required members in their RFC 7638
// form, as base64url. It depends on nothing but the key.
func (j JWK) Thumbprint() string {
	sum := sha256.Sum256([]byte(`{"crv":"` + j.Curve + `","kty":"` + j.KeyType + `","x":"` + j.X + `"}`))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}
