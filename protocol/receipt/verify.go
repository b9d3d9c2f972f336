package receipt

import (
	"crypto/ed25519"
	"time"
)

// DefaultSkew is how far the clocks of issuer and verifier may be apart.
const DefaultSkew = time.Minute

// occurredAtTolerance is how far in the future a record may say it happened
// (WIRE-0.2, section 9.3).
const occurredAtTolerance = 300 * time.Second

// VerifyOptions is what a verifier knows beside the receipt and the key.
type VerifyOptions struct {
	Now  time.Time     // the verifier's clock; required
	Skew time.Duration // 0 means DefaultSkew

	// Interop takes a receipt without typ, and one without the extension group
	// that its type demands, with a warning. Everything else stays as strict.
	Interop bool

	Issuer  string // the iss that is expected, to the letter; "" for any
	Subject string // the sub that is expected, to the letter; "" for any

	// PolicyDigest is the digest of the policy the verifier holds, as
	// PolicyDigest makes it; "" when there is none to compare.
	PolicyDigest string

	// Seen reports whether a receipt with this issuer and id was accepted
	// before; nil when nobody remembers. It is asked only about receipts whose
	// signature holds. What Verify accepts the caller has to remember.
	Seen func(issuer, id string) bool
}

// Verified is a receipt that holds.
type Verified struct {
	Claims        Claims
	KeyID         string
	Reference     string // receipt_ref
	Version       string // peac_version
	Warnings      []Warning
	PolicyBinding PolicyState // PolicyVerified or PolicyUnavailable
}

// Decoded is what a receipt says, believed by nobody yet.
type Decoded struct {
	Claims Claims
	KeyID  string
}

// Verify judges a compact JWS under one key of its issuer, in the order of
// WIRE-0.2, section 19.2; the first fault ends it. Whether the key is the
// issuer's is for the caller to know. Refusals are *Error.
func Verify(jws string, key ed25519.PublicKey, opts VerifyOptions) (*Verified, error) {
	e, err := open(jws)
	if err != nil {
		return nil, err
	}
	if err := verifySignature(key, e.signed, e.signature); err != nil {
		return nil, err
	}
	if e.header.typ == "" && !opts.Interop {
		return nil, refuse(CodeInvalidFormat, "/typ", "header: missing")
	}
	claims, err := e.claims()
	if err != nil {
		return nil, err
	}
	warnings, err := judge(claims, &opts)
	if err != nil {
		return nil, err
	}
	binding, err := bindPolicy(claims, opts.PolicyDigest)
	if err != nil {
		return nil, err
	}
	if e.header.typ == "" {
		warnings = append(warnings, Warning{Code: WarnTypMissing})
	}
	sortWarnings(warnings)
	return &Verified{
		Claims:        *claims,
		KeyID:         e.header.keyID,
		Reference:     Reference(jws),
		Version:       claims.PeacVersion,
		Warnings:      warnings,
		PolicyBinding: binding,
	}, nil
}

// Decode reads a receipt without its signature, to choose the key by issuer
// and kid or to show it. The claims are well-formed; nothing says that they
// are true. Refusals are *Error.
func Decode(jws string) (*Decoded, error) {
	e, err := open(jws)
	if err != nil {
		return nil, err
	}
	claims, err := e.claims()
	if err != nil {
		return nil, err
	}
	return &Decoded{Claims: *claims, KeyID: e.header.keyID}, nil
}

// claims judges the payload: structural limits, version, schema.
func (e *envelope) claims() (*Claims, *Error) {
	if e.violation != nil {
		return nil, e.violation
	}
	if err := checkVersion(e.header.typ, e.payload["peac_version"]); err != nil {
		return nil, err
	}
	if err := checkClaims(e.payload, e.sizes); err != nil {
		return nil, err
	}
	claims := claimsOf(e.payload)
	return &claims, nil
}

// checkVersion compares what header and payload say about the version: a
// contradiction is one refusal, agreement on an old version another.
func checkVersion(typ string, version any) *Error {
	current := version == Version
	switch {
	case typ == legacyType && current, typ == RecordType && !current:
		return refuse(CodeWireVersionMismatch, "/peac_version", "not the version that the header's typ stands for")
	case !current:
		return refuse(CodeUnsupportedWireVersion, "/peac_version", "only version %s is read", Version)
	}
	return nil
}

// judge holds the claims against what the verifier knows.
func judge(c *Claims, opts *VerifyOptions) ([]Warning, *Error) {
	if opts.Issuer != "" && c.Issuer != opts.Issuer {
		return nil, refuse(CodeInvalidIssuer, "/iss", "not the issuer that is expected")
	}
	if opts.Subject != "" && c.Subject != opts.Subject {
		return nil, refuse(CodeInvalidSubject, "/sub", "not the subject that is expected")
	}
	warnings, err := checkTimes(c, opts)
	if err != nil {
		return nil, err
	}
	if opts.Seen != nil && opts.Seen(c.Issuer, c.ID) {
		return nil, refuse(CodeReplay, "/jti", "this issuer's receipt was accepted before")
	}
	warnings = append(warnings, unfamiliar(c)...)
	if err := checkGroupOfType(c); err != nil {
		if !opts.Interop {
			return nil, err
		}
		warnings = append(warnings, groupWarning(err))
	}
	return warnings, nil
}

// checkTimes holds iat and occurred_at against the clock.
func checkTimes(c *Claims, opts *VerifyOptions) ([]Warning, *Error) {
	skew := opts.Skew
	if skew == 0 {
		skew = DefaultSkew
	}
	issued := time.Unix(c.IssuedAt, 0)
	if issued.After(opts.Now.Add(skew)) {
		return nil, refuse(CodeNotYetValid, "/iat", "in the future")
	}
	if c.OccurredAt == "" {
		return nil, nil
	}
	occurred, err := time.Parse(time.RFC3339, c.OccurredAt)
	switch {
	case err != nil: // the schema has admitted it
		return nil, refuse(CodeInvalidFormat, "/occurred_at", "not a time of RFC 3339")
	case occurred.After(opts.Now.Add(occurredAtTolerance)):
		return nil, refuse(CodeOccurredAtFuture, "/occurred_at", "in the future")
	case occurred.After(issued):
		return []Warning{{WarnOccurredAtSkew, "/occurred_at"}}, nil
	}
	return nil, nil
}

// bindPolicy compares the policy's digests; a difference is a refusal.
func bindPolicy(c *Claims, local string) (PolicyState, *Error) {
	if local != "" {
		if err := digest(local, ""); err != nil {
			return "", refuse(CodeInvalidFormat, "", "the verifier's own policy digest is none")
		}
	}
	record := ""
	if c.Policy != nil {
		record = c.Policy.Digest
	}
	state := BindPolicy(record, local)
	if state == PolicyFailed {
		return "", refuse(CodePolicyBindingFailed, "/policy/digest", "made under another policy")
	}
	return state, nil
}
