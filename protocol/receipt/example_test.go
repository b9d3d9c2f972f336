package receipt_test

import (
	"bytes"
	"crypto/ed25519"
	"fmt"
	"time"

	"github.com/parleykit/parley/protocol/receipt"
)

// An issuer without a public origin names itself by its key, and whoever has
// the receipt can verify it offline.
func Example() {
	secret := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize)) // of a test, never of anybody
	now := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

	jws, err := receipt.Issue(&receipt.Claims{
		Kind:     receipt.KindEvidence,
		Type:     "org.peacprotocol/consent-record",
		Issuer:   receipt.DIDKey(secret.Public().(ed25519.PublicKey)),
		IssuedAt: now.Unix(),
		ID:       "019550a0-7a41-7000-8000-000000000001",
		Extensions: map[string]any{
			"org.peacprotocol/consent": map[string]any{"consent_basis": "explicit", "consent_status": "granted"},
		},
	}, "key-1", func(message []byte) ([]byte, error) { return ed25519.Sign(secret, message), nil })
	if err != nil {
		fmt.Println(err)
		return
	}

	decoded, err := receipt.Decode(jws) // who claims to have issued it?
	if err != nil {
		fmt.Println(err)
		return
	}
	key, err := receipt.ParseDIDKey(decoded.Claims.Issuer)
	if err != nil {
		fmt.Println(err)
		return
	}
	verified, err := receipt.Verify(jws, key, receipt.VerifyOptions{Now: now})
	if err != nil {
		fmt.Println(receipt.CodeOf(err), err)
		return
	}
	fmt.Println(verified.Claims.Type, verified.PolicyBinding, len(verified.Warnings))

	_, err = receipt.Verify(jws, key, receipt.VerifyOptions{Now: now, Issuer: "https://venue.example"})
	code := receipt.CodeOf(err)
	fmt.Println(code, code.Explain().Status)
	// Output:
	// org.peacprotocol/consent-record unavailable 0
	// E_INVALID_ISSUER 400
}
