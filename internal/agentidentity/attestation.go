package agentidentity

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parleykit/parley/protocol/canonical"
	"github.com/parleykit/parley/protocol/receipt"
)

// Header carries an Attestation as JSON in base64url without padding.
const Header = receipt.HeaderAgentIdentity

const (
	attestationType = "peac/agent-identity"

	maxHeader       = 8 << 10 // bytes of one header with a proof
	maxID           = 256
	maxURL          = 2048
	maxCapabilities = 32
	maxCapability   = 64
	maxDelegations  = 8
)

// Control says who steers an agent.
type Control string

// The kinds of control of the PEAC protocol.
const (
	Operator      Control = "operator"       // an organisation
	UserDelegated Control = "user-delegated" // a person
)

// Attestation is what an agent says of itself (PEAC, AGENT-IDENTITY).
type Attestation struct {
	Type      string   `json:"type"`                 // "peac/agent-identity"
	Issuer    string   `json:"issuer"`               // URL of who says it
	IssuedAt  string   `json:"issued_at"`            // RFC 3339
	ExpiresAt string   `json:"expires_at,omitempty"` // RFC 3339
	Ref       string   `json:"ref,omitempty"`        // URL, never followed here
	Evidence  Evidence `json:"evidence"`
}

// Evidence is the identity and the proof of an Attestation.
type Evidence struct {
	AgentID         string         `json:"agent_id"` // 1 to 256 characters
	ControlType     Control        `json:"control_type"`
	Capabilities    []string       `json:"capabilities,omitempty"`      // up to 32 of 64 characters
	DelegationChain []string       `json:"delegation_chain,omitempty"`  // up to 8 of 256 characters
	Proof           *Proof         `json:"proof,omitempty"`             // required by Verify
	KeyDirectoryURL string         `json:"key_directory_url,omitempty"` // never fetched here
	Operator        string         `json:"operator,omitempty"`
	UserID          string         `json:"user_id,omitempty"`
	Metadata        jsontext.Value `json:"metadata,omitempty"`
}

// Proof says how the agent proves control of its key.
type Proof struct {
	Method         Method   `json:"method"`
	KeyID          string   `json:"key_id"`                    // 1 to 256 characters
	Algorithm      string   `json:"alg,omitempty"`             // "EdDSA" when absent
	Signature      string   `json:"signature,omitempty"`       // base64url, over the binding message
	DPoP           string   `json:"dpop_proof,omitempty"`      // the JWT, when not in the DPoP header
	CertThumbprint string   `json:"cert_thumbprint,omitempty"` // x5t#S256
	Binding        *Binding `json:"binding,omitempty"`
}

// Binding names the request that a Proof's signature is about.
type Binding struct {
	Method          string   `json:"method"`
	Target          string   `json:"target"`           // absolute URL without fragment
	HeadersIncluded []string `json:"headers_included"` // lower case, sorted
	BodyHash        string   `json:"body_hash,omitempty"`
	SignedAt        string   `json:"signed_at"` // RFC 3339
}

// received is the attestation of a request, nil when it has none.
func received(header http.Header) (*Attestation, error) {
	text, err := only(header, Header)
	if text == "" || err != nil {
		return nil, err
	}
	data, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil {
		return nil, refuse(receipt.CodeIdentityInvalidFormat, "The header %s is not base64url without padding.", Header)
	}
	var a Attestation
	if err := canonical.Decode(data, &a); err != nil {
		return nil, refuse(receipt.CodeIdentityInvalidFormat, "The header %s is not an attestation: %v.", Header, err)
	}
	if defect := a.defect(); defect != "" {
		return nil, &receipt.Error{Code: receipt.CodeIdentityInvalidFormat, Pointer: defect, Detail: "The attestation breaks a rule of its form."}
	}
	return &a, nil
}

// only is the value of a header that may occur once; "" when it is absent.
func only(header http.Header, name string) (string, error) {
	values := header.Values(name)
	switch {
	case len(values) == 0:
		return "", nil
	case len(values) > 1 || values[0] == "":
		return "", refuse(receipt.CodeIdentityInvalidFormat, "The header %s must have one value.", name)
	case len(values[0]) > maxHeader:
		return "", refuse(receipt.CodeIdentityInvalidFormat, "The header %s is larger than %d bytes.", name, maxHeader)
	}
	return values[0], nil
}

// defect is the JSON pointer of the first member that breaks the form.
func (a *Attestation) defect() string {
	switch {
	case a.Type != attestationType:
		return "/type"
	case !isURL(a.Issuer):
		return "/issuer"
	case !isTime(a.IssuedAt):
		return "/issued_at"
	case a.ExpiresAt != "" && !isTime(a.ExpiresAt):
		return "/expires_at"
	case a.Ref != "" && !isURL(a.Ref):
		return "/ref"
	}
	return a.Evidence.defect()
}

func (e *Evidence) defect() string {
	switch {
	case !isText(e.AgentID, maxID):
		return "/evidence/agent_id"
	case e.ControlType != Operator && e.ControlType != UserDelegated:
		return "/evidence/control_type"
	case len(e.Capabilities) > maxCapabilities || !areTexts(e.Capabilities, maxCapability):
		return "/evidence/capabilities"
	case len(e.DelegationChain) > maxDelegations || !areTexts(e.DelegationChain, maxID):
		return "/evidence/delegation_chain"
	case e.KeyDirectoryURL != "" && !isURL(e.KeyDirectoryURL):
		return "/evidence/key_directory_url"
	case e.Metadata != nil && e.Metadata.Kind() != '{':
		return "/evidence/metadata"
	case e.Proof == nil:
		return ""
	case e.Proof.Method == "":
		return "/evidence/proof/method"
	case !isText(e.Proof.KeyID, maxID):
		return "/evidence/proof/key_id"
	}
	return ""
}

// current checks the attestation's own times.
func (a *Attestation) current(now time.Time, skew time.Duration) error {
	issued, _ := time.Parse(time.RFC3339, a.IssuedAt) // the form was checked
	if issued.After(now.Add(skew)) {
		return refuse(receipt.CodeIdentityNotYetValid, "The attestation is from the future.")
	}
	if expires, err := time.Parse(time.RFC3339, a.ExpiresAt); err == nil && expires.Before(now.Add(-skew)) {
		return refuse(receipt.CodeIdentityExpired, "The attestation's time is over.")
	}
	return nil
}

// algorithm is the proof's algorithm with its default.
func (p *Proof) algorithm() Algorithm {
	if p.Algorithm == "" {
		return EdDSA
	}
	return Algorithm(p.Algorithm)
}

func isText(text string, most int) bool {
	return text != "" && utf8.RuneCountInString(text) <= most
}

func areTexts(texts []string, most int) bool {
	for _, text := range texts {
		if !isText(text, most) {
			return false
		}
	}
	return true
}

func isURL(text string) bool {
	u, err := url.Parse(text)
	return err == nil && len(text) <= maxURL && u.IsAbs() && (u.Host != "" || u.Opaque != "")
}

func isTime(text string) bool {
	_, err := time.Parse(time.RFC3339, text)
	return err == nil
}
