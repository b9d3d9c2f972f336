package receipt

import (
	"crypto/ed25519"
	"encoding/base64"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"github.com/parleykit/parley/protocol/canonical"
)

// published is the folder of published vectors beside the repository.
func published(t *testing.T, name string) string {
	t.Helper()
	dir := filepath.Join("..", "..", "..", "shared", "conformance", "peac", name)
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("conformance vectors are not here: %v", err)
	}
	return dir
}

func readPublished(t *testing.T, path string, v any) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, v); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// wireCase is one case of the wire vectors.
type wireCase struct {
	Name  string `json:"name"`
	Input struct {
		Claims         jsontext.Value            `json:"claims"`
		HeaderChanges  map[string]jsontext.Value `json:"header_overrides"`
		LargerThan     int                       `json:"jws_size_exceeds_bytes"`
		ChallengeTypes []string                  `json:"challenge_types"`
		Options        struct {
			Strictness string `json:"strictness"`
			Now        int64  `json:"now"`
		} `json:"options"`
		VerifyOptions struct {
			PolicyDigest string `json:"policyDigest"`
		} `json:"verify_options"`
	} `json:"input"`
	Expected struct {
		Valid            bool        `json:"valid"`
		AllValid         bool        `json:"all_valid"`
		Code             Code        `json:"error_code"`
		IssueContains    Code        `json:"issue_contains"`
		Path             string      `json:"path"`
		Warnings         []Warning   `json:"warnings"`
		WarnUnregistered bool        `json:"warns_type_unregistered"`
		PolicyBinding    PolicyState `json:"policy_binding"`
	} `json:"expected"`
}

// wrongUpstream are the cases whose expectation contradicts the specification
// they belong to, with what holds instead.
var wrongUpstream = map[string]struct {
	code   Code
	reason string
}{
	"types/boundary-type-max-length": {CodeInvalidFormat, "the type is said to have 256 characters and has 258"},
}

// Cases older than the rule that a registered type needs its extension group.
// They are about something else, so they run in interop mode, where the rule is
// a warning; in strict mode each has to be refused for it and nothing else.
var beforeGroups = []string{
	"issuers/https-issuer-valid", "issuers/did-key-issuer-valid", "issuers/did-web-issuer-valid",
	"jose/eddsa-alg-valid", "jose/boundary-kid-256-chars",
	"kinds/evidence-kind-valid", "kinds/evidence-with-occurred-at-valid",
	"occurred-at/occurred-at-valid-utc", "occurred-at/occurred-at-valid-offset",
	"occurred-at/occurred-at-before-iat-valid", "occurred-at/occurred-at-after-iat-warning",
	"occurred-at/absent-occurred-at-valid",
	"pillars/single-pillar-valid", "pillars/multi-pillar-sorted-valid", "pillars/all-pillars-sorted-valid",
	"policy-binding/policy-binding-verified", "policy-binding/policy-binding-failed",
	"policy-binding/policy-binding-unavailable-no-receipt-digest",
	"policy-binding/policy-binding-unavailable-no-local-digest",
	"policy-binding/policy-uri-https-valid", "policy-binding/policy-with-version-valid",
	"types/reverse-dns-valid",
}

func TestVerify_agrees_with_the_published_wire_vectors(t *testing.T) {
	dir := published(t, "wire-02")
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	deeper, err := filepath.Glob(filepath.Join(dir, "*", "conformance.json"))
	if err != nil {
		t.Fatal(err)
	}
	ran := make(map[string]bool)
	for _, file := range append(files, deeper...) {
		set := strings.TrimSuffix(filepath.Base(file), ".json")
		if set == "conformance" {
			set = filepath.Base(filepath.Dir(file))
		}
		var vectors struct {
			Cases []wireCase `json:"fixtures"`
		}
		readPublished(t, file, &vectors)
		if len(vectors.Cases) == 0 {
			t.Errorf("%s holds no case", file)
		}
		for _, c := range vectors.Cases {
			name := set + "/" + c.Name
			ran[name] = true
			t.Run(name, func(t *testing.T) { runWireCase(t, name, &c) })
		}
	}
	for name := range maps.Keys(wrongUpstream) {
		if !ran[name] {
			t.Errorf("%s is excused and not there", name)
		}
	}
	for _, name := range beforeGroups {
		if !ran[name] {
			t.Errorf("%s is excused and not there", name)
		}
	}
}

