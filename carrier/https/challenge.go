package https

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/parleykit/parley/protocol/canonical"
)

// ErrChallenge means that an answer is not the one of a mailbox that serves the
// recipient.
var ErrChallenge = errors.New("https: the address does not answer the challenge")

// challengeLabel begins what is signed.
const challengeLabel = "parley/https-challenge/1\n"

// maxAnswer bounds the answer to a challenge, in bytes.
const maxAnswer = 4096

// answer says that a mailbox serves a recipient. docs/spec/https-carrier.md has its
// bytes.
type answer struct {
	Address   string `json:"address"`   // that was asked
	Recipient string `json:"recipient"` // 64 lowercase hex
	Challenge string `json:"challenge"` // 32 lowercase hex, of the asker
	Key       string `json:"key"`       // Ed25519, base64url
	Signature string `json:"signature,omitempty"`
}

// signed is what the signature covers: the label and the canonical answer without
// its signature.
func (a answer) signed() ([]byte, error) {
	a.Signature = ""
	data, err := canonical.Marshal(a)
	if err != nil {
		return nil, fmt.Errorf("https: encoding an answer: %w", err)
	}
	return append([]byte(challengeLabel), data...), nil
}

// sign answers a challenge.
func (a answer) sign(key crypto.Signer) (answer, error) {
	public, ok := key.Public().(ed25519.PublicKey)
	if !ok {
		return answer{}, errors.New("https: the server key is not Ed25519")
	}
	a.Key = base64.RawURLEncoding.EncodeToString(public)
	data, err := a.signed()
	if err != nil {
		return answer{}, err
	}
	signature, err := key.Sign(rand.Reader, data, crypto.Hash(0))
	if err != nil {
		return answer{}, fmt.Errorf("https: signing an answer: %w", err)
	}
	a.Signature = base64.RawURLEncoding.EncodeToString(signature)
	return a, nil
}

// checkAnswer holds an answer to the question; ErrChallenge says what is wrong.
func checkAnswer(data []byte, asked answer) error {
	var got answer
	if len(data) > maxAnswer || canonical.Decode(data, &got) != nil {
		return fmt.Errorf("%w: not an answer", ErrChallenge)
	}
	if got.Address != asked.Address || got.Recipient != asked.Recipient || got.Challenge != asked.Challenge {
		return fmt.Errorf("%w: the answer is for another question", ErrChallenge)
	}
	public, err := base64.RawURLEncoding.Strict().DecodeString(got.Key)
	signature, err2 := base64.RawURLEncoding.Strict().DecodeString(got.Signature)
	if err != nil || err2 != nil || len(public) != ed25519.PublicKeySize {
		return fmt.Errorf("%w: no key or signature", ErrChallenge)
	}
	text, err := got.signed()
	if err != nil {
		return err
	}
	if !ed25519.Verify(public, text, signature) {
		return fmt.Errorf("%w: the signature is wrong", ErrChallenge)
	}
	return nil
}

// newChallenge is 16 random bytes in hex.
func newChallenge() string {
	var raw [16]byte
	_, _ = rand.Read(raw[:]) // it does not fail
	return hex.EncodeToString(raw[:])
}

// isChallenge reports whether text has the form of a challenge.
func isChallenge(text string) bool {
	return canonical.IsHex(text, 16) && !bytes.ContainsAny([]byte(text), "ABCDEF")
}
