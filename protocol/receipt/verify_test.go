package receipt

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestVerify_returns_everything_the_receipt_says(t *testing.T) {
	length := int64(0)
	c := testClaims()
	c.PeacVersion = Version
	c.Pillars = []string{"access", "consent"}
	c.Actor = &Actor{ID: "agent:x", ProofType: "custom", Origin: "https://a.example", ProofRef: "org.example:x", IntentHash: someSHA256}
	c.Policy = &Policy{Digest: someSHA256, URI: "https://a.example/.well-known/peac.txt", Version: "1"}
	c.Representation = &Representation{ContentHash: someSHA256, ContentType: "text/markdown", ContentLength: &length}
	c.OccurredAt = "2024-03-03T22:06:39.5+01:00"
	c.PurposeDeclared = "train"
	c.Extensions["org.example/own"] = map[string]any{"list": []any{1.0, "é😀", nil, true}}
	jws := mustIssue(t, c)
	opts := testOptions()
	opts.PolicyDigest = someSHA256
	opts.Issuer, opts.Subject = c.Issuer, c.Subject
	want := &Verified{
		Claims: *c, KeyID: "key-1", Reference: Reference(jws), Version: "0.2", PolicyBinding: PolicyVerified,
		Warnings: []Warning{{WarnUnknownExtension, "/extensions/org.example~1own"}},
	}
	if diff := cmp.Diff(want, mustVerify(t, jws, opts)); diff != "" {
		t.Error(diff)
	}
}

func TestVerify_holds_the_receipt_against_what_the_verifier_knows(t *testing.T) {
	at := func(seconds int64) map[string]any { return map[string]any{"iat": 1_709_500_060 + seconds} }
	occurred := func(seconds int64) map[string]any {
		return map[string]any{"occurred_at": testNow.Add(time.Duration(seconds) * time.Second).UTC().Format(time.RFC3339)}
	}
	tests := []struct {
		name    string
		changes map[string]any
		set     func(*VerifyOptions)
		code    Code
	}{
		{"the issuer that is expected", nil, func(o *VerifyOptions) { o.Issuer = "https://venue.example" }, ""},
		{"another issuer", nil, func(o *VerifyOptions) { o.Issuer = "https://venue.example:8443" }, CodeInvalidIssuer},
		{"a subject that is expected and missing", map[string]any{"sub": nil}, func(o *VerifyOptions) { o.Subject = "x" }, CodeInvalidSubject},
		{"another subject", nil, func(o *VerifyOptions) { o.Subject = "urn:uuid:019550A0-7a41-7000-8000-000000000002" }, CodeInvalidSubject},
		{"a minute ahead", at(60), nil, ""},
		{"61 seconds ahead", at(61), nil, CodeNotYetValid},
		{"a second ahead of a good clock", at(2), func(o *VerifyOptions) { o.Skew = time.Second }, CodeNotYetValid},
		{"five minutes ahead of a bad clock", at(300), func(o *VerifyOptions) { o.Skew = 5 * time.Minute }, ""},
		{"the far future", at(9e14), nil, CodeNotYetValid},
		{"no clock", nil, func(o *VerifyOptions) { o.Now = time.Time{} }, CodeNotYetValid},
		{"occurred in 300 seconds", occurred(300), nil, ""},
		{"occurred in 301 seconds", occurred(301), nil, CodeOccurredAtFuture},
		{"a challenge that occurred", map[string]any{"kind": KindChallenge, "occurred_at": "2024-03-03T00:00:00Z"}, nil, CodeOccurredAtOnChallenge},
		{"seen before", nil, func(o *VerifyOptions) {
			o.Seen = func(iss, id string) bool {
				return iss == "https://venue.example" && id == "019550a0-7a41-7000-8000-000000000001"
			}
		}, CodeReplay},
		{"not seen before", nil, func(o *VerifyOptions) { o.Seen = func(string, string) bool { return false } }, ""},
		{"no group", map[string]any{"extensions": nil}, nil, CodeExtensionGroupRequired},
		{"a stranger's group", map[string]any{"extensions": map[string]any{"org.example/x": 1}}, nil, CodeExtensionGroupRequired},
		{"another group", map[string]any{"extensions": map[string]any{"org.peacprotocol/identity": map[string]any{}}}, nil, CodeExtensionGroupMismatch},
		{"a challenge without a group", map[string]any{"kind": KindChallenge, "extensions": nil}, nil, ""},
		{"another policy", map[string]any{"policy": map[string]any{"digest": someSHA256}}, func(o *VerifyOptions) { o.PolicyDigest = "sha256:" + strings.Repeat("0", 64) }, CodePolicyBindingFailed},
		{"the same policy", map[string]any{"policy": map[string]any{"digest": someSHA256}}, func(o *VerifyOptions) { o.PolicyDigest = someSHA256 }, ""},
		{"a policy digest that is none", nil, func(o *VerifyOptions) { o.PolicyDigest = "sha256:x" }, CodeInvalidFormat},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			opts := testOptions()
			if test.set != nil {
				test.set(&opts)
			}
			refuses(t, sealed(testHeader, testPayload(t, test.changes)), opts, test.code)
		})
	}
}