func runWireCase(t *testing.T, name string, c *wireCase) {
	if len(c.Input.ChallengeTypes) > 0 {
		for _, challenge := range c.Input.ChallengeTypes {
			payload := testPayload(t, map[string]any{"kind": KindChallenge, "extensions": map[string]any{
				"org.peacprotocol/challenge": map[string]any{
					"challenge_type": challenge,
					"problem":        map[string]any{"status": 402, "type": "https://example.com/problems/x"},
				},
			}})
			refuses(t, sealed(testHeader, payload), testOptions(), "")
		}
		return
	}
	jws := c.jws(t)
	opts := c.options()
	excused := slices.Contains(beforeGroups, name)
	if excused {
		refuses(t, jws, opts, CodeExtensionGroupRequired)
		opts.Interop = true
	}
	verified, err := Verify(jws, testKey, opts)
	want := c.Expected.Code
	if want == "" {
		want = c.Expected.IssueContains
	}
	if wrong, listed := wrongUpstream[name]; listed {
		if CodeOf(err) != wrong.code {
			t.Errorf("%v, want %s since %s", err, wrong.code, wrong.reason)
		}
		return
	}
	if err == nil != (c.Expected.Valid || c.Expected.AllValid) || want != "" && CodeOf(err) != want {
		t.Fatalf("got %v, want valid %v %s", err, c.Expected.Valid, want)
	}
	if err != nil {
		if path := c.Expected.Path; path != "" && !strings.HasPrefix(err.(*Error).Pointer, "/"+path) {
			t.Errorf("refused at %s, want /%s", err.(*Error).Pointer, path)
		}
		return
	}
	if want := c.Expected.PolicyBinding; want != "" && verified.PolicyBinding != want {
		t.Errorf("policy binding %s, want %s", verified.PolicyBinding, want)
	}
	warnings := slices.DeleteFunc(verified.Warnings, func(w Warning) bool {
		return excused && w == Warning{WarnExtensionGroupMissing, "/type"}
	})
	if want := c.Expected.Warnings; want != nil {
		if diff := cmp.Diff(want, warnings); diff != "" {
			t.Error(diff)
		}
	}
	if c.Expected.WarnUnregistered && !slices.Contains(warnings, Warning{WarnTypeUnregistered, "/type"}) {
		t.Errorf("no warning of the type in %v", warnings)
	}
}

// jws builds the receipt that the case describes.
func (c *wireCase) jws(t *testing.T) string {
	header := map[string]jsontext.Value{
		"alg": jsontext.Value(`"EdDSA"`), "typ": jsontext.Value(`"interaction-record+jwt"`), "kid": jsontext.Value(`"key-1"`),
	}
	if c.Input.Options.Strictness == "interop" {
		delete(header, "typ")
	}
	for name, value := range c.Input.HeaderChanges {
		if header[name] = value; string(value) == "null" {
			delete(header, name)
		}
	}
	data, err := json.Marshal(header)
	if err != nil {
		t.Fatal(err)
	}
	payload := string(c.Input.Claims)
	if c.Input.LargerThan > 0 {
		payload += strings.Repeat(" ", c.Input.LargerThan)
	}
	return sealed(string(data), payload)
}

func (c *wireCase) options() VerifyOptions {
	opts := VerifyOptions{
		Now:          time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC),
		Interop:      c.Input.Options.Strictness == "interop",
		PolicyDigest: c.Input.VerifyOptions.PolicyDigest,
	}
	if c.Input.Options.Now != 0 {
		opts.Now = time.Unix(c.Input.Options.Now, 0)
	}
	return opts
}

func TestVerify_accepts_a_receipt_that_another_implementation_issued(t *testing.T) {
	var vector struct {
		JWS      string `json:"jws"`
		Key      string `json:"public_key_b64url"`
		Expected struct {
			Issuer  string `json:"iss"`
			Kind    string `json:"kind"`
			Type    string `json:"type"`
			KeyID   string `json:"kid"`
			Version string `json:"wire_version"`
		} `json:"expected"`
	}
	readPublished(t, filepath.Join(published(t, "go-interaction-record"), "ts-issued-receipt.json"), &vector)
	key, err := base64.RawURLEncoding.DecodeString(vector.Key)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Verify(vector.JWS, ed25519.PublicKey(key), VerifyOptions{Now: time.Unix(1_775_751_954, 0)})
	if err != nil {
		t.Fatal(err)
	}
	want := vector.Expected
	if got.Claims.Issuer != want.Issuer || got.Claims.Kind != want.Kind || got.Claims.Type != want.Type ||
		got.KeyID != want.KeyID || got.Version != want.Version {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got.Claims.ID != "019d7310-815a-78be-b9ef-d275871291a9" {
		t.Errorf("jti %q was lost", got.Claims.ID)
	}
}

func TestCanonicalForm_agrees_with_another_implementation(t *testing.T) {
	var vectors struct {
		Vectors []struct {
			ID        string         `json:"id"`
			Input     jsontext.Value `json:"input"`
			Canonical string         `json:"canonical"`
		} `json:"vectors"`
	}
	readPublished(t, filepath.Join(published(t, "go-interaction-record"), "jcs-golden-vectors.json"), &vectors)
	for _, v := range vectors.Vectors {
		digest, err := PolicyDigest(v.Input)
		if v.ID == "number-large-exp" || v.ID == "number-large-float" {
			// Numbers past 2^53-1 that do not read as integers pass the canonical
			// gate; in a receipt they are refused.
			_, _, err := readObject(v.Input)
			if err == nil || err.Code != CodeIJSONNumber {
				t.Errorf("%s: %v, want %s", v.ID, err, CodeIJSONNumber)
			}
		}
		if want := "sha256:" + canonical.Digest([]byte(v.Canonical)); err != nil || digest != want {
			t.Errorf("%s: %s %v, want %s", v.ID, digest, err, want)
		}
	}
	if len(vectors.Vectors) == 0 {
		t.Error("no vectors")
	}
}
