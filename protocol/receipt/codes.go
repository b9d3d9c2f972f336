package receipt

import "slices"

// Code is an error code of the protocol's registry, such as "E_INVALID_FORMAT";
// docs/spec/receipt.md has the table.
type Code string

// Codes of a receipt itself: its envelope, its claims, its verification.
const (
	CodeInvalidFormat          Code = "E_INVALID_FORMAT"
	CodeConstraint             Code = "E_CONSTRAINT_VIOLATION"
	CodeInvalidSignature       Code = "E_INVALID_SIGNATURE"
	CodeJWSEmbeddedKey         Code = "E_JWS_EMBEDDED_KEY"
	CodeJWSCrit                Code = "E_JWS_CRIT_REJECTED"
	CodeJWSB64                 Code = "E_JWS_B64_REJECTED"
	CodeJWSZip                 Code = "E_JWS_ZIP_REJECTED"
	CodeJWSMissingKid          Code = "E_JWS_MISSING_KID"
	CodeIJSONDuplicateName     Code = "E_IJSON_DUPLICATE_MEMBER_NAME"
	CodeIJSONNumber            Code = "E_IJSON_NUMBER_OUT_OF_RANGE"
	CodeIJSONString            Code = "E_IJSON_INVALID_STRING"
	CodeUnsupportedWireVersion Code = "E_UNSUPPORTED_WIRE_VERSION"
	CodeWireVersionMismatch    Code = "E_WIRE_VERSION_MISMATCH"
	CodeKindUnsupported        Code = "E_KIND_UNSUPPORTED"
	CodeIssuerNotCanonical     Code = "E_ISS_NOT_CANONICAL"
	CodePillarsNotSorted       Code = "E_PILLARS_NOT_SORTED"
	CodeOccurredAtOnChallenge  Code = "E_OCCURRED_AT_ON_CHALLENGE"
	CodeOccurredAtFuture       Code = "E_OCCURRED_AT_FUTURE"
	CodeInvalidIssuer          Code = "E_INVALID_ISSUER"
	CodeInvalidSubject         Code = "E_INVALID_SUBJECT"
	CodeNotYetValid            Code = "E_NOT_YET_VALID"
	CodeReplay                 Code = "E_REPLAY_DETECTED" // this project's own: the registry has none
	CodeInvalidExtensionKey    Code = "E_INVALID_EXTENSION_KEY"
	CodeExtensionSize          Code = "E_EXTENSION_SIZE_EXCEEDED"
	CodeExtensionValue         Code = "E_EXTENSION_NON_JSON_VALUE"
	CodeExtensionGroupRequired Code = "E_EXTENSION_GROUP_REQUIRED"
	CodeExtensionGroupMismatch Code = "E_EXTENSION_GROUP_MISMATCH"
	CodePolicyBindingFailed    Code = "E_POLICY_BINDING_FAILED"
	CodePayloadTooLarge        Code = "E_PAYLOAD_TOO_LARGE"
)

// Codes of keys and their discovery.
const (
	CodeKeyNotFound               Code = "E_KEY_NOT_FOUND"
	CodeKidReuse                  Code = "E_KID_REUSE_DETECTED"
	CodeRevokedKey                Code = "E_REVOKED_KEY_USED"
	CodeVerifyIssuerConfigMissing Code = "E_VERIFY_ISSUER_CONFIG_MISSING"
	CodeVerifyIssuerConfigInvalid Code = "E_VERIFY_ISSUER_CONFIG_INVALID"
	CodeVerifyIssuerMismatch      Code = "E_VERIFY_ISSUER_MISMATCH"
	CodeVerifyJWKSURIInvalid      Code = "E_VERIFY_JWKS_URI_INVALID"
	CodeVerifyInsecureScheme      Code = "E_VERIFY_INSECURE_SCHEME_BLOCKED"
	CodeVerifyJWKSInvalid         Code = "E_VERIFY_JWKS_INVALID"
	CodeVerifyJWKSTooLarge        Code = "E_VERIFY_JWKS_TOO_LARGE"
	CodeVerifyJWKSTooManyKeys     Code = "E_VERIFY_JWKS_TOO_MANY_KEYS"
	CodeVerifyKeyFetchBlocked     Code = "E_VERIFY_KEY_FETCH_BLOCKED"
	CodeVerifyKeyFetchFailed      Code = "E_VERIFY_KEY_FETCH_FAILED"
	CodeVerifyKeyFetchTimeout     Code = "E_VERIFY_KEY_FETCH_TIMEOUT"
)

