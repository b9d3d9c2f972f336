package receipt

import (
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Version is the only peac_version this package issues and verifies.
const Version = "0.2"

// The two kinds of record, closed for ever (WIRE-0.2, section 5).
const (
	KindEvidence  = "evidence"  // something has happened
	KindChallenge = "challenge" // the receiver is asked for something
)

// Claims are the claims of one record (WIRE-0.2, section 3). Optional claims
// are left out when they are zero; lengths are in characters.
type Claims struct {
	PeacVersion     string          `json:"peac_version"`
	Kind            string          `json:"kind"`
	Type            string          `json:"type"`             // domain/segment or scheme://…, at most 256
	Issuer          string          `json:"iss"`              // an https origin or a DID, at most 2048
	IssuedAt        int64           `json:"iat"`              // Unix seconds
	ID              string          `json:"jti"`              // 1 to 256, unique at its issuer
	Subject         string          `json:"sub,omitzero"`     // at most 2048
	Pillars         []string        `json:"pillars,omitzero"` // ascending, each once
	Actor           *Actor          `json:"actor,omitzero"`
	Policy          *Policy         `json:"policy,omitzero"`
	Representation  *Representation `json:"representation,omitzero"`
	OccurredAt      string          `json:"occurred_at,omitzero"`      // RFC 3339; never in a challenge
	PurposeDeclared string          `json:"purpose_declared,omitzero"` // at most 256
	Extensions      map[string]any  `json:"extensions,omitzero"`       // decoded JSON by domain/segment
}

// Actor is who acted, as far as the issuer knows (WIRE-0.2, section 3.4).
type Actor struct {
	ID         string `json:"id"`                   // 1 to 256
	ProofType  string `json:"proof_type"`           // one of ProofTypes
	Origin     string `json:"origin"`               // http or https, without a path
	ProofRef   string `json:"proof_ref,omitzero"`   // at most 2048
	IntentHash string `json:"intent_hash,omitzero"` // sha256: and 64 hex digits
}

// Policy names the policy under which the record was made (WIRE-0.2, section
// 3.2). Its URI is a hint for people and is fetched by nobody on its own.
type Policy struct {
	Digest  string `json:"digest"`           // sha256: and 64 hex digits
	URI     string `json:"uri,omitzero"`     // https, at most 2048
	Version string `json:"version,omitzero"` // at most 256
}

// Representation describes the content the record is about (WIRE-0.2,
// section 3.3).
type Representation struct {
	ContentHash   string `json:"content_hash,omitzero"`   // sha256: and 64 hex digits
	ContentType   string `json:"content_type,omitzero"`   // a media type, at most 256
	ContentLength *int64 `json:"content_length,omitzero"` // bytes
}

// Pillars lists the closed set of pillars in ascending order (WIRE-0.2,
// section 7).
func Pillars() []string { return slices.Clone(pillars) }

// ProofTypes lists the kinds of proof an Actor may name.
func ProofTypes() []string { return slices.Clone(proofTypes) }

var (
	pillars = []string{
		"access", "attribution", "commerce", "compliance", "consent",
		"identity", "privacy", "provenance", "purpose", "safety",
	}
	proofTypes = []string{
		"ed25519-cert-chain", "eat-passport", "eat-background-check", "sigstore-oidc",
		"did", "spiffe", "x509-pki", "custom",
	}
)

// record is the whole of the claims, in the order in which they are judged.
var record = object(
	need("peac_version", oneOf(Version)),
	need("kind", kind),
	need("type", form(256, "domain/segment or an absolute URI", isType)),
	need("iss", issuer),
	need("iat", integer(-maxSafeInteger, maxSafeInteger)),
	need("jti", text(1, 256)),
	may("sub", text(0, 2048)),
	may("pillars", sortedPillars),
	may("actor", object(
		need("id", text(1, 256)),
		need("proof_type", oneOf(proofTypes...)),
		need("origin", form(2048, "an origin", isWebOrigin)),
		may("proof_ref", text(0, 2048)),
		may("intent_hash", digest),
	)),
	may("policy", object(
		need("digest", digest),
		may("uri", form(2048, "an https URI", func(s string) bool {
			return strings.HasPrefix(s, "https://") && isAbsoluteURI(s)
		})),
		may("version", text(0, 256)),
	)),
	may("representation", object(
		may("content_hash", digest),
		may("content_type", form(256, "a media type", mediaType.MatchString)),
		may("content_length", integer(0, maxSafeInteger)),
	)),
	may("occurred_at", instant),
	may("purpose_declared", text(0, 256)),
	may("extensions", extensions),
)

// checkClaims judges decoded claims; sizes holds the bytes of each.
func checkClaims(members map[string]any, sizes map[string]int) *Error {
	if err := record(members, ""); err != nil {
		return err
	}
	if _, present := members["occurred_at"]; present && members["kind"] == KindChallenge {
		return refuse(CodeOccurredAtOnChallenge, "/occurred_at", "only evidence has occurred")
	}
	if sizes["extensions"] > MaxExtensions {
		return refuse(CodeExtensionSize, "/extensions", "%d bytes, at most %d are read", sizes["extensions"], MaxExtensions)
	}
	return nil
}

func kind(value any, at string) *Error {
	name, ok := value.(string)
	switch {
	case !ok:
		return refuse(CodeInvalidFormat, at, "not a string")
	case name != KindEvidence && name != KindChallenge:
		return refuse(CodeKindUnsupported, at, "neither %s nor %s", KindEvidence, KindChallenge)
	}
	return nil
}

var (
	uriType    = regexp.MustCompile(`^[a-z][a-z0-9+.-]*://`)
	domainType = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9-]*\.[a-zA-Z0-9.-]*/[a-zA-Z0-9][a-zA-Z0-9._-]*$`)
	mediaType  = regexp.MustCompile("^" + httpToken + "/" + httpToken + `(\s*;\s*` + httpToken + `=(` + httpToken + `|"[^"\\]*"))*$`)
)

const httpToken = "[A-Za-z0-9!#$%&'*+.^_`|~-]+" // RFC 9110, section 5.6.2

// isType is the grammar of a type (WIRE-0.2, section 6.2).
func isType(s string) bool { return uriType.MatchString(s) || domainType.MatchString(s) }

func issuer(value any, at string) *Error {
	name, ok := value.(string)
	switch {
	case !ok:
		return refuse(CodeInvalidFormat, at, "not a string")
	case !isIssuer(name):
		return refuse(CodeIssuerNotCanonical, at, "neither an https origin in canonical form nor a bare DID")
	}
	return nil
}

func isWebOrigin(s string) bool { return isOrigin(s, "https", 443) || isOrigin(s, "http", 80) }

func sortedPillars(value any, at string) *Error {
	if err := list(1, MaxItems, oneOf(pillars...))(value, at); err != nil {
		return err
	}
	items := value.([]any)
	for i := 1; i < len(items); i++ {
		if items[i-1].(string) >= items[i].(string) {
			return refuse(CodePillarsNotSorted, belowItem(at, i), "not in ascending order, each once")
		}
	}
	return nil
}

// extensions judges the keys and every registered group; what a stranger's
// extension holds is the stranger's (WIRE-0.2, section 12).
func extensions(value any, at string) *Error {
	groups, ok := value.(map[string]any)
	if !ok {
		return refuse(CodeInvalidFormat, at, "not an object")
	}
	for _, key := range slices.Sorted(maps.Keys(groups)) {
		if !isExtensionKey(key) {
			return refuse(CodeInvalidExtensionKey, below(at, key), "not domain/segment in lower case")
		}
		if _, err := checkGroup(key, groups[key], below(at, key)); err != nil {
			return err
		}
	}
	return nil
}

// claimsOf takes over claims that checkClaims has admitted.
func claimsOf(members map[string]any) Claims {
	c := Claims{
		PeacVersion:     textOf(members, "peac_version"),
		Kind:            textOf(members, "kind"),
		Type:            textOf(members, "type"),
		Issuer:          textOf(members, "iss"),
		IssuedAt:        int64(members["iat"].(float64)),
		ID:              textOf(members, "jti"),
		Subject:         textOf(members, "sub"),
		OccurredAt:      textOf(members, "occurred_at"),
		PurposeDeclared: textOf(members, "purpose_declared"),
	}
	c.Extensions, _ = members["extensions"].(map[string]any)
	items, _ := members["pillars"].([]any)
	for _, pillar := range items {
		c.Pillars = append(c.Pillars, pillar.(string))
	}
	if actor, present := members["actor"].(map[string]any); present {
		c.Actor = &Actor{
			ID: textOf(actor, "id"), ProofType: textOf(actor, "proof_type"), Origin: textOf(actor, "origin"),
			ProofRef: textOf(actor, "proof_ref"), IntentHash: textOf(actor, "intent_hash"),
		}
	}
	if policy, present := members["policy"].(map[string]any); present {
		c.Policy = &Policy{Digest: textOf(policy, "digest"), URI: textOf(policy, "uri"), Version: textOf(policy, "version")}
	}
	if content, present := members["representation"].(map[string]any); present {
		c.Representation = &Representation{ContentHash: textOf(content, "content_hash"), ContentType: textOf(content, "content_type")}
		if length, present := content["content_length"].(float64); present {
			n := int64(length)
			c.Representation.ContentLength = &n
		}
	}
	return c
}

func textOf(members map[string]any, name string) string {
	text, _ := members[name].(string)
	return text
}
