package agentidentity

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"strings"
	"testing"
)

func TestKeysThatCannotBeUsedAreRefused(t *testing.T) {
	ring := newKeyring(t, "a")
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ed, ec := ring.ed.Public(), ring.ec.Public()
	thumbprint := strings.Repeat("A", thumbprintLength)
	for name, keys := range map[string][]Key{
		"no id":              {{Agent: "a", Algorithm: EdDSA, Public: ed}},
		"long id":            {{ID: strings.Repeat("x", 257), Agent: "a", Algorithm: EdDSA, Public: ed}},
		"no agent":           {{ID: "k", Algorithm: EdDSA, Public: ed}},
		"nothing":            {{ID: "k", Agent: "a"}},
		"no algorithm":       {{ID: "k", Agent: "a", Public: ed}},
		"algorithm alone":    {{ID: "k", Agent: "a", Algorithm: EdDSA}},
		"other algorithm":    {{ID: "k", Agent: "a", Algorithm: ES256, Public: ed}},
		"other way round":    {{ID: "k", Agent: "a", Algorithm: EdDSA, Public: ec}},
		"unknown algorithm":  {{ID: "k", Agent: "a", Algorithm: "RS256", Public: &rsa.PublicKey{}}},
		"short key":          {{ID: "k", Agent: "a", Algorithm: EdDSA, Public: ed25519.PublicKey{1}}},
		"weak key":           {{ID: "k", Agent: "a", Algorithm: EdDSA, Public: append(ed25519.PublicKey{1}, make([]byte, 31)...)}},
		"no point":           {{ID: "k", Agent: "a", Algorithm: ES256, Public: (*ecdsa.PublicKey)(nil)}},
		"other curve":        {{ID: "k", Agent: "a", Algorithm: ES256, Public: p384.Public()}},
		"private key":        {{ID: "k", Agent: "a", Algorithm: EdDSA, Public: ring.ed}},
		"short thumbprint":   {{ID: "k", Agent: "a", Certificate: "AAAA"}},
		"key and thumbprint": {{ID: "k", Agent: "a", Algorithm: EdDSA, Public: ed, Certificate: thumbprint}},
		"id twice":           {{ID: "k", Agent: "a", Algorithm: EdDSA, Public: ed}, {ID: "k", Agent: "a", Algorithm: ES256, Public: ec}},
		"key twice":          {{ID: "k", Agent: "a", Algorithm: EdDSA, Public: ed}, {ID: "l", Agent: "b", Algorithm: EdDSA, Public: ed}},
		"certificate twice":  {{ID: "k", Agent: "a", Certificate: thumbprint}, {ID: "l", Agent: "b", Certificate: thumbprint}},
	} {
		if _, err := NewKeys(keys...); !errors.Is(err, ErrKey) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestKeyIsFoundByTheIDOfItsMethodOnly(t *testing.T) {
	ring := newKeyring(t, "a")
	keys, err := NewKeys(ring.keys...)
	if err != nil {
		t.Fatal(err)
	}
	thumbprint, err := Thumbprint(ring.ed.Public())
	if err != nil {
		t.Fatal(err)
	}
	certificate := CertificateThumbprint(ring.tls.Leaf)
	ids := map[string]string{"a-ed": "id", thumbprint: "jwk", certificate: "certificate", "": "none", "x": "none"}
	finds := map[Method]string{MessageSignature: "id", DPoP: "jwk", JWKThumbprint: "jwk", MTLS: "certificate"}
	for method, kind := range finds {
		for id, of := range ids {
			key, err := keys.Find(t.Context(), method, id)
			if found := err == nil; found != (kind == of) || found == errors.Is(err, ErrNoKey) || found && key.Agent != "a" {
				t.Errorf("%s by %s: %v, %v", method, of, key.ID, err)
			}
		}
	}
}
