package receipt

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
)

// The one issuer of the tests.
var (
	testSecret = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))
	testKey    = testSecret.Public().(ed25519.PublicKey)
	testNow    = time.Unix(1_709_500_060, 0)
	testHeader = `{"alg":"EdDSA","kid":"key-1","typ":"interaction-record+jwt"}`
)

func testSign(message []byte) ([]byte, error) { return ed25519.Sign(testSecret, message), nil }

// testOptions is a strict verifier a minute after testClaims were issued.
func testOptions() VerifyOptions { return VerifyOptions{Now: testNow} }

// testClaims is a small record that raises no warning.
func testClaims() *Claims {
	return &Claims{
		Kind:     KindEvidence,
		Type:     "org.peacprotocol/consent-record",
		Issuer:   "https://venue.example",
		IssuedAt: 1_709_500_000,
		ID:       "019550a0-7a41-7000-8000-000000000001",
		Subject:  "urn:uuid:019550a0-7a41-7000-8000-000000000002",
		Pillars:  []string{"consent"},
		Extensions: map[string]any{
			"org.peacprotocol/consent": map[string]any{"consent_basis": "explicit", "consent_status": "granted"},
		},
	}
}

// sealed signs header and payload whatever they are.
func sealed(header, payload string) string {
	encode := base64.RawURLEncoding.EncodeToString
	message := encode([]byte(header)) + "." + encode([]byte(payload))
	return message + "." + encode(ed25519.Sign(testSecret, []byte(message)))
}

// testPayload is testClaims as JSON, with changes made to it: a member is set
// to the value, or left out when the value is nil.
func testPayload(t testing.TB, changes map[string]any) string {
	t.Helper()
	data, err := payloadOf(testClaims())
	if err != nil {
		t.Fatal(err)
	}
	var claims map[string]any
	if err := json.Unmarshal(data, &claims); err != nil {
		t.Fatal(err)
	}
	for name, value := range changes {
		if value == nil {
			delete(claims, name)
		} else {
			claims[name] = value
		}
	}
	if data, err = json.Marshal(claims, json.Deterministic(true)); err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func mustIssue(t testing.TB, c *Claims) string {
	t.Helper()
	jws, err := Issue(c, "key-1", testSign)
	if err != nil {
		t.Fatal(err)
	}
	return jws
}

func mustVerify(t testing.TB, jws string, opts VerifyOptions) *Verified {
	t.Helper()
	verified, err := Verify(jws, testKey, opts)
	if err != nil {
		t.Fatal(err)
	}
	return verified
}

// refuses expects Verify to give the code; "" expects it to accept.
func refuses(t testing.TB, jws string, opts VerifyOptions, want Code) *Error {
	t.Helper()
	_, err := Verify(jws, testKey, opts)
	if got := CodeOf(err); got != want {
		t.Fatalf("code %q, want %q: %v", got, want, err)
	}
	if err == nil {
		return nil
	}
	return err.(*Error)
}

// nested is an array in an array, depth times.
func nested(depth int) string { return strings.Repeat("[", depth) + strings.Repeat("]", depth) }
