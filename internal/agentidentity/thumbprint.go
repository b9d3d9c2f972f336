package agentidentity

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"fmt"

	"github.com/parleykit/parley/protocol/canonical"
)

// thumbprintLength is the length of a SHA-256 in base64url.
const thumbprintLength = 43

// Thumbprint is the JWK thumbprint of an Ed25519 or P-256 public key: SHA-256
// in base64url without padding (RFC 7638, RFC 8037).
func Thumbprint(public crypto.PublicKey) (string, error) {
	members, err := jwk(public)
	if err != nil {
		return "", err
	}
	return digestMembers(members)
}

// CertificateThumbprint is the x5t#S256 of a certificate: SHA-256 of its DER
// form in base64url without padding (RFC 8705, section 3.1).
func CertificateThumbprint(certificate *x509.Certificate) string { return digest(certificate.Raw) }

// jwk is the required members of the key's JWK.
func jwk(public crypto.PublicKey) (map[string]string, error) {
	encode := base64.RawURLEncoding.EncodeToString
	switch key := public.(type) {
	case ed25519.PublicKey:
		if len(key) == ed25519.PublicKeySize {
			return map[string]string{"kty": "OKP", "crv": "Ed25519", "x": encode(key)}, nil
		}
	case *ecdsa.PublicKey:
		if key == nil || key.Curve != elliptic.P256() {
			break
		}
		point, err := key.Bytes() // 0x04, x, y
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrKey, err)
		}
		return map[string]string{"kty": "EC", "crv": "P-256", "x": encode(point[1:33]), "y": encode(point[33:])}, nil
	}
	return nil, fmt.Errorf("%w: neither Ed25519 nor P-256", ErrKey)
}

// required are the members of a JWK that its thumbprint is made of, by kty.
var required = map[string][]string{"OKP": {"crv", "kty", "x"}, "EC": {"crv", "kty", "x", "y"}}

// receivedThumbprint is the thumbprint of a JWK that a request carries; "" for
// one of no known kind, or with a private part.
func receivedThumbprint(received map[string]any) string {
	if _, private := received["d"]; private {
		return ""
	}
	kty, _ := received["kty"].(string)
	members := map[string]string{}
	for _, name := range required[kty] {
		value, ok := received[name].(string)
		if !ok {
			return ""
		}
		members[name] = value
	}
	if len(members) == 0 {
		return ""
	}
	thumbprint, err := digestMembers(members)
	if err != nil {
		return ""
	}
	return thumbprint
}

func digestMembers(members map[string]string) (string, error) {
	text, err := canonical.Marshal(members)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrKey, err)
	}
	return digest(text), nil
}

// digest is SHA-256 in base64url without padding.
func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return base64.RawURLEncoding.EncodeToString(sum[:])
}
