package receipt

import (
	"bytes"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestHeaders_that_bring_danger_are_refused_by_name(t *testing.T) {
	tests := []struct {
		name, header string
		code         Code
	}{
		{"no algorithm", `{"alg":"none","kid":"k","typ":"interaction-record+jwt"}`, CodeInvalidFormat},
		{"a shared secret", `{"alg":"HS256","kid":"k","typ":"interaction-record+jwt"}`, CodeInvalidFormat},
		{"another curve", `{"alg":"ES256","kid":"k","typ":"interaction-record+jwt"}`, CodeInvalidFormat},
		{"the algorithm in lower case", `{"alg":"eddsa","kid":"k","typ":"interaction-record+jwt"}`, CodeInvalidFormat},
		{"a list of algorithms", `{"alg":["EdDSA"],"kid":"k","typ":"interaction-record+jwt"}`, CodeInvalidFormat},
		{"no alg", `{"kid":"k","typ":"interaction-record+jwt"}`, CodeInvalidFormat},

		{"jwk", `{"alg":"EdDSA","kid":"k","typ":"interaction-record+jwt","jwk":{"kty":"OKP"}}`, CodeJWSEmbeddedKey},
		{"jwk null", `{"alg":"EdDSA","kid":"k","typ":"interaction-record+jwt","jwk":null}`, CodeJWSEmbeddedKey},
		{"jku", `{"alg":"EdDSA","kid":"k","typ":"interaction-record+jwt","jku":"https://evil.example"}`, CodeJWSEmbeddedKey},
		{"x5c", `{"alg":"EdDSA","kid":"k","typ":"interaction-record+jwt","x5c":[]}`, CodeJWSEmbeddedKey},
		{"x5u", `{"alg":"EdDSA","kid":"k","typ":"interaction-record+jwt","x5u":""}`, CodeJWSEmbeddedKey},
		{"jwk by an escape", `{"alg":"EdDSA","kid":"k","typ":"interaction-record+jwt","\u006awk":{}}`, CodeJWSEmbeddedKey},
		{"crit", `{"alg":"EdDSA","kid":"k","typ":"interaction-record+jwt","crit":["exp"]}`, CodeJWSCrit},
		{"crit of nothing", `{"alg":"EdDSA","kid":"k","typ":"interaction-record+jwt","crit":[]}`, CodeJWSCrit},
		{"zip", `{"alg":"EdDSA","kid":"k","typ":"interaction-record+jwt","zip":"DEF"}`, CodeJWSZip},
		{"b64 false", `{"alg":"EdDSA","kid":"k","typ":"interaction-record+jwt","b64":false}`, CodeJWSB64},
		{"b64 as text", `{"alg":"EdDSA","kid":"k","typ":"interaction-record+jwt","b64":"true"}`, CodeJWSB64},
		{"b64 true", `{"alg":"EdDSA","kid":"k","typ":"interaction-record+jwt","b64":true}`, ""},

		{"no kid", `{"alg":"EdDSA","typ":"interaction-record+jwt"}`, CodeJWSMissingKid},
		{"an empty kid", `{"alg":"EdDSA","kid":"","typ":"interaction-record+jwt"}`, CodeJWSMissingKid},
		{"kid null", `{"alg":"EdDSA","kid":null,"typ":"interaction-record+jwt"}`, CodeJWSMissingKid},
		{"a kid that is a number", `{"alg":"EdDSA","kid":7,"typ":"interaction-record+jwt"}`, CodeJWSMissingKid},
		{"a kid of 257 bytes", `{"alg":"EdDSA","kid":"` + strings.Repeat("k", 257) + `","typ":"interaction-record+jwt"}`, CodeJWSMissingKid},
		{"a kid of 257 bytes in 256 characters", `{"alg":"EdDSA","kid":"é` + strings.Repeat("k", 255) + `","typ":"interaction-record+jwt"}`, CodeJWSMissingKid},
		{"a kid of 256 bytes", `{"alg":"EdDSA","kid":"` + strings.Repeat("k", 256) + `","typ":"interaction-record+jwt"}`, ""},
		{"a kid with a noncharacter", `{"alg":"EdDSA","kid":"\uFFFE","typ":"interaction-record+jwt"}`, CodeIJSONString},
		{"a kid with half a pair", `{"alg":"EdDSA","kid":"\uD800","typ":"interaction-record+jwt"}`, CodeIJSONString},
		{"two kids", `{"alg":"EdDSA","kid":"a","kid":"b","typ":"interaction-record+jwt"}`, CodeIJSONDuplicateName},
		{"two kids, one by an escape", `{"alg":"EdDSA","kid":"a","\u006bid":"b","typ":"interaction-record+jwt"}`, CodeIJSONDuplicateName},
		{"two algorithms", `{"alg":"EdDSA","alg":"none","kid":"k","typ":"interaction-record+jwt"}`, CodeIJSONDuplicateName},
		{"a kid that looks like a path", `{"alg":"EdDSA","kid":"../../etc/passwd","typ":"interaction-record+jwt"}`, ""},
		{"a number past 2^53", `{"alg":"EdDSA","kid":"k","typ":"interaction-record+jwt","x":9007199254740992}`, CodeIJSONNumber},
		{"nesting past the limit", `{"alg":"EdDSA","kid":"k","typ":"interaction-record+jwt","x":` + nested(32) + `}`, CodeConstraint},

		{"another type", `{"alg":"EdDSA","kid":"k","typ":"JWT"}`, CodeInvalidFormat},
		{"a type with parameters", `{"alg":"EdDSA","kid":"k","typ":"interaction-record+jwt;v=1"}`, CodeInvalidFormat},
		{"a type with a space", `{"alg":"EdDSA","kid":"k","typ":" interaction-record+jwt"}`, CodeInvalidFormat},
		{"a type null", `{"alg":"EdDSA","kid":"k","typ":null}`, CodeInvalidFormat},
		{"an empty type", `{"alg":"EdDSA","kid":"k","typ":""}`, CodeInvalidFormat},
		{"application twice", `{"alg":"EdDSA","kid":"k","typ":"application/application/interaction-record+jwt"}`, CodeInvalidFormat},
		{"no type", `{"alg":"EdDSA","kid":"k"}`, CodeInvalidFormat},
		{"the long form of the type", `{"alg":"EdDSA","kid":"k","typ":"application/interaction-record+jwt"}`, ""},
		{"the type in capitals", `{"alg":"EdDSA","kid":"k","typ":"Application/INTERACTION-Record+JWT"}`, ""},
		{"a parameter nobody knows", `{"alg":"EdDSA","kid":"k","typ":"interaction-record+jwt","cty":"json"}`, ""},
		{"no object", `["EdDSA"]`, CodeInvalidFormat},
	}
	payload := testPayload(t, nil)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			refuses(t, sealed(test.header, payload), testOptions(), test.code)
		})
	}
}

