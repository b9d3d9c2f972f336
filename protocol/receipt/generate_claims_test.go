package receipt

import (
	"encoding/json"
	"maps"
	"slices"

	"pgregory.net/rapid"
)

// groupTypes are the registered types whose groups have fields of their own.
var groupTypes = map[string]string{
	"access": "access-decision", "attribution": "attribution-event", "commerce": "payment", "compliance": "compliance-check",
	"consent": "consent-record", "identity": "identity-attestation", "privacy": "privacy-signal", "provenance": "provenance-record",
	"purpose": "purpose-declaration", "safety": "safety-review",
}

var someIssuer = func(t *rapid.T) any {
	return rapid.OneOf(
		rapid.StringMatching(`https://([a-z][a-z0-9-]{0,9}[a-z0-9]\.){1,3}example(:(8443|80|65535))?`),
		rapid.StringMatching(`did:[a-z0-9]{1,9}:[a-zA-Z0-9._%:-]{1,40}`),
		rapid.SampledFrom([]string{"https://127.0.0.1", "https://[::1]:8443", "https://xn--bcher-kva.example", "https://localhost"}),
	).Draw(t, "issuer")
}

// optionalClaims draw the claims that every receipt may have.
var optionalClaims = map[string]maker{
	"sub":              words(0, 2048),
	"pillars":          different(1, 10, pick("access", "attribution", "commerce", "compliance", "consent", "identity", "privacy", "provenance", "purpose", "safety")),
	"purpose_declared": words(0, 256),
	"actor": members(map[string]maker{
		"id": words(1, 256), "proof_type": pick("ed25519-cert-chain", "eat-passport", "eat-background-check", "sigstore-oidc", "did", "spiffe", "x509-pki", "custom"),
		"origin": matching(`https://[a-z]{1,9}\.example(:8443)?`), "proof_ref?": words(0, 2048), "intent_hash?": someDigest,
	}),
	"policy": members(map[string]maker{"digest": someDigest, "uri?": someLocator, "version?": words(0, 256)}),
	"representation": members(map[string]maker{
		"content_hash?": someDigest, "content_type?": pick("text/markdown", "text/plain; charset=utf-8", "application/vnd.example+json"), "content_length?": number(0, 1<<53-1),
	}),
}

// anyClaims draws valid claims issued at most a minute before now.
func anyClaims(t *rapid.T, now int64) map[string]any {
	name, group := anyGroup(t)
	claims := map[string]any{
		"peac_version": "0.2",
		"kind":         rapid.SampledFrom([]string{"evidence", "challenge"}).Draw(t, "kind"),
		"type":         rapid.SampledFrom([]string{"org.example/thing", "https://example.org/types/a?b#c", "x-a.b+c://d", "Org.Example/Thing.2_a"}).Draw(t, "type"),
		"iss":          someIssuer(t),
		"iat":          float64(now - int64(rapid.IntRange(0, 60).Draw(t, "age"))),
		"jti":          words(1, 256)(t),
		"extensions":   anyExtensions(t, name, group),
	}
	if registered, ok := groupTypes[name]; ok && rapid.Bool().Draw(t, "registered") {
		claims["type"] = namespace + registered
	}
	if claims["kind"] == "evidence" && rapid.Bool().Draw(t, "with occurred_at") {
		claims["occurred_at"] = "2026-03-14T12:00:00.5+05:30"
	}
	for _, claim := range slices.Sorted(maps.Keys(optionalClaims)) {
		if rapid.Bool().Draw(t, "with "+claim) {
			claims[claim] = optionalClaims[claim](t)
		}
	}
	return claims
}

// anyExtensions draws the extensions around one group, well below their limit.
func anyExtensions(t *rapid.T, name string, group map[string]any) map[string]any {
	extensions := map[string]any{namespace + name: group}
	other, second := anyGroup(t)
	if len(encoded(t, group))+len(encoded(t, second)) < 32<<10 {
		extensions[namespace+other] = second
	}
	if rapid.IntRange(0, 4).Draw(t, "own") == 0 {
		extensions["example.org/own_group-1"] = anyJSON(t, 3)
		extensions[namespace+"a2a-handoff"] = anyJSON(t, 3)
	}
	return extensions
}

// anyJSON draws I-JSON of some depth.
func anyJSON(t *rapid.T, depth int) any {
	choice := rapid.IntRange(0, 7).Draw(t, "kind")
	if depth == 0 {
		choice %= 6
	}
	switch choice {
	case 0:
		return nil
	case 1:
		return rapid.Bool().Draw(t, "bool")
	case 2:
		return float64(rapid.Int64Range(-1<<53+1, 1<<53-1).Draw(t, "integer"))
	case 3:
		return rapid.OneOf(rapid.Float64Range(-1e3, 1e3), rapid.Float64Range(-1e-300, 1e-300), rapid.Float64Range(-1e15, 1e15),
			rapid.SampledFrom([]float64{1e-6, 1e-7, 123456789012345.6, 0.1 + 0.2, 5e-324, 2.2250738585072014e-308, -1e-7, 9007199254740991})).Draw(t, "fraction")
	case 4, 5:
		return anyString(t)
	case 6:
		return some(0, 4, func(t *rapid.T) any { return anyJSON(t, depth-1) })(t)
	}
	object := map[string]any{}
	for range rapid.IntRange(0, 4).Draw(t, "members") {
		object[anyString(t)] = anyJSON(t, depth-1)
	}
	return object
}

// anyString draws well-formed text: control characters, quotes, what sorts
// differently in UTF-8 and UTF-16, and no noncharacters.
func anyString(t *rapid.T) string {
	return rapid.StringOfN(rapid.SampledFrom([]rune("\x00\x01\b\t\n\f\r\x1f\"\\/ a1z\x7f\u0080é\u2028\u2029\ud7ff\ue000\ufb33\ufffd😀𝄞\U0010fffd<>&'")), 0, 8, -1).Draw(t, "string")
}

func encoded(t rapid.TB, v any) []byte {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
