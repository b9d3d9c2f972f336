package envelope

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/nbd-wtf/go-nostr"
	"github.com/nbd-wtf/go-nostr/nip44"

	"github.com/parleykit/parley/protocol/message"
)

var now = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// key is a Keyer over a secret that everyone may know.
type key struct{ secret string }

var (
	alice = key{"0000000000000000000000000000000000000000000000000000000000000001"}
	bob   = key{"0000000000000000000000000000000000000000000000000000000000000002"}
	carol = key{"0000000000000000000000000000000000000000000000000000000000000003"}
)

func (k key) PublicKey() string {
	public, err := nostr.GetPublicKey(k.secret)
	if err != nil {
		panic(err)
	}
	return public
}

func (k key) Sign(ev *nostr.Event) error { return ev.Sign(k.secret) }

func (k key) ConversationKey(peer string) ([32]byte, error) {
	return nip44.GenerateConversationKey(peer, k.secret)
}

// fixedEntropy gives the same bytes in every run.
func fixedEntropy(name string) *rand.ChaCha8 {
	var seed [32]byte
	copy(seed[:], name)
	return rand.NewChaCha8(seed)
}

// text is a short message from alice to bob.
func text(t testing.TB, words string) *message.Message {
	t.Helper()
	m, err := message.New(message.TypeText, alice.PublicKey(), bob.PublicKey(), message.Text{Text: words}, now, 24*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	m.ID = "019ad4a2-2c00-7000-8000-000000000001"
	m.Thread = m.ID
	return m
}

// artifact is a message from alice to bob that carries any text up to 1 MiB.
func artifact(t testing.TB, bundle string) *message.Message {
	t.Helper()
	m := text(t, "x")
	encoded, err := jsontext.AppendQuote(nil, bundle)
	if err != nil {
		t.Fatal(err)
	}
	m.Type = message.TypeAgreementArtifact
	m.Body = append(append(jsontext.Value(`{"agreement_id":"019ad4a2-2c00-7000-8000-00000000000a","bundle":`), encoded...), '}')
	return m
}

// noise is n characters drawn from an alphabet.
func noise(name, alphabet string, n int) string {
	letters := []rune(alphabet)
	random := rand.New(fixedEntropy(name))
	out := make([]rune, n)
	for i := range out {
		out[i] = letters[random.IntN(len(letters))]
	}
	return string(out)
}

const base64url = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

// mustSeal seals from alice.
func mustSeal(t testing.TB, m *message.Message) []Wrap {
	t.Helper()
	wraps, err := Seal(m, alice, now)
	if err != nil {
		t.Fatal(err)
	}
	return wraps
}

// openAll opens wraps as bob and returns the message, or its parts.
func openAll(t testing.TB, wraps []Wrap) (*message.Message, []*Part) {
	t.Helper()
	var parts []*Part
	for _, wrap := range wraps {
		opened, err := Open(wrap.Bytes, bob, now)
		if err != nil {
			t.Fatal(err)
		}
		if opened.WrapID != wrap.ID || opened.Sender != alice.PublicKey() {
			t.Fatalf("wrap %s of %s", opened.WrapID, opened.Sender)
		}
		if opened.Message != nil {
			return opened.Message, nil
		}
		parts = append(parts, opened.Part)
	}
	return nil, parts
}
