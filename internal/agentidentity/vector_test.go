package agentidentity

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parleykit/parley/internal/httpserver"
)

func read(t testing.TB, name string, v any) {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, v); err != nil {
		t.Fatal(err)
	}
}

func fromBase64(t testing.TB, text string) []byte {
	t.Helper()
	data, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// Signatures of RFC 9421, appendix B.
func TestSignatureBasesOfTheRFCAreMadeToTheByte(t *testing.T) {
	var cases []struct{ Name, Request, Base, Ed25519 string }
	read(t, "rfc9421.json", &cases)
	for _, c := range cases {
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(c.Request)))
		if err != nil {
			t.Fatal(err)
		}
		origin, err := httpserver.ParseOrigin("https://" + r.Host)
		if err != nil {
			t.Fatal(err)
		}
		sig, err := parseSignature(r.Header)
		if sig == nil { // the examples have no nonce, which a proof needs
			t.Fatalf("%s: %v", c.Name, err)
		}
		base, err := sig.base(&message{r.Method, origin, r.RequestURI, r.Header})
		if err != nil {
			t.Fatalf("%s: %v", c.Name, err)
		}
		if diff := cmp.Diff(c.Base, string(base)); diff != "" {
			t.Errorf("%s: %s", c.Name, diff)
		}
		if c.Ed25519 == "" {
			continue
		}
		key := Key{Algorithm: EdDSA, Public: ed25519.PublicKey(fromBase64(t, c.Ed25519))}
		if err := key.verify(base, sig.bytes); err != nil {
			t.Errorf("%s: %v", c.Name, err)
		}
		if key.verify(append(base, ' '), sig.bytes) == nil {
			t.Errorf("%s: a changed base is accepted", c.Name)
		}
	}
}

// The digests of RFC 9421's example body, by both algorithms of RFC 9530.
func TestContentDigestOfTheRFCIsOfItsBody(t *testing.T) {
	body := []byte(`{"hello": "world"}`)
	const short = "sha-256=:X48E9qOokqqrvdts8nOJRJN3OWDUoyWxBf7kbu9DBPE=:"
	const long = "sha-512=:WZDPaVn/7XgHaAy8pmojAkGWoRx2UFChF41A2svX+TaPm+AbwAgBWnrIiYllu7BNNyealdVLvRwEmTHWXvJwew==:"
	if got := contentDigest(body); got != short {
		t.Errorf("got %s", got)
	}
	for _, text := range []string{short, long, short + ", " + long, "md5=:AA==:, " + long} {
		if err := checkDigest(http.Header{"Content-Digest": {text}}, body); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if checkDigest(http.Header{"Content-Digest": {text}}, body[1:]) == nil {
			t.Errorf("%s: of another body", text)
		}
	}
	for _, text := range []string{"", "md5=:AA==:", "sha-256=:AA==:", "sha-256=1", "sha-256=(1 2)", "sha-256", "=", short + ", sha-512=:AA==:"} {
		if checkDigest(http.Header{"Content-Digest": {text}}, body) == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}

// rfc9449Key is the key of the examples of RFC 9449.
func rfc9449Key(t testing.TB) *ecdsa.PublicKey {
	t.Helper()
	point := append([]byte{4}, fromBase64(t, "l8tFrhx-34tV3hRICRDY9zCkDlpBhF42UQUfWVAWBFs")...)
	point = append(point, fromBase64(t, "9VE4jf_Ok_o64zbTTlcuNJajHmt6v9TDVrU0CdvGRDA")...)
	public, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), point)
	if err != nil {
		t.Fatal(err)
	}
	return public
}

func TestThumbprintsOfTheRFCsAreMet(t *testing.T) {
	rsa := map[string]string{ // RFC 7638, section 3.1
		"kty": "RSA", "e": "AQAB",
		"n": "0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjBZCiFV4n3oknjhMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQvRL5hajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzKnqDKgw",
	}
	if got, err := digestMembers(rsa); err != nil || got != "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs" {
		t.Errorf("RFC 7638: %s, %v", got, err)
	}
	okp := ed25519.PublicKey(fromBase64(t, "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"))
	if got, err := Thumbprint(okp); err != nil || got != "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k" {
		t.Errorf("RFC 8037, appendix A.3: %s, %v", got, err)
	}
	if got, err := Thumbprint(rfc9449Key(t)); err != nil || got != "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I" {
		t.Errorf("RFC 9449, section 6.1: %s, %v", got, err)
	}
	data, err := os.ReadFile("testdata/rfc8705.pem")
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(data)
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	if got := CertificateThumbprint(certificate); got != "A4DtL2JmUMhAsvJj5tKyn64SqzmuXbMrJa0n761y5v0" {
		t.Errorf("RFC 8705, appendix A: %s", got)
	}
}

func TestDPoPProofsOfTheRFCAreAcceptedInTheirTime(t *testing.T) {
	var cases []struct {
		Name, Method, URL, Token, Proof string
		IAT                             int64
	}
	read(t, "rfc9449.json", &cases)
	keys, err := NewKeys(Key{ID: "k", Agent: "a", Algorithm: ES256, Public: rfc9449Key(t)})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		r := httptest.NewRequest(c.Method, c.URL, nil)
		at := time.Unix(c.IAT, 0)
		v, err := New(Options{Origin: "https://" + r.Host, Directory: keys, Methods: []Method{DPoP}, Now: func() time.Time { return at }})
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("DPoP", c.Proof)
		if c.Token != "" {
			r.Header.Set("Authorization", "DPoP "+c.Token)
		}
		identity, err := v.Verify(r)
		if err != nil {
			t.Fatalf("%s: %v", c.Name, err)
		}
		want := &Identity{
			Agent: "a", KeyID: "k", Thumbprint: "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I", Method: DPoP,
			VerifiedAt: at, BindingHash: identity.BindingHash,
		}
		if diff := cmp.Diff(want, identity); diff != "" || len(identity.BindingHash) != 64 {
			t.Errorf("%s: %s", c.Name, diff)
		}
	}
}