// Who takes the algorithm from the header would check this MAC with the public
// key as its secret.
func TestVerify_never_takes_the_key_for_a_shared_secret(t *testing.T) {
	encode := base64.RawURLEncoding.EncodeToString
	message := encode([]byte(`{"alg":"HS256","kid":"key-1","typ":"interaction-record+jwt"}`)) + "." + encode([]byte(testPayload(t, nil)))
	mac := hmac.New(sha256.New, testKey)
	mac.Write([]byte(message))
	refuses(t, message+"."+encode(mac.Sum(nil)), testOptions(), CodeInvalidFormat)
}

func TestSerializations_have_one_spelling(t *testing.T) {
	jws := mustIssue(t, testClaims())
	head, rest, _ := strings.Cut(jws, ".")
	payload, signature, _ := strings.Cut(rest, ".")
	last := signature[len(signature)-1]
	tests := []struct{ name, jws string }{
		{"nothing", ""},
		{"two parts", head + "." + payload},
		{"four parts", jws + "." + signature},
		{"no header", "." + payload + "." + signature},
		{"no payload", head + ".." + signature},
		{"no signature", head + "." + payload + "."},
		{"padding", jws + "=="},
		{"a line break at the end", jws + "\n"},
		{"a line break within", head[:4] + "\r\n" + head[4:] + "." + rest},
		{"a space", " " + jws},
		{"the other alphabet", strings.ReplaceAll(strings.ReplaceAll(jws, "-", "+"), "_", "/")},
		{"bits behind the signature", head + "." + payload + "." + signature[:len(signature)-1] + string(last+1)},
		{"JSON serialization", `{"payload":"` + payload + `","protected":"` + head + `","signature":"` + signature + `"}`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) { refuses(t, test.jws, testOptions(), CodeInvalidFormat) })
	}
}