// Codes of carriers: how a receipt travels.
const (
	CodeVerifyInvalidTransport      Code = "E_VERIFY_INVALID_TRANSPORT"
	CodeVerifyReceiptTooLarge       Code = "E_VERIFY_RECEIPT_TOO_LARGE"
	CodeVerifyPointerDigestMismatch Code = "E_VERIFY_POINTER_DIGEST_MISMATCH"
	CodeVerifyPointerFetchBlocked   Code = "E_VERIFY_POINTER_FETCH_BLOCKED"
	CodeVerifyPointerFetchFailed    Code = "E_VERIFY_POINTER_FETCH_FAILED"
	CodeVerifyPointerFetchTimeout   Code = "E_VERIFY_POINTER_FETCH_TIMEOUT"
	CodeVerifyPointerFetchTooLarge  Code = "E_VERIFY_POINTER_FETCH_TOO_LARGE"
)

// Codes of the policy manifest, /.well-known/peac.txt.
const (
	CodePolicyFetchFailed    Code = "E_POLICY_FETCH_FAILED"
	CodePolicyNotFound       Code = "E_POLICY_NOT_FOUND"
	CodePolicyInvalid        Code = "E_POLICY_INVALID"
	CodePolicyTimeout        Code = "E_POLICY_TIMEOUT"
	CodePolicyTooLarge       Code = "E_POLICY_TOO_LARGE"
	CodePolicySSRFBlocked    Code = "E_POLICY_SSRF_BLOCKED"
	CodePolicyYAMLInjection  Code = "E_POLICY_YAML_INJECTION"
	CodePolicyMultiDocument  Code = "E_POLICY_MULTI_DOCUMENT"
	CodePolicyInsecureScheme Code = "E_POLICY_INSECURE_SCHEME"
)

// Codes of an agent's identity.
const (
	CodeIdentityMissing              Code = "E_IDENTITY_MISSING"
	CodeIdentityInvalidFormat        Code = "E_IDENTITY_INVALID_FORMAT"
	CodeIdentityExpired              Code = "E_IDENTITY_EXPIRED"
	CodeIdentityNotYetValid          Code = "E_IDENTITY_NOT_YET_VALID"
	CodeIdentitySignatureInvalid     Code = "E_IDENTITY_SIG_INVALID"
	CodeIdentityKeyUnknown           Code = "E_IDENTITY_KEY_UNKNOWN"
	CodeIdentityKeyExpired           Code = "E_IDENTITY_KEY_EXPIRED"
	CodeIdentityKeyRevoked           Code = "E_IDENTITY_KEY_REVOKED"
	CodeIdentityBindingMismatch      Code = "E_IDENTITY_BINDING_MISMATCH"
	CodeIdentityBindingStale         Code = "E_IDENTITY_BINDING_STALE"
	CodeIdentityBindingFuture        Code = "E_IDENTITY_BINDING_FUTURE"
	CodeIdentityProofUnsupported     Code = "E_IDENTITY_PROOF_UNSUPPORTED"
	CodeIdentityDirectoryUnavailable Code = "E_IDENTITY_DIRECTORY_UNAVAILABLE"
)

// Explanation says what a code means for whoever got it.
type Explanation struct {
	Status     int    // HTTP status
	Category   string // such as "validation" or "cryptography"
	Retry      bool   // whether the same request may succeed later
	NextAction string // one sentence
}

// Explain looks the code up; the zero Explanation stands for a code that is
// not in the registry.
func (c Code) Explain() Explanation { return explanations[c] }

// Codes lists every code of this package in ascending order.
func Codes() []Code {
	codes := make([]Code, 0, len(explanations))
	for code := range explanations {
		codes = append(codes, code)
	}
	slices.Sort(codes)
	return codes
}
