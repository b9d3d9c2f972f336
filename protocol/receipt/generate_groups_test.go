package receipt

import (
	"maps"
	"slices"
	"strings"

	"pgregory.net/rapid"
)

// A maker draws one JSON value.
type maker func(t *rapid.T) any

// words draws text of low to high characters, often at an end of the range, of
// one to four bytes each.
func words(low, high int) maker {
	return func(t *rapid.T) any {
		n := rapid.OneOf(rapid.Just(low), rapid.Just(high), rapid.IntRange(low, min(high, 40))).Draw(t, "length")
		few := rapid.StringOfN(rapid.SampledFrom([]rune("abcxyz019-_ ./:é✓𝄞\"\\\u2028")), min(n, 8), min(n, 8), -1).Draw(t, "text")
		rest := n - min(n, 8)
		if high > 2048 {
			return few + strings.Repeat("a", rest) // what is issued has at most 8 KiB
		}
		return few + strings.Repeat("𝄞", rest) // a long text costs few draws
	}
}

func pick(values ...any) maker {
	return func(t *rapid.T) any { return rapid.SampledFrom(values).Draw(t, "value") }
}

func matching(expr string) maker {
	return func(t *rapid.T) any { return rapid.StringMatching(expr).Draw(t, "text") }
}

func some(low, high int, item maker) maker {
	return func(t *rapid.T) any {
		items := []any{}
		for range rapid.IntRange(low, high).Draw(t, "items") {
			items = append(items, item(t))
		}
		return items
	}
}

func different(low, high int, item maker) maker {
	return func(t *rapid.T) any {
		items := some(low, high, item)(t).([]any)
		slices.SortFunc(items, func(a, b any) int { return strings.Compare(a.(string), b.(string)) })
		return slices.Compact(items)
	}
}

func number(low, high int) maker {
	return func(t *rapid.T) any { return float64(rapid.IntRange(low, high).Draw(t, "number")) }
}

// members draws an object: the members without "?" always.
func members(makers map[string]maker) maker {
	return func(t *rapid.T) any {
		object := map[string]any{}
		for _, name := range slices.Sorted(maps.Keys(makers)) {
			if optional, ok := strings.CutSuffix(name, "?"); !ok {
				object[name] = makers[name](t)
			} else if rapid.Bool().Draw(t, "with "+optional) {
				object[optional] = makers[name](t)
			}
		}
		return object
	}
}

var (
	someDigest   = matching(`sha256:[0-9a-f]{64}`)
	someDay      = matching(`[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])`)
	someInstant  = matching(`20[0-9]{2}-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])`)
	someDuration = pick("P1Y", "P30D", "P1Y6M", "PT1H30M", "P2W", "P0D", "PT0S", "P1Y2M3DT4H5M6S", "P1WT1H", "P0W1D", "P999999999999999D")
	someLocator  = matching(`https://([a-z]{1,9}\.){1,2}example(:8443)?(/[a-zA-Z0-9%._~-]{0,0}[a-z0-9]{1,9}){0,3}(\?[a-z]=[a-z0-9]{0,5})?`)
	someLicence  = pick("MIT", "Apache-2.0", "GPL-2.0+", "LicenseRef-own", "MIT AND Apache-2.0", "(MIT OR GPL-2.0-only) AND BSD-3-Clause",
		"Apache-2.0 WITH Classpath-exception-2.0", "(MIT WITH a) WITH b", "((MIT))")
	somePurpose = matching(`[a-z]([a-z0-9_-]{0,20}[a-z0-9])?(:[a-z]([a-z0-9_-]{0,20}[a-z0-9])?)?`)
)

