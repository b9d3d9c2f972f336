package agentidentity

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"errors"
	"fmt"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/parleykit/parley/protocol/receipt"
)

// Method is a way of proving control of a key.
type Method string

// The methods of the PEAC protocol.
const (
	MessageSignature Method = "http-message-signature" // RFC 9421
	DPoP             Method = "dpop"                   // RFC 9449
	MTLS             Method = "mtls"                   // RFC 8705
	JWKThumbprint    Method = "jwk-thumbprint"         // RFC 7638
)

// Algorithm is a signature algorithm by its JOSE name.
type Algorithm string

// The algorithms that keys may have.
const (
	EdDSA Algorithm = "EdDSA" // with Ed25519; "ed25519" in RFC 9421
	ES256 Algorithm = "ES256" // with P-256; "ecdsa-p256-sha256" in RFC 9421
)

// messageNames are the algorithms' names in RFC 9421, section 6.2.
var messageNames = map[Algorithm]string{EdDSA: "ed25519", ES256: "ecdsa-p256-sha256"}

// signing does the work: ES256 signatures are r and s side by side in JOSE as
// in RFC 9421.
var signing = map[Algorithm]jwt.SigningMethod{EdDSA: jwt.SigningMethodEdDSA, ES256: jwt.SigningMethodES256}

// Key is what a Directory knows of one key of an agent: a public key with its
// one algorithm, or the thumbprint of a certificate.
type Key struct {
	// ID names the key, 1 to 256 bytes.
	ID string
	// Agent is the agent's identifier, 1 to 256 bytes.
	Agent string
	// Algorithm goes with Public, an ed25519.PublicKey or a *ecdsa.PublicKey on
	// P-256. Both are empty for a certificate.
	Algorithm Algorithm
	Public    crypto.PublicKey
	// Certificate is the x5t#S256 thumbprint of a client certificate, or "".
	Certificate string
	// NotBefore and NotAfter bound the key's use; zero is no bound.
	NotBefore, NotAfter time.Time
	// Revoked keys prove nothing any more.
	Revoked bool
}

// Directory finds keys. The id is the key's ID for MessageSignature, the JWK
// thumbprint for DPoP and JWKThumbprint, the certificate's thumbprint for MTLS.
// ErrNoKey means that there is none; any other error that the directory cannot
// be asked now.
type Directory interface {
	Find(ctx context.Context, method Method, id string) (Key, error)
}

// ErrNoKey means that a Directory has no such key.
var ErrNoKey = errors.New("agentidentity: no such key")

// ErrKey means a Key that cannot be used.
var ErrKey = errors.New("agentidentity: bad key")

// Keys is a Directory in memory.
type Keys struct{ byID, byThumbprint, byCertificate map[string]Key }

// NewKeys makes a Directory of these keys. ErrKey when one is not usable or an
// id or a thumbprint occurs twice: it would be unclear whose it is.
func NewKeys(keys ...Key) (*Keys, error) {
	k := &Keys{byID: map[string]Key{}, byThumbprint: map[string]Key{}, byCertificate: map[string]Key{}}
	for _, key := range keys {
		thumbprint, err := key.check()
		if err != nil {
			return nil, err
		}
		if !put(k.byID, key.ID, key) || !put(k.byThumbprint, thumbprint, key) || !put(k.byCertificate, key.Certificate, key) {
			return nil, fmt.Errorf("%w: %q, or its key, occurs twice", ErrKey, key.ID)
		}
	}
	return k, nil
}

// put adds a key to an index unless it has no such id; false when it is taken.
func put(index map[string]Key, id string, key Key) bool {
	_, taken := index[id]
	if !taken && id != "" {
		index[id] = key
	}
	return !taken
}

// Find implements Directory.
func (k *Keys) Find(_ context.Context, method Method, id string) (Key, error) {
	index := k.byID
	switch method {
	case DPoP, JWKThumbprint:
		index = k.byThumbprint
	case MTLS:
		index = k.byCertificate
	}
	key, found := index[id]
	if !found {
		return Key{}, ErrNoKey
	}
	return key, nil
}

// check returns the key's JWK thumbprint, "" for a certificate.
func (k Key) check() (thumbprint string, err error) {
	switch {
	case len(k.ID) < 1 || len(k.ID) > maxID || len(k.Agent) < 1 || len(k.Agent) > maxID:
		return "", fmt.Errorf("%w: id and agent are 1 to %d bytes", ErrKey, maxID)
	case k.Public == nil && k.Algorithm == "" && len(k.Certificate) == thumbprintLength:
		return "", nil
	case k.Certificate != "":
		return "", fmt.Errorf("%w: %q is a public key or a certificate's thumbprint", ErrKey, k.ID)
	case !k.fits():
		return "", fmt.Errorf("%w: %q has no public key that its algorithm goes with", ErrKey, k.ID)
	}
	if public, ok := k.Public.(ed25519.PublicKey); ok { // under a weak one anyone's signature holds
		if _, err := receipt.NewJWK(public, "").PublicKey(); err != nil {
			return "", fmt.Errorf("%w: %q: %w", ErrKey, k.ID, err)
		}
	}
	return Thumbprint(k.Public)
}

// fits reports whether the public key is of the algorithm.
func (k Key) fits() bool {
	switch public := k.Public.(type) {
	case ed25519.PublicKey:
		return k.Algorithm == EdDSA && len(public) == ed25519.PublicKeySize
	case *ecdsa.PublicKey:
		return k.Algorithm == ES256 && public != nil && public.Curve == elliptic.P256()
	}
	return false
}

// verify checks a signature with the key's own algorithm.
func (k Key) verify(message, signature []byte) error {
	if !k.fits() || signing[k.Algorithm].Verify(string(message), signature, k.Public) != nil {
		return refuse(receipt.CodeIdentitySignatureInvalid, "The signature is not that of the key.")
	}
	return nil
}

// usable checks the key's state.
func (k Key) usable(now time.Time) error {
	switch {
	case k.Revoked:
		return refuse(receipt.CodeIdentityKeyRevoked, "The key is revoked.")
	case !k.NotBefore.IsZero() && now.Before(k.NotBefore):
		return refuse(receipt.CodeIdentityKeyUnknown, "The key is not in use yet.")
	case !k.NotAfter.IsZero() && now.After(k.NotAfter):
		return refuse(receipt.CodeIdentityKeyExpired, "The key's time is over.")
	}
	return nil
}

// find asks the directory and checks that the key may be used now.
func (v *Verifier) find(ctx context.Context, method Method, id string, now time.Time) (Key, error) {
	if len(id) < 1 || len(id) > maxID {
		return Key{}, refuse(receipt.CodeIdentityInvalidFormat, "A key's identifier is 1 to 256 bytes.")
	}
	key, err := v.opts.Directory.Find(ctx, method, id)
	switch {
	case errors.Is(err, ErrNoKey):
		return Key{}, refuse(receipt.CodeIdentityKeyUnknown, "The key is not known here.")
	case err != nil:
		v.log.WarnContext(ctx, "key directory unavailable", "method", string(method), "err", err)
		return Key{}, refuse(receipt.CodeIdentityDirectoryUnavailable, "The key directory cannot be asked now.")
	}
	return key, key.usable(now)
}
