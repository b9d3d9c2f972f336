package receipt

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/parleykit/parley/protocol/canonical"
)

func TestIssue_writes_the_canonical_form(t *testing.T) {
	jws := mustIssue(t, testClaims())
	parts := strings.Split(jws, ".")
	for i, want := range []string{testHeader, testPayload(t, nil)} {
		got, _ := decodeBase64(parts[i])
		form, err := canonical.Transform([]byte(want))
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != string(form) {
			t.Errorf("part %d: %s", i, got)
		}
	}
	if again := mustIssue(t, testClaims()); again != jws {
		t.Error("the same record has two receipts")
	}
}

func TestIssue_refuses_what_Verify_would_and_asks_no_signer(t *testing.T) {
	tests := []struct {
		name   string
		change func(*Claims)
		code   Code
	}{
		{"another version", func(c *Claims) { c.PeacVersion = "0.1" }, CodeInvalidFormat},
		{"no kind", func(c *Claims) { c.Kind = "" }, CodeKindUnsupported},
		{"an issuer with a path", func(c *Claims) { c.Issuer += "/" }, CodeIssuerNotCanonical},
		{"iat past 2^53", func(c *Claims) { c.IssuedAt = math.MaxInt64 }, CodeIJSONNumber},
		{"no id", func(c *Claims) { c.ID = "" }, CodeInvalidFormat},
		{"no pillar in a list", func(c *Claims) { c.Pillars = []string{} }, CodeInvalidFormat},
		{"pillars in disorder", func(c *Claims) { c.Pillars = []string{"safety", "access"} }, CodePillarsNotSorted},
		{"a challenge that occurred", func(c *Claims) { c.Kind, c.OccurredAt = KindChallenge, "2024-03-03T00:00:00Z" }, CodeOccurredAtOnChallenge},
		{"no group", func(c *Claims) { c.Extensions = nil }, CodeExtensionGroupRequired},
		{"another group", func(c *Claims) {
			c.Extensions = map[string]any{"org.peacprotocol/identity": map[string]any{}}
		}, CodeExtensionGroupMismatch},
		{"a group that is wrong", func(c *Claims) { c.Extensions["org.peacprotocol/access"] = 1 }, CodeInvalidFormat},
		{"a key that is wrong", func(c *Claims) { c.Extensions["x"] = 1 }, CodeInvalidExtensionKey},
		{"too many bytes", func(c *Claims) { c.Extensions["org.example/x"] = filler(70_000) }, CodeExtensionSize},
		{"too deep", func(c *Claims) { c.Extensions["org.example/x"] = deep(31) }, CodeConstraint},
		{"too deep by far", func(c *Claims) { c.Extensions["org.example/x"] = deep(20_000) }, CodeConstraint},
		{"too many items", func(c *Claims) { c.Extensions["org.example/x"] = make([]int, 10_001) }, CodeConstraint},
		{"a string that few read", func(c *Claims) { c.Extensions["org.example/x"] = strings.Repeat("x", 8193) }, CodeConstraint},
		{"text that is no UTF-8", func(c *Claims) { c.Subject = "\xff" }, CodeIJSONString},
		{"a name that is no UTF-8", func(c *Claims) { c.Extensions["org.example/\xff"] = 1 }, CodeIJSONString},
		{"a noncharacter", func(c *Claims) { c.Subject = "\uffff" }, CodeIJSONString},
		{"a number that is none", func(c *Claims) { c.Extensions["org.example/x"] = math.NaN() }, CodeExtensionValue},
		{"a function", func(c *Claims) { c.Extensions["org.example/x"] = func() {} }, CodeExtensionValue},
		{"a channel", func(c *Claims) { c.Extensions["org.example/x"] = []any{make(chan int)} }, CodeExtensionValue},
		{"a map of numbers", func(c *Claims) { c.Extensions["org.example/x"] = map[complex128]int{1: 1} }, CodeExtensionValue},
		{"a circle", func(c *Claims) { m := map[string]any{}; m["m"] = m; c.Extensions["org.example/x"] = m }, CodeExtensionValue},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := testClaims()
			test.change(c)
			_, err := Issue(c, "key-1", func([]byte) ([]byte, error) {
				t.Error("the signer was asked")
				return nil, nil
			})
			if CodeOf(err) != test.code {
				t.Errorf("%v, want %s", err, test.code)
			}
		})
	}
}

func TestIssue_names_keys_by_short_visible_ASCII(t *testing.T) {
	for kid, code := range map[string]Code{
		"": CodeJWSMissingKid, strings.Repeat("k", 65): CodeJWSMissingKid, "é": CodeJWSMissingKid, "a b": CodeJWSMissingKid, "a\x00": CodeJWSMissingKid,
		strings.Repeat("k", 64): "", "2026-01-01T00:00:00Z": "", `"\`: "",
	} {
		jws, err := Issue(testClaims(), kid, testSign)
		if CodeOf(err) != code {
			t.Errorf("kid %q: %v", kid, err)
		}
		if err == nil && mustVerify(t, jws, testOptions()).KeyID != kid {
			t.Errorf("kid %q is lost", kid)
		}
	}
}

func TestIssue_passes_on_what_the_signer_says(t *testing.T) {
	errKey := errors.New("no key today")
	if _, err := Issue(testClaims(), "k", func([]byte) ([]byte, error) { return nil, errKey }); !errors.Is(err, errKey) {
		t.Error(err)
	}
	if _, err := Issue(testClaims(), "k", func([]byte) ([]byte, error) { return make([]byte, 63), nil }); err == nil {
		t.Error("a short signature is taken")
	}
}

func TestIssue_leaves_the_claims_as_they_are(t *testing.T) {
	c := testClaims()
	mustIssue(t, c)
	if diff := cmp.Diff(testClaims(), c); diff != "" {
		t.Error(diff)
	}
}

func TestIssued_receipts_verify_to_the_same_claims(t *testing.T) {
	now := time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)
	rapid.Check(t, func(t *rapid.T) {
		drawn := anyClaims(t, now.Unix())
		var want Claims
		if err := json.Unmarshal(encoded(t, drawn), &want); err != nil {
			t.Fatal(err)
		}
		jws, err := Issue(&want, "key-1", testSign)
		if CodeOf(err) == CodeExtensionSize || CodeOf(err) == CodeConstraint {
			t.Skip("drawn too large")
		}
		if err != nil {
			t.Fatal(err)
		}
		got, err := Verify(jws, testKey, VerifyOptions{Now: now})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got.Claims); diff != "" {
			t.Fatal(diff)
		}
		again, err := Issue(&got.Claims, got.KeyID, testSign)
		if err != nil || again != jws {
			t.Fatalf("issued again it differs: %v\n%s\n%s", err, jws, again)
		}
	})
}
