package keys

import (
	"crypto"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
)

// pemType is the RFC 7468 label of a PKCS #8 key.
const pemType = "PRIVATE KEY"

// Ed25519 is an RFC 8032 key. It is a crypto.Signer. Printing, logging or
// encoding it shows its public key only.
type Ed25519 struct {
	public ed25519.PublicKey
	secret func() ed25519.PrivateKey // a function: see Nostr
}

var _ crypto.Signer = Ed25519{}

// Ed25519 opens the key of a purpose. ErrNoKey when there is none.
func (d *Dir) Ed25519(p Purpose) (*Ed25519, error) { return open(d, p, parseEd25519) }

// OpenEd25519 opens one key that List named, whatever its state.
func (d *Dir) OpenEd25519(f File) (*Ed25519, error) { return openFile(f, parseEd25519) }

// EnsureEd25519 opens the key of a purpose and makes one when there is none.
func (d *Dir) EnsureEd25519(p Purpose) (*Ed25519, error) {
	return ensure(d, p, d.Ed25519, generateEd25519, d.storeEd25519)
}

// NextEd25519 opens the key that will follow the active one at the next Rotate,
// and makes it when there is none. ErrNoKey when there is no active key.
func (d *Dir) NextEd25519(p Purpose) (*Ed25519, error) {
	return ensureNext(d, p, parseEd25519, generateEd25519, d.storeEd25519)
}

func generateEd25519() (*Ed25519, error) {
	public, secret, err := ed25519.GenerateKey(nil)
	if err != nil {
		return nil, fmt.Errorf("making key: %w", err)
	}
	return &Ed25519{public: public, secret: func() ed25519.PrivateKey { return secret }}, nil
}

func (d *Dir) storeEd25519(p Purpose, key *Ed25519, s State) error {
	der, err := x509.MarshalPKCS8PrivateKey(key.secret())
	if err != nil {
		return fmt.Errorf("%w: no PKCS #8 form", ErrMalformed)
	}
	return d.create(fileName(p, key.KID(), s), pem.EncodeToMemory(&pem.Block{Type: pemType, Bytes: der}))
}

func parseEd25519(text []byte) (*Ed25519, error) {
	block, rest := pem.Decode(text)
	if block == nil || block.Type != pemType || len(rest) != 0 {
		return nil, fmt.Errorf("%w: want one PKCS #8 block", ErrMalformed)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	secret, ok := parsed.(ed25519.PrivateKey)
	if err != nil || !ok {
		return nil, fmt.Errorf("%w: not an Ed25519 key", ErrMalformed)
	}
	return &Ed25519{public: secret.Public().(ed25519.PublicKey), secret: func() ed25519.PrivateKey { return secret }}, nil
}

// PublicKey is the 32-byte public key. The caller must not change it.
func (e Ed25519) PublicKey() ed25519.PublicKey { return e.public }

// Public is PublicKey for crypto.Signer.
func (e Ed25519) Public() crypto.PublicKey { return e.public }

// KID is the first 8 hex digits of SHA-256(public key).
func (e Ed25519) KID() string { return kid(e.public) }

// Sign signs the message itself (RFC 8032 PureEdDSA unless opts ask for
// another variant of crypto/ed25519). The reader is not used.
func (e Ed25519) Sign(random io.Reader, message []byte, opts crypto.SignerOpts) ([]byte, error) {
	return e.secret().Sign(random, message, opts)
}

// String shows the public key only.
func (e Ed25519) String() string { return "ed25519:" + hex.EncodeToString(e.public) }

// GoString shows the public key only.
func (e Ed25519) GoString() string { return "keys.Ed25519(" + e.String() + ")" }

// Format shows the public key only, whatever the verb.
func (e Ed25519) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(e.String())) }

// LogValue shows the public key only.
func (e Ed25519) LogValue() slog.Value { return slog.StringValue(e.String()) }

// MarshalText shows the public key only.
func (e Ed25519) MarshalText() ([]byte, error) { return []byte(e.String()), nil }
