package logproof_test

import (
	"crypto/ed25519"
	"errors"
	"testing"

	"github.com/parleykit/parley/protocol/logproof"
)

func TestKey_underWhichEveryTextIsSignedIsRefused(t *testing.T) {
	neutral := ed25519.PublicKey(append([]byte{1}, make([]byte, ed25519.PublicKeySize-1)...))
	everybodys := append(append([]byte{}, neutral...), make([]byte, 32)...)
	if !ed25519.Verify(neutral, []byte("nobody signed this"), everybodys) {
		t.Fatal("the key is a good one")
	}
	for name, make := range map[string]func(string, ed25519.PublicKey) (logproof.Key, error){
		"log": logproof.LogKey, "witness": logproof.WitnessKey,
	} {
		if k, err := make(origin, neutral); !errors.Is(err, logproof.ErrMalformed) {
			t.Errorf("%s: got %v, %v, want ErrMalformed", name, k, err)
		}
	}
}
