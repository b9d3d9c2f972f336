package receipt

import (
	"strings"
	"testing"
)

// checkRefusal holds a refusal to what every caller relies on.
func checkRefusal(t *testing.T, err error) {
	t.Helper()
	if code := CodeOf(err); code.Explain().Status == 0 || len(err.Error()) > 1_000 {
		t.Fatalf("code %q, %d bytes: %.200s", code, len(err.Error()), err)
	}
}

func FuzzReadObject(f *testing.F) {
	for _, text := range []string{
		testHeader, `{"a":[1,-2.5e3,{"b":null}],"\u0061":"\ud83d\ude00"}`, `{"n":9007199254740991.1}`, `{"s":"\uD800"}`,
		"{\"s\":\"\xff\"}", `{"a":` + nested(32) + `}`, `{"a":1,"a":2}`, ` { } `, `{"n":0.1e-5,"m":1e0000003}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) { checkReading(t, data) })
}

func FuzzHeader(f *testing.F) {
	for _, header := range []string{
		testHeader, `{"alg":"none"}`, `{"alg":"EdDSA","kid":"k"}`, `{"alg":"EdDSA","typ":"peac-receipt/0.1"}`,
		`{"alg":"EdDSA","kid":"k","jwk":{}}`, `{"alg":"EdDSA","kid":"k","b64":false,"crit":["b64"]}`, `{"alg":"EdDSA","kid":7,"zip":"DEF"}`,
	} {
		f.Add(header)
	}
	f.Fuzz(func(t *testing.T, text string) {
		h, err := readHeader([]byte(text))
		if err != nil {
			checkRefusal(t, err)
			return
		}
		if h.typ != legacyType && (h.keyID == "" || len(h.keyID) > MaxKeyID) {
			t.Fatalf("admitted with kid %q", h.keyID)
		}
	})
}

// What is admitted as claims can be issued again by whoever keeps to the
// narrower rules of writing, and then says the same.
func FuzzClaims(f *testing.F) {
	f.Add(testPayload(f, nil))
	f.Add(testPayload(f, map[string]any{"kind": KindChallenge, "type": "https://a.example/x", "extensions": nil, "pillars": []any{"access", "safety"}}))
	f.Add(testPayload(f, map[string]any{
		"actor":  map[string]any{"id": "a", "proof_type": "did", "origin": "https://a.example:1"},
		"policy": map[string]any{"digest": someSHA256, "uri": "https://a.example"}, "representation": map[string]any{"content_length": 1},
		"occurred_at": "2024-03-03T00:00:00Z", "extensions": map[string]any{"org.example/x": []any{1, "a", nil}},
	}))
	f.Add(`{"peac_version":"0.1"}`)
	opts := testOptions()
	opts.Interop = true
	f.Fuzz(func(t *testing.T, payload string) {
		verified, err := Verify(sealed(testHeader, payload), testKey, opts)
		if err != nil {
			checkRefusal(t, err)
			return
		}
		again, err := Issue(&verified.Claims, "key-1", testSign)
		if err != nil {
			checkRefusal(t, err)
			return
		}
		strict := opts
		strict.Interop = false
		second, err := Verify(again, testKey, strict)
		if err != nil || second.Claims.ID != verified.Claims.ID || second.Claims.Issuer != verified.Claims.Issuer {
			t.Fatalf("%v: %s", err, payload)
		}
	})
}

func FuzzVerify(f *testing.F) {
	jws := mustIssue(f, testClaims())
	f.Add(jws)
	f.Add(strings.ToUpper(jws))
	f.Add(forged(testHeader, testPayload(f, nil)))
	f.Add("..")
	f.Fuzz(func(t *testing.T, text string) {
		verified, err := Verify(text, testKey, testOptions())
		switch {
		case err != nil:
			checkRefusal(t, err)
		case text != jws && verified.Claims.ID == testClaims().ID:
			t.Fatalf("a second spelling verifies: %q", text)
		}
		if _, err := Decode(text); err != nil {
			checkRefusal(t, err)
		}
	})
}

func FuzzDIDKey(f *testing.F) {
	f.Add(DIDKey(testKey))
	f.Add("did:key:z1")
	f.Fuzz(func(t *testing.T, did string) {
		key, err := ParseDIDKey(did)
		if err != nil {
			checkRefusal(t, err)
		} else if DIDKey(key) != did {
			t.Fatalf("%q is a second name of %q", did, DIDKey(key))
		}
	})
}
