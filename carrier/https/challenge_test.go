package https

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
)

// exampleKey has the seed 00 01 … 1f.
func exampleKey() ed25519.PrivateKey {
	seed := make([]byte, ed25519.SeedSize)
	for i := range seed {
		seed[i] = byte(i)
	}
	return ed25519.NewKeyFromSeed(seed)
}

func exampleQuestion() answer {
	return answer{
		Address:   "https://mail.example" + EnvelopesPath,
		Recipient: "c6047f9441ed7d6d3045406e95c07cd85c778e4b8cef3ca7abac09b95c709ee5",
		Challenge: "000102030405060708090a0b0c0d0e0f",
	}
}

func exampleAnswer(t testing.TB) (answer, []byte) {
	t.Helper()
	signed, err := exampleQuestion().sign(exampleKey())
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(signed)
	if err != nil {
		t.Fatal(err)
	}
	return signed, data
}

func TestTheExampleOfTheSpecIsRight(t *testing.T) {
	signed, data := exampleAnswer(t)
	text, err := signed.signed()
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/spec/https-carrier.md")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"signed bytes": string(text), "answer": string(data)} {
		if !strings.Contains(string(page), "\n"+want+"\n```") {
			t.Errorf("the page has other %s than\n%s", name, want)
		}
	}
}

// Each row breaks one thing of a right answer.
func TestWrongAnswersAreRefused(t *testing.T) {
	asked := exampleQuestion()
	resign := func(change func(*answer)) []byte {
		a := asked
		change(&a)
		signed, err := a.sign(exampleKey())
		if err != nil {
			t.Fatal(err)
		}
		data, _ := json.Marshal(signed)
		return data
	}
	alter := func(change func(*answer)) []byte {
		a, _ := exampleAnswer(t)
		change(&a)
		data, _ := json.Marshal(a)
		return data
	}
	_, right := exampleAnswer(t)
	if err := checkAnswer(right, asked); err != nil {
		t.Fatalf("the right answer: %v", err)
	}
	other := base64.RawURLEncoding.EncodeToString(ed25519.NewKeyFromSeed(make([]byte, 32)).Public().(ed25519.PublicKey))
	for name, data := range map[string][]byte{
		"empty":             nil,
		"HTML":              []byte("<html>"),
		"unknown field":     []byte(strings.Replace(string(right), "{", `{"more":1,`, 1)),
		"twice":             append(append([]byte{}, right...), right...),
		"large":             append(append([]byte{}, right...), strings.Repeat(" ", maxAnswer)...),
		"other address":     resign(func(a *answer) { a.Address += "/" }),
		"other recipient":   resign(func(a *answer) { a.Recipient = strings.Repeat("0", 64) }),
		"other challenge":   resign(func(a *answer) { a.Challenge = strings.Repeat("0", 32) }),
		"another's key":     alter(func(a *answer) { a.Key = other }),
		"no key":            alter(func(a *answer) { a.Key = "" }),
		"short key":         alter(func(a *answer) { a.Key = a.Key[:20] }),
		"padded key":        alter(func(a *answer) { a.Key += "=" }),
		"no signature":      alter(func(a *answer) { a.Signature = "" }),
		"wrong signature":   alter(func(a *answer) { a.Signature = strings.Repeat("A", 86) }),
		"broken signature":  alter(func(a *answer) { a.Signature = "?" + a.Signature }),
		"lax key encoding":  alter(func(a *answer) { a.Key = lax(a.Key) }),
		"lax sig encoding":  alter(func(a *answer) { a.Signature = lax(a.Signature) }),
		"other label bytes": alter(func(a *answer) { a.Signature = unlabelled(t, *a) }),
	} {
		if err := checkAnswer(data, asked); !errors.Is(err, ErrChallenge) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// lax sets the unused bits of the last digit.
func lax(text string) string {
	const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	return text[:len(text)-1] + string(digits[strings.IndexByte(digits, text[len(text)-1])|1])
}

// unlabelled is a signature of the answer without the label.
func unlabelled(t *testing.T, a answer) string {
	t.Helper()
	text, err := a.signed()
	if err != nil {
		t.Fatal(err)
	}
	return base64.RawURLEncoding.EncodeToString(ed25519.Sign(exampleKey(), text[len(challengeLabel):]))
}

func FuzzAnswer(f *testing.F) {
	_, right := exampleAnswer(f)
	for _, seed := range []string{string(right), "", "{}", "null", `{"address":1}`, "<html>"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		err := checkAnswer(data, exampleQuestion())
		if err != nil && !errors.Is(err, ErrChallenge) {
			t.Fatalf("an error of another kind: %v", err)
		}
		var got answer
		if err == nil && (json.Unmarshal(data, &got) != nil || got.Challenge != exampleQuestion().Challenge) {
			t.Fatalf("taken: %q", data)
		}
	})
}
