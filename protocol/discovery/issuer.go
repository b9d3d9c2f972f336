package discovery

import (
	"time"

	"github.com/parleykit/parley/protocol/canonical"
	"github.com/parleykit/parley/protocol/receipt"
)

// IssuerVersion is the version of peac-issuer.json that is written.
const IssuerVersion = "peac-issuer/0.1"

// Limits of an issuer's document.
const (
	MaxIssuer  = 64 << 10 // bytes
	MaxRevoked = 100      // revoked keys
)

var issuerLimits = limits{
	bytes: MaxIssuer, depth: 4, items: 1000, text: 4096,
	tooLarge: receipt.CodeVerifyIssuerConfigInvalid, invalid: receipt.CodeVerifyIssuerConfigInvalid,
}

// Reasons for a revocation, a closed set; none need be given.
const (
	RevokedKeyCompromise      = "key_compromise"
	RevokedSuperseded         = "superseded"
	RevokedCessation          = "cessation_of_operation"
	RevokedPrivilegeWithdrawn = "privilege_withdrawn"
)

// What is meant where a document says nothing.
const (
	defaultReceiptVersion = receipt.RecordType
	defaultAlgorithm      = "EdDSA"
)

// Issuer is the document peac-issuer.json, by which the keys of an issuer are
// found and by no other way.
type Issuer struct {
	Version         string       `json:"version"`
	Issuer          string       `json:"issuer"`   // https origin
	JWKSURI         string       `json:"jwks_uri"` // of the key set; Resolve judges it
	VerifyEndpoint  string       `json:"verify_endpoint,omitempty"`
	ReceiptVersions []string     `json:"receipt_versions,omitempty"`
	Algorithms      []string     `json:"algorithms,omitempty"`
	PaymentRails    []string     `json:"payment_rails,omitempty"`
	SecurityContact string       `json:"security_contact,omitempty"`
	RevokedKeys     []RevokedKey `json:"revoked_keys,omitempty"` // at most MaxRevoked
}

// RevokedKey is a key whose receipts are not to be believed any more.
type RevokedKey struct {
	KeyID     string    `json:"kid"`
	RevokedAt time.Time `json:"revoked_at"`
	Reason    string    `json:"reason,omitempty"`
}

// ParseIssuer reads peac-issuer.json. Missing versions and algorithms are the
// current ones; fields that this version does not know are passed over. What is
// wrong is refused with E_VERIFY_ISSUER_CONFIG_INVALID. Whether the document is
// the issuer's that was asked for is left to Resolve.
func ParseIssuer(data []byte) (*Issuer, error) {
	o, err := issuerLimits.decodeJSON(data)
	if err != nil {
		return nil, err
	}
	i := &Issuer{
		Version:         o.required("version"),
		Issuer:          o.required("issuer"),
		JWKSURI:         o.required("jwks_uri"),
		VerifyEndpoint:  o.link("verify_endpoint"),
		ReceiptVersions: o.texts("receipt_versions"),
		Algorithms:      o.texts("algorithms"),
		PaymentRails:    o.texts("payment_rails"),
		SecurityContact: o.text("security_contact"),
	}
	if !supported(i.Version, "peac-issuer") {
		o.fail("version", "not a version of peac-issuer that is known")
	}
	if _, err := receipt.CanonicalOrigin(i.Issuer); err != nil {
		o.fail("issuer", "not an https URL")
	}
	if len(i.ReceiptVersions) == 0 {
		i.ReceiptVersions = []string{defaultReceiptVersion}
	}
	if len(i.Algorithms) == 0 {
		i.Algorithms = []string{defaultAlgorithm}
	}
	for _, key := range o.objects("revoked_keys", MaxRevoked) {
		i.RevokedKeys = append(i.RevokedKeys, readRevoked(key))
		if key.err != nil && o.err == nil {
			o.err = key.err
		}
	}
	if o.err != nil {
		return nil, o.err
	}
	return i, nil
}

func readRevoked(o *object) RevokedKey {
	key := RevokedKey{
		KeyID:  o.required("kid"),
		Reason: o.word("reason", RevokedKeyCompromise, RevokedSuperseded, RevokedCessation, RevokedPrivilegeWithdrawn),
	}
	if len(key.KeyID) > receipt.MaxKeyID {
		o.fail("kid", "more than %d bytes", receipt.MaxKeyID)
	}
	at, err := time.Parse(time.RFC3339, o.required("revoked_at"))
	if err != nil {
		o.fail("revoked_at", "not a time of RFC 3339")
	}
	key.RevokedAt = at.UTC()
	return key
}

// Resolve checks that the document is that of the issuer a receipt names, by
// canonical origin (E_VERIFY_ISSUER_MISMATCH), and returns where its keys are,
// an https URL (E_VERIFY_JWKS_URI_INVALID).
func (i *Issuer) Resolve(iss string) (jwksURI string, err error) {
	want, err := receipt.CanonicalOrigin(iss)
	if err != nil {
		return "", err
	}
	if got, err := receipt.CanonicalOrigin(i.Issuer); err != nil || got != want {
		return "", refuse(receipt.CodeVerifyIssuerMismatch, "/issuer", "the document is another issuer's")
	}
	if !receipt.IsHTTPS(i.JWKSURI) {
		return "", refuse(receipt.CodeVerifyJWKSURIInvalid, "/jwks_uri", "not an https URL without user")
	}
	return i.JWKSURI, nil
}

// CheckRevoked refuses a key that the issuer has revoked, with
// E_REVOKED_KEY_USED. It is asked before a signature is believed, whatever the
// time in the receipt: who holds the key can write any time.
func (i *Issuer) CheckRevoked(kid string) error {
	for _, key := range i.RevokedKeys {
		if key.KeyID == kid {
			return refuse(receipt.CodeRevokedKey, "", "the issuer revoked the key at %s", key.RevokedAt.Format(time.RFC3339))
		}
	}
	return nil
}

// Encode writes the document. One that a reader would refuse, or whose issuer
// is not its own canonical origin, is refused.
func (i *Issuer) Encode() ([]byte, error) {
	data, err := canonical.Marshal(i)
	if err != nil {
		return nil, refuse(issuerLimits.invalid, "", "%v", err)
	}
	parsed, err := ParseIssuer(data)
	if err != nil {
		return nil, err
	}
	if _, err := parsed.Resolve(i.Issuer); err != nil {
		return nil, err
	}
	if origin, _ := receipt.CanonicalOrigin(i.Issuer); origin != i.Issuer {
		return nil, refuse(issuerLimits.invalid, "/issuer", "not an origin in its one spelling")
	}
	return data, nil
}