func TestPolicyBinding_has_three_states(t *testing.T) {
	for _, test := range []struct {
		record, local string
		want          PolicyState
	}{
		{"", "", PolicyUnavailable},
		{someSHA256, "", PolicyUnavailable},
		{"", someSHA256, PolicyUnavailable},
		{someSHA256, someSHA256, PolicyVerified},
		{someSHA256, "sha256:" + strings.Repeat("0", 64), PolicyFailed},
	} {
		if got := BindPolicy(test.record, test.local); got != test.want {
			t.Errorf("%q and %q: %s", test.record, test.local, got)
		}
	}
	a, errA := PolicyDigest([]byte(`{"usage":"open", "version":"peac-policy/0.1"}`))
	b, errB := PolicyDigest([]byte(`{"version":"peac-policy/0.1","usage":"open"}`))
	if a != b || errA != nil || errB != nil || !strings.HasPrefix(a, "sha256:") {
		t.Errorf("%s %v, %s %v", a, errA, b, errB)
	}
	if _, err := PolicyDigest([]byte(`{"a":1,"a":2}`)); err == nil {
		t.Error("a policy with two meanings has a digest")
	}
}

func TestInterop_forgives_two_things_with_warnings_and_nothing_else(t *testing.T) {
	opts := testOptions()
	opts.Interop = true
	untyped := `{"alg":"EdDSA","kid":"key-1"}`
	without := testPayload(t, map[string]any{"extensions": map[string]any{"b.example/x": 1, "a.example/~y": nil}})
	refuses(t, sealed(untyped, without), opts, CodeInvalidExtensionKey)

	payload := testPayload(t, map[string]any{"extensions": map[string]any{"b.example/x": 1, "a.example/y": 1}, "occurred_at": "2024-03-03T21:06:41Z"})
	got := mustVerify(t, sealed(untyped, payload), opts)
	want := []Warning{
		{WarnTypMissing, ""},
		{WarnUnknownExtension, "/extensions/a.example~1y"},
		{WarnUnknownExtension, "/extensions/b.example~1x"},
		{WarnOccurredAtSkew, "/occurred_at"},
		{WarnExtensionGroupMissing, "/type"},
	}
	if diff := cmp.Diff(want, got.Warnings); diff != "" {
		t.Error(diff)
	}

	mismatch := testPayload(t, map[string]any{"extensions": map[string]any{"org.peacprotocol/identity": map[string]any{}}})
	if got := mustVerify(t, sealed(testHeader, mismatch), opts).Warnings; !cmp.Equal(got, []Warning{{WarnExtensionGroupMismatch, "/type"}}) {
		t.Errorf("%v", got)
	}
	refuses(t, sealed(`{"alg":"EdDSA","kid":"key-1","typ":"JWT"}`, testPayload(t, nil)), opts, CodeInvalidFormat)
	refuses(t, sealed(`{"alg":"EdDSA","kid":"key-1","jwk":{}}`, testPayload(t, nil)), opts, CodeJWSEmbeddedKey)
	refuses(t, sealed(untyped, testPayload(t, map[string]any{"exp": 1})), opts, CodeInvalidFormat)
}

