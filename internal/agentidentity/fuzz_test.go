package agentidentity

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"net/http"
	"testing"

	"github.com/parleykit/parley/protocol/receipt"
)

// unproven checks that nothing is accepted when no key has signed, and that it
// is refused with a code.
func (b *bench) unproven(t *testing.T, header http.Header) {
	t.Helper()
	identity, err := b.Verify(&http.Request{Method: "GET", RequestURI: "/x?y", Header: header, Body: http.NoBody})
	if identity != nil || receipt.CodeOf(err) == "" {
		t.Fatalf("%+v, %v", identity, err)
	}
	if code := receipt.CodeOf(err); code.Explain().Status < 400 || len(err.Error()) > 2000 {
		t.Fatalf("%s: %v", code, err)
	}
}

// anyKey has a key for every id, which signed nothing.
type anyKey struct{}

var silent = ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)).Public()

func (anyKey) Find(_ context.Context, _ Method, id string) (Key, error) {
	return Key{ID: id, Agent: "a", Algorithm: EdDSA, Public: silent}, nil
}

func FuzzAttestation(f *testing.F) {
	b := newBench(f, func(o *Options) { o.Directory = anyKey{} })
	for _, method := range []Method{MessageSignature, DPoP, MTLS, JWKThumbprint} {
		data, err := base64.RawURLEncoding.DecodeString(b.signed(f, method, "").Header.Get(Header))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(data), "")
	}
	f.Add(`{"type":"peac/agent-identity","issuer":"a:b","issued_at":"2026-01-01T00:00:00Z","evidence":{"agent_id":"a","control_type":"operator"}}`, "!")
	f.Fuzz(func(t *testing.T, document, raw string) {
		b.unproven(t, http.Header{http.CanonicalHeaderKey(Header): {base64.RawURLEncoding.EncodeToString([]byte(document))}})
		b.unproven(t, http.Header{http.CanonicalHeaderKey(Header): {raw}})
	})
}

func FuzzDPoP(f *testing.F) {
	b := newBench(f, func(o *Options) { o.Directory = anyKey{} })
	f.Add(dpop(f, b, nil), "{}", "{}")
	f.Add("..", `{"typ":"dpop+jwt","alg":"EdDSA","jwk":{"kty":"OKP","crv":"Ed25519","x":"AA"}}`, `{"jti":"1","htm":"GET","htu":"https://venue.example/x","iat":1e300,"ath":""}`)
	f.Add("a.b.c", `{"alg":1}`, "null")
	f.Fuzz(func(t *testing.T, text, header, claims string) {
		b.unproven(t, http.Header{"Dpop": {text}})
		encode := base64.RawURLEncoding.EncodeToString
		b.unproven(t, http.Header{"Dpop": {encode([]byte(header)) + "." + encode([]byte(claims)) + ".AAAA"}})
	})
}

func FuzzSignature(f *testing.F) {
	b := newBench(f, func(o *Options) { o.Directory = anyKey{} })
	signed := bare(f, b, MessageSignature).Header
	f.Add(signed.Get("Signature-Input"), signed.Get("Signature"), signed.Get("Content-Digest"))
	f.Add(`a=("@method" "@path";sf "@query");created=-1;keyid="k";nonce="n"`, "a=:AA==:", "sha-256=1")
	f.Add(`a=("@status");created=1.5;keyid=5;nonce=?1`, "a=x", "")
	f.Fuzz(func(t *testing.T, input, value, digest string) {
		header := http.Header{"Signature-Input": {input}, "Signature": {value}, "Content-Digest": {digest}}
		b.unproven(t, header)
		_ = checkDigest(header, nil)
		if sig, err := parseSignature(header); err == nil {
			_, _ = sig.base(&message{"GET", b.origin, "/x?y", header})
		}
	})
}
