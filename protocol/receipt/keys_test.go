package receipt

import (
	"bytes"
	"crypto/ed25519"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"pgregory.net/rapid"
)

func TestThumbprint_is_that_of_RFC_8037(t *testing.T) {
	key := JWK{KeyType: "OKP", Curve: "Ed25519", X: "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo", KeyID: "any"}
	if got := key.Thumbprint(); got != "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k" {
		t.Error(got)
	}
}

func TestJWK_carries_a_key_and_back(t *testing.T) {
	j := NewJWK(testKey, "")
	if j.KeyID != j.Thumbprint() {
		t.Errorf("kid %s", j.KeyID)
	}
	if named := NewJWK(testKey, "key-1"); named.KeyID != "key-1" || named.Thumbprint() != j.Thumbprint() {
		t.Errorf("%+v", named)
	}
	data, err := json.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	var read JWK
	if err := json.Unmarshal(data, &read); err != nil {
		t.Fatal(err)
	}
	key, err := read.PublicKey()
	if err != nil || !key.Equal(testKey) {
		t.Errorf("%x %v", key, err)
	}
}

func TestJWK_refuses_every_other_key(t *testing.T) {
	for name, change := range map[string]func(*JWK){
		"kind":       func(j *JWK) { j.KeyType = "EC" },
		"curve":      func(j *JWK) { j.Curve = "X25519" },
		"use":        func(j *JWK) { j.Use = "enc" },
		"algorithm":  func(j *JWK) { j.Algorithm = "ES256" },
		"long kid":   func(j *JWK) { j.KeyID = strings.Repeat("k", 257) },
		"no key":     func(j *JWK) { j.X = "" },
		"short key":  func(j *JWK) { j.X = j.X[:42] },
		"padding":    func(j *JWK) { j.X += "=" },
		"line break": func(j *JWK) { j.X += "\n" },
		"weak key":   func(j *JWK) { j.X = strictBase64.EncodeToString(yOne[:]) },
	} {
		j := NewJWK(testKey, "")
		change(&j)
		if _, err := j.PublicKey(); CodeOf(err) != CodeVerifyJWKSInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The key of the seed of 32 zeros and its name, as the did:key method
// publishes it.
func TestDIDKey_is_spelt_as_the_method_says(t *testing.T) {
	key := ed25519.NewKeyFromSeed(make([]byte, 32)).Public().(ed25519.PublicKey)
	const want = "did:key:z6MkiTBz1ymuepAQ4HEHYSF1H8quG5GLVVQR3djdX3mDooWp"
	if got := DIDKey(key); got != want {
		t.Errorf("got %s", got)
	}
	if got, err := ParseDIDKey(want); err != nil || !got.Equal(key) {
		t.Errorf("%x %v", got, err)
	}
}

func TestDIDKey_names_every_key_once(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.SliceOfN(rapid.Byte(), ed25519.SeedSize, ed25519.SeedSize).Draw(t, "seed")
		key := ed25519.NewKeyFromSeed(seed).Public().(ed25519.PublicKey)
		did := DIDKey(key)
		if !isIssuer(did) {
			t.Fatalf("%s is no issuer", did)
		}
		if got, err := ParseDIDKey(did); err != nil || !got.Equal(key) {
			t.Fatalf("%s: %x %v", did, got, err)
		}
		changed := []byte(did)
		i := rapid.IntRange(0, len(changed)-1).Draw(t, "at")
		changed[i] = rapid.Byte().Draw(t, "byte")
		got, err := ParseDIDKey(string(changed))
		if err == nil && (DIDKey(got) != string(changed) || got.Equal(key) && string(changed) != did) {
			t.Fatalf("%q is a second name of a key", changed)
		}
	})
}

func TestDIDKey_refuses_other_names(t *testing.T) {
	good := DIDKey(testKey)
	for _, did := range []string{
		"", "did:key:", "did:key:z", "did:web:a.example", good[:len(good)-1], good + "1", good + "#" + good[8:], " " + good, good + "\n",
		"did:key:z1" + good[9:], "did:key:u" + good[9:], "did:key:z" + strings.Repeat("z", 64), "did:key:z" + strings.Repeat("z", 1<<20),
		strings.Replace(good, "z6Mk", "z0Ok", 1),
		didKeyPrefix + encodeBase58(append([]byte("\xec\x01"), testKey...)), // a key for X25519
		didKeyPrefix + encodeBase58(append([]byte(didKeyCodec), yOne[:]...)),
		didKeyPrefix + encodeBase58(append([]byte(didKeyCodec), bytes.Repeat([]byte{1}, 33)...)),
	} {
		if _, err := ParseDIDKey(did); CodeOf(err) != CodeKeyNotFound {
			t.Errorf("%.80q: %v", did, err)
		}
	}
}

func TestReceipts_of_a_did_key_verify_from_themselves(t *testing.T) {
	c := testClaims()
	c.Issuer = DIDKey(testKey)
	jws := mustIssue(t, c)
	decoded, err := Decode(jws)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ParseDIDKey(decoded.Claims.Issuer)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Verify(jws, key, testOptions()); err != nil {
		t.Error(err)
	}
}
