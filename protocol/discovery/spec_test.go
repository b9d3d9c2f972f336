package discovery

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/parleykit/parley/protocol/receipt"
)

var example = regexp.MustCompile("(?ms)^```[a-z]+ ([a-z]+)\n(.*?)^```$")

func TestSpec_examplesAreWhatTheTextSays(t *testing.T) {
	doc, err := os.ReadFile("../../docs/spec/discovery.md")
	if err != nil {
		t.Fatal(err)
	}
	examples := map[string]string{}
	for _, m := range example.FindAllSubmatch(doc, -1) {
		examples[string(m[1])] = string(m[2])
	}
	policy, err := ParsePolicy([]byte(examples["policy"]), "text/plain")
	if err != nil || policy.Digest != strings.TrimSpace(examples["digest"]) {
		t.Errorf("policy: %+v, %v", policy, err)
	}
	issuer, err := ParseIssuer([]byte(examples["issuer"]))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := issuer.Resolve("https://parley.example"); err != nil {
		t.Error(err)
	}
	wantCode(t, issuer.CheckRevoked("2026-01"), receipt.CodeRevokedKey)
	keys, err := ParseKeySet([]byte(examples["keys"]))
	if _, found := keys.Find("2026-11"); !found || err != nil {
		t.Errorf("keys: %v, %v", keys, err)
	}
}
