package relay

import (
	"encoding/hex"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"
	"pgregory.net/rapid"
)

// signedEvent is a valid event of a new key.
func signedEvent(t testing.TB, content string) *nostr.Event {
	t.Helper()
	ev := &nostr.Event{Kind: kindProfile, CreatedAt: nostr.Timestamp(time.Now().Unix()), Tags: nostr.Tags{}, Content: content}
	if err := ev.Sign(nostr.GeneratePrivateKey()); err != nil {
		t.Fatal(err)
	}
	return ev
}

// flip changes one bit of a text in hex.
func flip(text string, bit int) string {
	b, _ := hex.DecodeString(text)
	b[bit/8%len(b)] ^= 1 << (bit % 8)
	return hex.EncodeToString(b)
}

func TestSignatureIsValidAgreesWithTheLibrary(t *testing.T) {
	valid := signedEvent(t, "valid")
	if !signatureIsValid(valid) {
		t.Fatal("a valid signature is refused")
	}
	rapid.Check(t, func(t *rapid.T) {
		ev := *valid
		bit := rapid.IntRange(0, 511).Draw(t, "bit")
		switch rapid.IntRange(0, 3).Draw(t, "field") {
		case 0:
			ev.PubKey = flip(ev.PubKey, bit)
		case 1:
			ev.Sig = flip(ev.Sig, bit)
		case 2: // key and nonce beyond the field
			ev.PubKey = "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"
		case 3:
			ev.Sig = "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff" + ev.Sig[64:]
		}
		ev.ID = ev.GetID()
		want, err := ev.CheckSignature()
		if got := signatureIsValid(&ev); got != (want && err == nil) {
			t.Fatalf("valid is %v, the library says %v, %v", got, want, err)
		}
	})
}

func TestVerifierRemembersWhatIsProvenAndNothingElse(t *testing.T) {
	v := newVerifier()
	ev := signedEvent(t, "proven")
	forged := *ev
	forged.Sig = flip(ev.Sig, 7)
	if v.verify(t.Context(), &forged) || v.isProven(signature{forged.ID, forged.Sig}) {
		t.Error("a wrong signature is valid, or remembered")
	}
	if !v.verify(t.Context(), ev) || !v.isProven(signature{ev.ID, ev.Sig}) {
		t.Error("a valid signature is not, or not remembered")
	}
	if v.verify(t.Context(), &forged) {
		t.Error("the id alone made a wrong signature valid")
	}
	for range 2 * provenSignatures {
		v.prove(signature{nostr.GeneratePrivateKey(), ""})
	}
	if n := len(v.proven.younger) + len(v.proven.older); n > provenSignatures || v.isProven(signature{ev.ID, ev.Sig}) {
		t.Errorf("%d signatures are remembered, at most %d should be, the oldest none of them", n, provenSignatures)
	}
}

// BenchmarkVerification is one signature of a new event, the limit of ingest.
func BenchmarkVerification(b *testing.B) {
	ev := signedEvent(b, "bench")
	for b.Loop() {
		if !signatureIsValid(ev) {
			b.Fatal("a valid signature is refused")
		}
	}
}