// groupMakers draw valid values of every group with fields of its own.
var groupMakers = map[string]maker{
	"access": members(map[string]maker{
		"resource": words(1, 2048), "action": words(1, 256), "decision": pick("allow", "deny", "review"),
	}),
	"commerce": members(map[string]maker{
		"payment_rail": words(1, 128), "amount_minor": matching(`-?[0-9]{1,63}`), "currency": words(1, 16),
		"reference?": words(0, 256), "asset?": words(0, 256), "env?": pick("live", "test"),
		"event?": pick("authorization", "capture", "settlement", "refund", "void", "chargeback"),
	}),
	"challenge": members(map[string]maker{
		"challenge_type": pick("payment_required", "identity_required", "consent_required", "attestation_required", "rate_limited", "purpose_disallowed", "custom"),
		"problem": members(map[string]maker{
			"status": number(100, 599), "type": pick("about:blank", "https://example.org/problems/1", "urn:example:problem", "http://example.org"),
			"title?": words(0, 256), "detail?": words(0, 4096), "instance?": words(0, 2048), "balance?": number(-9, 9),
		}),
		"resource?": words(0, 2048), "action?": words(0, 256), "requirements?": members(map[string]maker{"amount?": words(0, 9), "rails?": some(0, 3, words(0, 9))}),
	}),
	"consent": members(map[string]maker{
		"consent_basis": words(1, 128), "consent_status": pick("granted", "withdrawn", "denied", "expired"),
		"data_categories?": some(0, 64, words(1, 64)), "retention_period?": someDuration, "consent_method?": words(1, 128),
		"withdrawal_uri?": someLocator, "scope?": words(1, 256), "jurisdiction?": words(1, 16),
	}),
	"purpose": members(map[string]maker{
		"external_purposes": different(1, 32, somePurpose), "purpose_basis?": words(1, 128), "purpose_limitation?": pick(true, false),
		"data_minimization?": pick(true, false), "compatible_purposes?": different(0, 32, somePurpose), "peac_purpose_mapping?": somePurpose,
	}),
	"identity": members(map[string]maker{"proof_ref?": words(0, 256)}),
	"correlation": members(map[string]maker{
		"trace_id?": matching(`[0-9a-f]{32}`), "span_id?": matching(`[0-9a-f]{16}`), "workflow_id?": words(1, 256),
		"parent_jti?": words(1, 256), "depends_on?": some(0, 64, words(1, 64)),
	}),
	"provenance": members(map[string]maker{
		"source_type": words(1, 128), "source_ref?": words(1, 256), "source_uri?": someLocator, "build_provenance_uri?": someLocator,
		"verification_method?": words(1, 128),
		"custody_chain?":       some(0, 16, members(map[string]maker{"custodian": words(1, 256), "action": words(1, 128), "timestamp": someInstant})),
		"slsa?":                members(map[string]maker{"track": words(1, 64), "level": number(0, 4), "version": words(1, 16)}),
	}),
	"attribution": members(map[string]maker{
		"creator_ref": words(1, 256), "license_spdx?": someLicence, "obligation_type?": words(1, 128), "attribution_text?": words(1, 1024),
		"content_signal_source?": pick("tdmrep_json", "content_signal_header", "content_usage_header", "robots_txt", "custom"), "content_digest?": someDigest,
	}),
	"compliance": members(map[string]maker{
		"framework": words(1, 256), "compliance_status": pick("compliant", "non_compliant", "partial", "under_review", "exempt"),
		"audit_ref?": words(1, 256), "auditor?": words(1, 256), "audit_date?": someDay, "scope?": words(1, 512),
		"validity_period?": someDuration, "evidence_ref?": someDigest,
	}),
	"privacy": members(map[string]maker{
		"data_classification": words(1, 128), "processing_basis?": words(1, 128), "retention_period?": someDuration,
		"retention_mode?": pick("time_bound", "indefinite", "session_only"), "recipient_scope?": pick("internal", "processor", "third_party", "public"),
		"anonymization_method?": words(1, 128), "data_subject_category?": words(1, 128), "transfer_mechanism?": words(1, 128),
	}),
	"safety": members(map[string]maker{
		"review_status": pick("reviewed", "pending", "flagged", "not_applicable"), "risk_level?": pick("unacceptable", "high", "limited", "minimal"),
		"assessment_method?": words(1, 256), "safety_measures?": some(0, 32, words(1, 256)), "incident_ref?": words(1, 256),
		"model_ref?": words(1, 256), "category?": words(1, 128),
	}),
}

// anyGroup draws the name and a valid value of one group.
func anyGroup(t *rapid.T) (string, map[string]any) {
	name := rapid.SampledFrom(slices.Sorted(maps.Keys(groupMakers))).Draw(t, "group")
	return name, groupMakers[name](t).(map[string]any)
}