func TestReceipts_beyond_the_size_are_refused_unread(t *testing.T) {
	grow := func(size int) string {
		payload := testPayload(t, nil)
		for len(sealed(testHeader, payload)) < size {
			missing := size - len(sealed(testHeader, payload))
			payload += strings.Repeat(" ", max(1, missing*3/4-2))
		}
		return sealed(testHeader, payload)
	}
	atLimit := grow(MaxJWS)
	if len(atLimit) != MaxJWS {
		t.Skipf("no receipt of exactly %d bytes: %d", MaxJWS, len(atLimit))
	}
	refuses(t, atLimit, testOptions(), "")
	refuses(t, strings.Repeat("x", MaxJWS+1), testOptions(), CodeInvalidFormat)
	_, err := Verify(grow(MaxJWS+1), testKey, testOptions())
	if CodeOf(err) != CodeInvalidFormat || !strings.Contains(err.Error(), "bytes, at most 262144") {
		t.Errorf("%v", err)
	}
}

func TestVerify_refuses_every_flipped_bit_and_every_changed_byte(t *testing.T) {
	jws := mustIssue(t, testClaims())
	for _, interop := range []bool{false, true} {
		opts := testOptions()
		opts.Interop = interop
		for i := range len(jws) {
			for bit := range 8 {
				changed := []byte(jws)
				changed[i] ^= 1 << bit
				if _, err := Verify(string(changed), testKey, opts); err == nil {
					t.Fatalf("byte %d, bit %d may be flipped", i, bit)
				}
			}
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		changed := []byte(jws)
		i := rapid.IntRange(0, len(jws)-1).Draw(t, "at")
		switch rapid.IntRange(0, 2).Draw(t, "change") {
		case 0:
			changed[i] = rapid.Byte().Draw(t, "byte")
		case 1:
			changed = append(changed[:i], changed[i+1:]...)
		case 2:
			changed = append(changed[:i], append([]byte{rapid.Byte().Draw(t, "byte")}, changed[i:]...)...)
		}
		if bytes.Equal(changed, []byte(jws)) {
			return
		}
		if _, err := Verify(string(changed), testKey, testOptions()); err == nil {
			t.Fatalf("%q verifies", changed)
		}
	})
}

func TestVerify_refuses_another_key(t *testing.T) {
	other := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{8}, ed25519.SeedSize)).Public().(ed25519.PublicKey)
	if _, err := Verify(mustIssue(t, testClaims()), other, testOptions()); CodeOf(err) != CodeInvalidSignature {
		t.Error(err)
	}
}

func TestDecode_reads_what_nobody_signed_and_refuses_what_nobody_could(t *testing.T) {
	message, _, _ := cutLast(mustIssue(t, testClaims()))
	decoded, err := Decode(message + ".AAAA")
	if err != nil {
		t.Fatal(err)
	}
	want := *testClaims()
	want.PeacVersion = Version
	if diff := cmp.Diff(&Decoded{Claims: want, KeyID: "key-1"}, decoded); diff != "" {
		t.Error(diff)
	}
	untyped := sealed(`{"alg":"EdDSA","kid":"k"}`, testPayload(t, nil))
	if _, err := Decode(untyped); err != nil {
		t.Errorf("without typ: %v", err)
	}
	for name, jws := range map[string]string{
		"claims":  sealed(testHeader, testPayload(t, map[string]any{"jti": ""})),
		"version": sealed(testHeader, testPayload(t, map[string]any{"peac_version": "0.3"})),
		"header":  sealed(`{"alg":"none"}`, testPayload(t, nil)),
		"depth":   sealed(testHeader, testPayload(t, map[string]any{"extensions": map[string]any{"a.b/c": deep(31)}})),
		"legacy":  sealed(`{"alg":"EdDSA","typ":"peac-receipt/0.1"}`, `{"iss":"https://a.example"}`),
	} {
		if _, err := Decode(jws); CodeOf(err) == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// deep is a value of that many arrays.
func deep(depth int) any {
	var value any = "core"
	for range depth {
		value = []any{value}
	}
	return value
}