func TestWarnings_are_sorted_by_pointer_and_code(t *testing.T) {
	got := []Warning{{"b", "/type"}, {"a", "/type"}, {"z", ""}, {"a", "/extensions/x"}}
	sortWarnings(got)
	want := []Warning{{"z", ""}, {"a", "/extensions/x"}, {"a", "/type"}, {"b", "/type"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestVersions_disagree_or_are_old(t *testing.T) {
	legacy := `{"alg":"EdDSA","typ":"peac-receipt/0.1","kid":"k"}`
	untyped := `{"alg":"EdDSA","kid":"k"}`
	old := `{"iss":"https://a.example","iat":1,"exp":2,"rid":"x"}`
	tests := []struct {
		name, header, payload string
		code                  Code
	}{
		{"old", legacy, old, CodeUnsupportedWireVersion},
		{"old, as a media type", `{"alg":"EdDSA","typ":"application/peac-receipt/0.1","kid":"k"}`, old, CodeUnsupportedWireVersion},
		{"old, without kid and with what its rules allowed", `{"alg":"EdDSA","typ":"peac-receipt/0.1","crit":["x"]}`, old, CodeUnsupportedWireVersion},
		{"old by its claim", legacy, `{"peac_version":"0.1"}`, CodeUnsupportedWireVersion},
		{"old with new claims", legacy, testPayload(t, nil), CodeWireVersionMismatch},
		{"new with old claims", testHeader, old, CodeWireVersionMismatch},
		{"untyped with old claims", untyped, old, CodeUnsupportedWireVersion},
		{"untyped with later claims", untyped, `{"peac_version":"1.0"}`, CodeUnsupportedWireVersion},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			opts := testOptions()
			opts.Interop = true
			refuses(t, sealed(test.header, test.payload), opts, test.code)
			refuses(t, forged(test.header, test.payload), opts, CodeInvalidSignature)
		})
	}
}

// forged is sealed with a signature of nobody.
func forged(header, payload string) string {
	message, _, _ := cutLast(sealed(header, payload))
	_, other, _ := cutLast(sealed(header, payload+" "))
	return message + "." + other
}

// Each receipt has every fault from its step on; the first one is reported.
func TestVerify_keeps_the_order_of_the_specification(t *testing.T) {
	opts := testOptions()
	opts.Issuer, opts.Subject, opts.PolicyDigest = "https://a.example", "s", "sha256:"+strings.Repeat("0", 64)
	opts.Seen = func(string, string) bool { return true }
	faults := map[string]any{
		"peac_version": "0.2", "kind": "evidence", "type": "org.peacprotocol/payment", "iss": "https://b.example",
		"iat": 1_809_500_000, "jti": "j", "sub": "t", "occurred_at": "2029-01-01T00:00:00Z", "pillars": nil,
		"policy": map[string]any{"digest": someSHA256}, "extensions": nil,
	}
	untyped := `{"alg":"EdDSA","kid":"k"}`
	with := func(name string, value any) string {
		if value == nil {
			delete(faults, name)
		} else {
			faults[name] = value
		}
		return testPayload(t, faults)
	}
	faults["extensions"] = map[string]any{"org.example/x": deep(32)}
	faults["peac_version"] = "0.3"
	faults["kind"] = "x"
	refuses(t, forged(untyped, strings.Replace(with("x", 1), "{", `{"x":0,"x":0,`, 1)), opts, CodeIJSONDuplicateName)
	refuses(t, forged(untyped, with("x", 1)), opts, CodeInvalidSignature)
	refuses(t, sealed(untyped, with("x", 1)), opts, CodeInvalidFormat)
	refuses(t, sealed(testHeader, with("x", 1)), opts, CodeConstraint)
	faults["extensions"] = nil
	refuses(t, sealed(testHeader, with("x", 1)), opts, CodeWireVersionMismatch)
	faults["peac_version"] = "0.2"
	refuses(t, sealed(testHeader, with("x", 1)), opts, CodeKindUnsupported)
	faults["kind"] = "evidence"
	refuses(t, sealed(testHeader, with("x", 1)), opts, CodeInvalidFormat)
	refuses(t, sealed(testHeader, with("x", nil)), opts, CodeInvalidIssuer)
	refuses(t, sealed(testHeader, with("iss", "https://a.example")), opts, CodeInvalidSubject)
	refuses(t, sealed(testHeader, with("sub", "s")), opts, CodeNotYetValid)
	refuses(t, sealed(testHeader, with("iat", 1_709_500_000)), opts, CodeOccurredAtFuture)
	refuses(t, sealed(testHeader, with("occurred_at", "2024-03-03T00:00:00Z")), opts, CodeReplay)
	opts.Seen = nil
	refuses(t, sealed(testHeader, with("x", nil)), opts, CodeExtensionGroupRequired)
	refuses(t, sealed(testHeader, with("type", "org.example/x")), opts, CodePolicyBindingFailed)
	opts.PolicyDigest = someSHA256
	refuses(t, sealed(testHeader, with("x", nil)), opts, "")
}