// oddities are values that are right in few places.
var oddities = []any{
	nil, true, false, 0.0, -1.0, 1.5, 4.0, 5.0, 99.0, 600.0, "", " ", "a", "é", "P", "PT", "P1D1Y", "P1W1D", "P1W0D", "P1DT", "P-1D", "P1.5D", "p1d",
	"P1Y1Y", "P1234567890123456D", "https://", "https://user@example.org", "https://example.org/#f", "HTTPS://example.org", "http://example.org", "https://example.org:99999/",
	"https:///x", "//example.org", "example.org", "https://example.org/\n", "ftp://example.org", "javascript:alert(1)", "about:blank",
	"2026-02-30", "2026-13-01", "2026-01-01", "2026-1-1", "2026-01-01T00:00:00Z", "2026-01-01t00:00:00z", "2026-01-01T00:00:00", "2026-01-01T00:00Z",
	"2026-02-29T00:00:00Z", "2024-02-29T00:00:00Z", "2026-01-01T24:00:00Z", "2026-01-01T23:59:60Z", "2026-01-01T00:00:00,5Z", "2026-01-01T00:00:00+24:00", "2026-01-01T00:00:00+00:60",
	"MIT AND", "AND", "()", "(MIT", "MIT)", "MIT MIT", "MIT WITH", "MIT WITH a WITH b", "LicenseRef-", "MIT++", "+", "MIT OR(BSD)", "mit and bsd",
	"A", "a-", "a_", "_a", "a:b", "a:", "a:b:c", "1a", "+1", "--1", "1.0", "00", "granted", "allow", "custom",
	strings.Repeat("a", 16), strings.Repeat("a", 17), strings.Repeat("0", 32), strings.Repeat("A", 32), strings.Repeat("0", 64), strings.Repeat("0", 65),
	strings.Repeat("a", 64), strings.Repeat("a", 65), strings.Repeat("a", 128), strings.Repeat("a", 129), strings.Repeat("a", 256), strings.Repeat("a", 257),
	strings.Repeat("𝄞", 64), strings.Repeat("𝄞", 65), strings.Repeat("é", 128), strings.Repeat("é", 129), strings.Repeat("a", 513), strings.Repeat("a", 1025),
	strings.Repeat("a", 2048), strings.Repeat("a", 2049), strings.Repeat("a", 4097),
	"sha256:" + strings.Repeat("0", 64), "sha256:" + strings.Repeat("A", 64), "sha256:" + strings.Repeat("0", 63), "sha512:" + strings.Repeat("0", 64),
	[]any{},
	[]any{"a", "a"},
	[]any{"a", nil},
	[]any{1.0},
	[]any{""},
	slices.Repeat([]any{"a"}, 64), slices.Repeat([]any{"a"}, 65),
	map[string]any{},
	map[string]any{"a": "b"},
}

// spoilt changes one place of a value, most often for the worse.
func spoilt(t *rapid.T, value any) any {
	switch v := value.(type) {
	case map[string]any:
		names := slices.Sorted(maps.Keys(v))
		choice := rapid.IntRange(0, 9).Draw(t, "how")
		if choice == 0 || len(names) == 0 {
			v[rapid.SampledFrom([]string{"extra", "a/b~c", "proof_ref", "scope", ""}).Draw(t, "new")] = rapid.SampledFrom(oddities).Draw(t, "odd")
			return v
		}
		name := rapid.SampledFrom(names).Draw(t, "member")
		if choice == 1 {
			delete(v, name)
			return v
		}
		v[name] = spoilt(t, v[name])
		return v
	case []any:
		if len(v) > 0 && rapid.Bool().Draw(t, "inside") {
			i := rapid.IntRange(0, len(v)-1).Draw(t, "item")
			v[i] = spoilt(t, v[i])
			return v
		}
	case string:
		if rapid.Bool().Draw(t, "longer") {
			return v + rapid.SampledFrom([]string{"a", " ", "\n", "/", "é", "-", "𝄞"}).Draw(t, "end")
		}
	}
	return rapid.SampledFrom(oddities).Draw(t, "odd")
}
