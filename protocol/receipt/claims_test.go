package receipt

import (
	"strings"
	"testing"
)

const someSHA256 = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

func TestClaims_are_held_to_every_rule(t *testing.T) {
	actor := func(name string, value any) map[string]any {
		a := map[string]any{"id": "a", "proof_type": "did", "origin": "https://a.example"}
		if a[name] = value; value == nil {
			delete(a, name)
		}
		return a
	}
	extension := func(key string, value any) map[string]any {
		return map[string]any{key: value, "org.peacprotocol/consent": testClaims().Extensions["org.peacprotocol/consent"]}
	}
	long := strings.Repeat
	tests := []struct {
		name    string
		claim   string
		value   any // nil leaves the claim out
		code    Code
		pointer string
	}{
		{"no version", "peac_version", nil, CodeWireVersionMismatch, "/peac_version"},
		{"version 0.1", "peac_version", "0.1", CodeWireVersionMismatch, "/peac_version"},
		{"version 0.3", "peac_version", "0.3", CodeWireVersionMismatch, "/peac_version"},
		{"a version that is a number", "peac_version", 0.2, CodeWireVersionMismatch, "/peac_version"},

		{"no kind", "kind", nil, CodeInvalidFormat, "/kind"},
		{"a third kind", "kind", "attestation", CodeKindUnsupported, "/kind"},
		{"a kind in capitals", "kind", "Evidence", CodeKindUnsupported, "/kind"},
		{"a kind that is a number", "kind", 1, CodeInvalidFormat, "/kind"},

		{"no type", "type", nil, CodeInvalidFormat, "/type"},
		{"an empty type", "type", "", CodeInvalidFormat, "/type"},
		{"a type without a dot", "type", "localhost/x", CodeInvalidFormat, "/type"},
		{"a type of three parts", "type", "org.example/a/b", CodeInvalidFormat, "/type"},
		{"a type without a segment", "type", "org.example", CodeInvalidFormat, "/type"},
		{"a type of 257", "type", "org.example/" + long("a", 245), CodeInvalidFormat, "/type"},
		{"a type of 256", "type", "org.example/" + long("a", 244), "", ""},
		{"a type in capitals", "type", "Org.Example/A_b.c", "", ""},
		{"a URI as type", "type", "urn+x://", "", ""},

		{"no issuer", "iss", nil, CodeInvalidFormat, "/iss"},
		{"an issuer that is a list", "iss", []any{"https://a.example"}, CodeInvalidFormat, "/iss"},
		{"an empty issuer", "iss", "", CodeIssuerNotCanonical, "/iss"},
		{"a long issuer", "iss", "did:web:" + long("a", 2041), CodeIssuerNotCanonical, "/iss"},
		{"an issuer of 2048", "iss", "did:web:" + long("a", 2040), "", ""},

		{"no iat", "iat", nil, CodeInvalidFormat, "/iat"},
		{"iat as text", "iat", "1709500000", CodeInvalidFormat, "/iat"},
		{"half a second", "iat", 1709500000.5, CodeInvalidFormat, "/iat"},

		{"no jti", "jti", nil, CodeInvalidFormat, "/jti"},
		{"an empty jti", "jti", "", CodeInvalidFormat, "/jti"},
		{"a jti of 257", "jti", long("j", 257), CodeInvalidFormat, "/jti"},
		{"a jti of 256", "jti", long("j", 256), "", ""},

		{"sub as a number", "sub", 7, CodeInvalidFormat, "/sub"},
		{"sub of 2049", "sub", long("s", 2049), CodeInvalidFormat, "/sub"},
		{"sub of 2048", "sub", long("s", 2048), "", ""},

		{"pillars as text", "pillars", "consent", CodeInvalidFormat, "/pillars"},
		{"no pillar", "pillars", []any{}, CodeInvalidFormat, "/pillars"},
		{"an eleventh pillar", "pillars", []any{"access", "finance"}, CodeInvalidFormat, "/pillars/1"},
		{"pillars in disorder", "pillars", []any{"safety", "access"}, CodePillarsNotSorted, "/pillars/1"},
		{"a pillar twice", "pillars", []any{"access", "access"}, CodePillarsNotSorted, "/pillars/1"},

		{"actor as text", "actor", "a", CodeInvalidFormat, "/actor"},
		{"actor without id", "actor", actor("id", nil), CodeInvalidFormat, "/actor/id"},
		{"actor with an empty id", "actor", actor("id", ""), CodeInvalidFormat, "/actor/id"},
		{"actor with a long id", "actor", actor("id", long("i", 257)), CodeInvalidFormat, "/actor/id"},
		{"actor without proof type", "actor", actor("proof_type", nil), CodeInvalidFormat, "/actor/proof_type"},
		{"actor with a proof method of another list", "actor", actor("proof_type", "dpop"), CodeInvalidFormat, "/actor/proof_type"},
		{"actor with a proof type no schema takes", "actor", actor("proof_type", "slsa-v1.2"), CodeInvalidFormat, "/actor/proof_type"},
		{"actor without origin", "actor", actor("origin", nil), CodeInvalidFormat, "/actor/origin"},
		{"actor with a path", "actor", actor("origin", "https://a.example/x"), CodeInvalidFormat, "/actor/origin"},
		{"actor with a long reference", "actor", actor("proof_ref", long("r", 2049)), CodeInvalidFormat, "/actor/proof_ref"},
		{"actor with a short hash", "actor", actor("intent_hash", "sha256:00"), CodeInvalidFormat, "/actor/intent_hash"},
		{"actor with more", "actor", actor("role", "x"), CodeInvalidFormat, "/actor/role"},
		{"actor with everything", "actor", map[string]any{
			"id": "a", "proof_type": "custom", "origin": "http://127.0.0.1:8080", "proof_ref": "org.example:x", "intent_hash": someSHA256,
		}, "", ""},

		{"policy without digest", "policy", map[string]any{}, CodeInvalidFormat, "/policy/digest"},
		{"policy with capitals", "policy", map[string]any{"digest": strings.ToUpper(someSHA256)}, CodeInvalidFormat, "/policy/digest"},
		{"policy with http", "policy", map[string]any{"digest": someSHA256, "uri": "http://a.example"}, CodeInvalidFormat, "/policy/uri"},
		{"policy with a long version", "policy", map[string]any{"digest": someSHA256, "version": long("v", 257)}, CodeInvalidFormat, "/policy/version"},
		{"policy with more", "policy", map[string]any{"digest": someSHA256, "x": 1}, CodeInvalidFormat, "/policy/x"},

		{"representation of nothing", "representation", map[string]any{}, "", ""},
		{"representation with a MAC", "representation", map[string]any{"content_hash": "hmac-" + someSHA256}, CodeInvalidFormat, "/representation/content_hash"},
		{"representation without a subtype", "representation", map[string]any{"content_type": "text"}, CodeInvalidFormat, "/representation/content_type"},
		{"representation with a broken parameter", "representation", map[string]any{"content_type": "text/plain; x"}, CodeInvalidFormat, "/representation/content_type"},
		{"representation with parameters", "representation", map[string]any{"content_type": `text/plain; charset=utf-8;x="y z"`}, "", ""},
		{"representation of less than nothing", "representation", map[string]any{"content_length": -1}, CodeInvalidFormat, "/representation/content_length"},
		{"representation of half a byte", "representation", map[string]any{"content_length": 0.5}, CodeInvalidFormat, "/representation/content_length"},
		{"representation with more", "representation", map[string]any{"x": 1}, CodeInvalidFormat, "/representation/x"},

		{"occurred_at without offset", "occurred_at", "2024-03-03T12:00:00", CodeInvalidFormat, "/occurred_at"},
		{"occurred_at in no month", "occurred_at", "2024-13-03T12:00:00Z", CodeInvalidFormat, "/occurred_at"},
		{"occurred_at as a number", "occurred_at", 1709500000, CodeInvalidFormat, "/occurred_at"},

		{"purpose as a list", "purpose_declared", []any{"train"}, CodeInvalidFormat, "/purpose_declared"},
		{"purpose of 257", "purpose_declared", long("p", 257), CodeInvalidFormat, "/purpose_declared"},

		{"extensions as a list", "extensions", []any{}, CodeInvalidFormat, "/extensions"},
		{"an extension without a dot", "extensions", extension("example/x", 1), CodeInvalidExtensionKey, "/extensions/example~1x"},
		{"an extension in capitals", "extensions", extension("org.Example/x", 1), CodeInvalidExtensionKey, "/extensions/org.Example~1x"},
		{"an extension of another shape", "extensions", extension("__proto__", 1), CodeInvalidExtensionKey, "/extensions/__proto__"},
		{"a group that is wrong", "extensions", extension("org.peacprotocol/access", map[string]any{}), CodeInvalidFormat, "/extensions/org.peacprotocol~1access/resource"},
		{"an extension of 64 KiB beside a small one", "extensions", extension("org.example/x", filler(64<<10)), CodeExtensionSize, "/extensions"},

		{"exp", "exp", 1709600000, CodeInvalidFormat, "/exp"},
		{"rid", "rid", "x", CodeInvalidFormat, "/rid"},
		{"a null", "sub\x00", "x", CodeInvalidFormat, "/sub\x00"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			err := refuses(t, sealed(testHeader, testPayload(t, map[string]any{test.claim: test.value})), testOptions(), test.code)
			if err != nil && err.Pointer != test.pointer {
				t.Errorf("at %q, want %q", err.Pointer, test.pointer)
			}
		})
	}
}

