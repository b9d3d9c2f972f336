package agentidentity

import (
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/parleykit/parley/protocol/receipt"
)

func TestAttestationOutOfItsFormIsRefusedAtItsPlace(t *testing.T) {
	long := strings.Repeat("é", maxID+1)
	for want, change := range map[string]func(*Attestation){
		"":                                  func(a *Attestation) { a.Evidence.AgentID = long[:2*maxID] },
		"/type":                             func(a *Attestation) { a.Type = "" },
		"/issuer":                           func(a *Attestation) { a.Issuer = "agent" },
		"/issued_at":                        func(a *Attestation) { a.IssuedAt = "yesterday" },
		"/expires_at":                       func(a *Attestation) { a.ExpiresAt = "2026-01-01" },
		"/ref":                              func(a *Attestation) { a.Ref = "/x" },
		"/evidence/agent_id":                func(a *Attestation) { a.Evidence.AgentID = long },
		"/evidence/control_type":            func(a *Attestation) { a.Evidence.ControlType = "robot" },
		"/evidence/capabilities":            func(a *Attestation) { a.Evidence.Capabilities = []string{long[:2*maxCapability+2]} },
		"/evidence/delegation_chain":        func(a *Attestation) { a.Evidence.DelegationChain = make([]string, maxDelegations+1) },
		"/evidence/key_directory_url":       func(a *Attestation) { a.Evidence.KeyDirectoryURL = "https://x/" + strings.Repeat("a", maxURL) },
		"/evidence/metadata":                func(a *Attestation) { a.Evidence.Metadata = []byte("[1]") },
		"/evidence/proof/method":            func(a *Attestation) { a.Evidence.Proof.Method = "" },
		"/evidence/proof/key_id":            func(a *Attestation) { a.Evidence.Proof.KeyID = "" },
		"/evidence/proof/signature":         func(a *Attestation) { a.Evidence.Proof.Signature = "!" },
		"/evidence/proof/binding/signed_at": func(a *Attestation) { a.Evidence.Proof.Binding.SignedAt = "!" },
	} {
		b := newBench(t, nil)
		req := b.signed(t, JWKThumbprint, "")
		attestation(t, req, change)
		_, err := b.Verify(wire(t, req))
		refusal, ok := errors.AsType[*receipt.Error](err)
		if !ok || refusal.Pointer != want || want != "" && refusal.Code != receipt.CodeIdentityInvalidFormat {
			t.Errorf("%s: %v", want, err)
		}
	}
	many := Evidence{AgentID: "a", ControlType: Operator, Capabilities: strings.Split(strings.Repeat("x,", maxCapabilities)+"x", ",")}
	if got := many.defect(); got != "/evidence/capabilities" {
		t.Errorf("too many capabilities: %q", got)
	}
}

func TestHeaderThatIsNoAttestationIsRefused(t *testing.T) {
	encode := base64.RawURLEncoding.EncodeToString
	const good = `{"type":"peac/agent-identity","issuer":"https://a.example","issued_at":"2026-01-01T00:00:00Z","evidence":{"agent_id":"a","control_type":"operator"}}`
	for name, c := range map[string]struct {
		values []string
		want   receipt.Code
	}{
		"good":         {[]string{encode([]byte(good))}, ""},
		"empty":        {[]string{""}, receipt.CodeIdentityInvalidFormat},
		"twice":        {[]string{encode([]byte(good)), encode([]byte(good))}, receipt.CodeIdentityInvalidFormat},
		"not base64":   {[]string{good}, receipt.CodeIdentityInvalidFormat},
		"padded":       {[]string{encode([]byte(good)) + "="}, receipt.CodeIdentityInvalidFormat},
		"unknown name": {[]string{encode([]byte(`{"admin":true,` + good[1:]))}, receipt.CodeIdentityInvalidFormat},
		"name twice":   {[]string{encode([]byte(`{"type":"peac/agent-identity",` + good[1:]))}, receipt.CodeIdentityInvalidFormat},
		"name in case": {[]string{encode([]byte(strings.Replace(good, "issuer", "Issuer", 1)))}, receipt.CodeIdentityInvalidFormat},
		"null":         {[]string{encode([]byte(`null`))}, receipt.CodeIdentityInvalidFormat},
		"deep":         {[]string{encode([]byte(strings.Repeat("[", 5000)))}, receipt.CodeIdentityInvalidFormat},
		"oversized":    {[]string{encode([]byte(good + strings.Repeat(" ", maxHeader)))}, receipt.CodeIdentityInvalidFormat},
		"large":        {[]string{encode([]byte(good + strings.Repeat(" ", maxHeader/4*3-len(good))))}, ""},
	} {
		a, err := received(http.Header{http.CanonicalHeaderKey(Header): c.values})
		if receipt.CodeOf(err) != c.want || (a == nil) != (c.want != "") {
			t.Errorf("%s: %v, %v", name, a, err)
		}
	}
}
