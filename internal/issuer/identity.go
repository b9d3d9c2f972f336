package issuer

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/parleykit/parley/internal/httpserver"
	"github.com/parleykit/parley/internal/keys"
	"github.com/parleykit/parley/protocol/discovery"
	"github.com/parleykit/parley/protocol/receipt"
)

// Paths of what the issuer answers beside the documents at well-known places.
const (
	KeySetPath = "/receipts/jwks.json"
	VerifyPath = "/receipts/verify"
)

// identity is who the issuer is between two changes. It is immutable.
type identity struct {
	name      string // iss
	kid       string
	key       *keys.Ed25519
	known     discovery.KeySet // own keys, those that are not published any more too
	published discovery.KeySet
	document  discovery.Issuer // holds the revocations where it is not published, too
	policy    discovery.Policy
	binding   receipt.Policy

	policyText, issuerJSON, keySetJSON, capabilitiesJSON []byte // issuerJSON is nil for a did:key
}

func newIdentity(dir *keys.Dir, origin httpserver.Origin, s Settings) (*identity, error) {
	self := &identity{}
	if err := self.readKeys(dir, s.Revoked); err != nil {
		return nil, err
	}
	self.name = origin.String()
	if !origin.Secure() || origin.Loopback() {
		self.name = receipt.DIDKey(self.key.PublicKey())
	}
	if err := self.setPolicy(s.Policy, origin); err != nil {
		return nil, fmt.Errorf("%w: policy: %w", ErrOptions, err)
	}
	if err := self.describe(origin, s); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrOptions, err)
	}
	return self, nil
}

// readKeys reads the active key and the retired ones. A kid is the key's
// thumbprint: no other key can ever have it. Retired keys are published for as
// long as there is room, since receipts have no end.
func (id *identity) readKeys(dir *keys.Dir, revoked []discovery.RevokedKey) (err error) {
	if id.key, err = dir.Ed25519(keys.Issuer); err != nil {
		return fmt.Errorf("issuer: %w", err)
	}
	retired, err := dir.Retirements(keys.Issuer)
	if err != nil {
		return fmt.Errorf("issuer: %w", err)
	}
	id.known = discovery.KeySet{named(id.key)}
	for _, r := range retired {
		key, err := dir.OpenEd25519(r.File)
		if err != nil {
			return fmt.Errorf("issuer: %w", err)
		}
		id.known = append(id.known, named(key))
	}
	id.kid = id.known[0].ID
	isRevoked := func(k discovery.Key) bool {
		return slices.ContainsFunc(revoked, func(r discovery.RevokedKey) bool { return r.KeyID == k.ID })
	}
	if isRevoked(id.known[0]) {
		return fmt.Errorf("%w: the key in use, %s, is revoked: rotate it first", ErrOptions, id.kid)
	}
	id.published = slices.DeleteFunc(slices.Clone(id.known), isRevoked)
	id.published = id.published[:min(len(id.published), discovery.MaxKeys)]
	return nil
}

func named(key *keys.Ed25519) discovery.Key {
	return discovery.Key{ID: KeyID(key.PublicKey()), Public: key.PublicKey()}
}

// KeyID is the kid of an own key: its thumbprint (RFC 7638).
func KeyID(key ed25519.PublicKey) string { return receipt.NewJWK(key, "").KeyID }

func (id *identity) setPolicy(p discovery.Policy, origin httpserver.Origin) error {
	p.Version = discovery.PolicyVersion
	if p.Usage == "" {
		p.Usage = discovery.UsageConditional
	}
	text, err := p.Encode()
	if err != nil {
		return err
	}
	parsed, err := discovery.ParsePolicy(text, "")
	if err != nil {
		return err
	}
	id.policyText, id.policy = text, *parsed
	id.binding = receipt.Policy{Digest: parsed.Digest, Version: parsed.Version}
	if origin.Secure() { // the protocol knows no other URI
		id.binding.URI = origin.String() + discovery.PolicyPath
	}
	return nil
}

// describe writes the documents.
func (id *identity) describe(origin httpserver.Origin, s Settings) (err error) {
	id.document = discovery.Issuer{
		Version: discovery.IssuerVersion, Issuer: id.name,
		JWKSURI: origin.String() + KeySetPath, VerifyEndpoint: origin.String() + VerifyPath,
		ReceiptVersions: []string{receipt.RecordType}, Algorithms: []string{"EdDSA"},
		SecurityContact: s.SecurityContact, RevokedKeys: s.Revoked,
	}
	capabilities := receipt.Capabilities{
		SupportedKinds: []string{receipt.RecordType}, CarrierFormats: []string{receipt.FormatEmbed, receipt.FormatReference},
	}
	if !id.isDID() {
		if id.issuerJSON, err = id.document.Encode(); err != nil {
			return err
		}
		capabilities.IssuerConfigURL = origin.String() + discovery.IssuerPath
	}
	if id.keySetJSON, err = id.published.Encode(); err != nil {
		return err
	}
	id.capabilitiesJSON, err = discovery.EncodeCapabilities(&capabilities)
	return err
}

func (id *identity) isDID() bool { return strings.HasPrefix(id.name, "did:") }

// find is the key of a receipt, where it can be known without asking anybody.
func (id *identity) find(iss, kid string) (key ed25519.PublicKey, known bool, err error) {
	if strings.HasPrefix(iss, "did:") {
		if key, err = receipt.ParseDIDKey(iss); err != nil {
			return nil, true, err
		}
		return key, true, id.document.CheckRevoked(KeyID(key)) // it may be an own key
	}
	if iss != id.name {
		return nil, false, nil
	}
	if err := id.document.CheckRevoked(kid); err != nil {
		return nil, true, err
	}
	key, err = findKey(id.known, kid)
	return key, true, err
}

func findKey(set discovery.KeySet, kid string) (ed25519.PublicKey, error) {
	key, found := set.Find(kid)
	if !found {
		return nil, &receipt.Error{Code: receipt.CodeKeyNotFound, Detail: "the issuer has no key of that name"}
	}
	return key, nil
}

// RotateKey puts the next key of the issuer in use, making one where none is
// prepared. It is refused with ErrOptions when it would push a key out of the
// published set that was in use less than discovery.Overlap ago.
func RotateKey(dir *keys.Dir, now time.Time) (*keys.Ed25519, error) {
	retired, err := dir.Retirements(keys.Issuer)
	if err != nil {
		return nil, err
	}
	if last := discovery.MaxKeys - 2; len(retired) > last && now.Sub(retired[last].At) < discovery.Overlap {
		return nil, fmt.Errorf("%w: %d keys were in use within the last %d days, more cannot be published",
			ErrOptions, discovery.MaxKeys, discovery.Overlap/(24*time.Hour))
	}
	if _, err := dir.Next(keys.Issuer); errors.Is(err, keys.ErrNoKey) {
		if _, err := dir.NextEd25519(keys.Issuer); err != nil {
			return nil, err
		}
	}
	if _, err := dir.RotateAt(keys.Issuer, now); err != nil {
		return nil, err
	}
	return dir.Ed25519(keys.Issuer)
}