// filler is an array of short strings that takes about size bytes.
func filler(size int) any {
	items := make([]any, size/100)
	for i := range items {
		items[i] = strings.Repeat("x", 97)
	}
	return items
}

func TestExtensions_fill_64_KiB_and_no_byte_more(t *testing.T) {
	frame := len(`{"org.example/x":""}`)
	for size, code := range map[int]Code{MaxExtensions: "", MaxExtensions + 1: CodeExtensionSize} {
		payload := testPayload(t, map[string]any{
			"type": "org.example/x", "extensions": map[string]any{"org.example/x": strings.Repeat("x", size-frame)},
		})
		refuses(t, sealed(testHeader, payload), testOptions(), code)
	}
}

func TestClaims_that_are_null_are_refused(t *testing.T) {
	for _, claim := range []string{"sub", "pillars", "actor", "policy", "representation", "occurred_at", "purpose_declared", "extensions"} {
		payload := strings.Replace(testPayload(t, map[string]any{claim: nil}), "{", `{"`+claim+`":null,`, 1)
		if err := refuses(t, sealed(testHeader, payload), testOptions(), CodeInvalidFormat); err.Pointer != "/"+claim {
			t.Errorf("%s: at %q", claim, err.Pointer)
		}
	}
}

func TestIssuers_have_one_spelling(t *testing.T) {
	for _, iss := range []string{
		"https://a.example", "https://a.example:8443", "https://a.example:80", "https://localhost", "https://localhost:8443",
		"https://127.0.0.1:8443", "https://[::1]", "https://[2001:db8::1]:8443", "https://xn--bcher-kva.example", "https://a_b.example",
		"did:web:a.example", "did:key:z6Mk", "did:web:a.example%3A8443:users:x", DIDKey(testKey),
	} {
		if !isIssuer(iss) {
			t.Errorf("%s is refused", iss)
		}
	}
	for _, iss := range []string{
		"https://", "https:///", "https://a.example/", "https://a.example/x", "https://a.example?x", "https://a.example#x",
		"https://A.example", "HTTPS://a.example", "https://a.example:443", "https://a.example:0443", "https://a.example:08443", "https://a.example:",
		"https://a.example:65536", "https://a.example:+1", "https://u@a.example", "https://u:p@a.example", "https://bücher.example",
		"https://a..example", "https://.example", "https://a.example.", "https://-a.example", "https://a b.example", "https://a.example\n",
		"https://1.2.3", "https://127.1", "https://0x7f.1", "https://127.0.0.01", "https://[::0001]", "https://[::1", "https://::1",
		"https://[::ffff:127.0.0.1%25lo]", "https://[fe80::1%25eth0]", "https://[127.0.0.1]", "https://%61.example", "https://a.example\\x",
		"http://a.example", "ftp://a.example", "urn:x:y", "spiffe://a/b", "a.example", "mailto:x@a.example",
		"did:", "did:key", "did:key:", "did:KEY:x", "did:key:x#y", "did:key:x?y", "did:key:x/y", "DID:key:x",
		"https://" + strings.Repeat("a.", 130) + "example", "https://" + strings.Repeat("a", 64) + ".example",
	} {
		if isIssuer(iss) {
			t.Errorf("%q is admitted", iss)
		}
	}
}
