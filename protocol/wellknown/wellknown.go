package wellknown

import (
	"crypto"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/nbd-wtf/go-nostr"

	"github.com/parleykit/parley/protocol/canonical"
)

// Path is where a server answers with its document (RFC 8615).
const Path = "/.well-known/parley.json"

// MaxSize bounds the document, in bytes.
const MaxSize = 16 << 10

// label is signed before the document, so that no other signature of the same
// key can pass for this one.
const label = "parley/server/1\n"

var (
	// ErrMalformed is a document that is not of this form.
	ErrMalformed = errors.New("wellknown: malformed document")
	// ErrSignature is a document that its own server key did not sign.
	ErrSignature = errors.New("wellknown: signature does not match the server key")
)

// Document lists what a client needs to use one server.
type Document struct {
	Schema    string         `json:"schema"`            // Origin + "/schemas/server/v1"
	Origin    string         `json:"origin"`            // such as "https://parley.example"
	Name      string         `json:"name"`              // at most 100 bytes
	Relay     string         `json:"relay"`             // ws:// or wss:// URL, empty without a relay
	Venue     *Venue         `json:"venue,omitzero"`    // nil without a venue, and then left out
	Receipts  *Receipts      `json:"receipts,omitzero"` // nil where none are issued
	Carriers  []Carrier      `json:"carriers,omitzero"` // at most MaxCarriers; left out where the relay is all
	ServerKey string         `json:"server_key"`        // base64url of 32 bytes, Ed25519
	IssuedAt  canonical.Time `json:"issued_at"`
}

// Venue names the key that hosts agreements.
type Venue struct {
	PubKey   string   `json:"pubkey"`   // 64 hex characters, BIP-340
	Profiles []string `json:"profiles"` // such as "parley/1"
}

// Receipts names who vouches for what the venue accepted.
type Receipts struct {
	Issuer string `json:"issuer"`  // iss of receipts: an https origin or a did:key
	LogKey string `json:"log_key"` // of the log that holds them, a C2SP vkey
}

// signed is the form on the wire.
type signed struct {
	Document  Document `json:"document"`
	Signature string   `json:"signature"` // base64url of 64 bytes
}

// Sign fills in the schema and the server key and returns the bytes to serve.
// The key must be an Ed25519 key.
func Sign(doc Document, key crypto.Signer) ([]byte, error) {
	public, ok := key.Public().(ed25519.PublicKey)
	if !ok {
		return nil, fmt.Errorf("wellknown: server key is %T, not Ed25519", key.Public())
	}
	doc.Schema = doc.Origin + "/schemas/server/v1"
	doc.ServerKey = base64.RawURLEncoding.EncodeToString(public)
	if err := doc.check(); err != nil {
		return nil, err
	}
	message, err := doc.signedBytes()
	if err != nil {
		return nil, err
	}
	signature, err := key.Sign(nil, message, crypto.Hash(0))
	if err != nil {
		return nil, fmt.Errorf("signing the server document: %w", err)
	}
	return canonical.Marshal(signed{doc, base64.RawURLEncoding.EncodeToString(signature)})
}

// Open reads a served document and checks its shape and its signature. It does
// not know which key to expect: compare Fingerprint with the pinned one.
func Open(data []byte) (*Document, error) {
	if len(data) > MaxSize {
		return nil, fmt.Errorf("%w: %d bytes, at most %d", ErrMalformed, len(data), MaxSize)
	}
	var s signed
	if err := canonical.Decode(data, &s); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if err := s.Document.check(); err != nil {
		return nil, err
	}
	message, err := s.Document.signedBytes()
	if err != nil {
		return nil, err
	}
	signature, err := base64.RawURLEncoding.Strict().DecodeString(s.Signature)
	if err != nil || !ed25519.Verify(s.Document.publicKey(), message, signature) {
		return nil, ErrSignature
	}
	return &s.Document, nil
}

// Fingerprint names the document's server key for people.
func (d *Document) Fingerprint() string { return Fingerprint(d.publicKey()) }

// Fingerprint names a server key for people: the hex SHA-256 of its 32 bytes.
func Fingerprint(key ed25519.PublicKey) string {
	sum := sha256.Sum256(key)
	return hex.EncodeToString(sum[:])
}

func (d *Document) signedBytes() ([]byte, error) {
	data, err := canonical.Marshal(d)
	if err != nil {
		return nil, err
	}
	return append([]byte(label), data...), nil
}

// publicKey is nil where the text is not a key.
func (d *Document) publicKey() ed25519.PublicKey {
	key, err := base64.RawURLEncoding.Strict().DecodeString(d.ServerKey)
	if err != nil || len(key) != ed25519.PublicKeySize {
		return nil
	}
	return key
}

// isText tells a name or key from what is none.
func isText(s string) bool {
	return s != "" && len(s) <= 2048 && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r >= 0x7f })
}

func (d *Document) check() error {
	switch {
	case !isOrigin(d.Origin, "https", "http"):
		return fmt.Errorf("%w: origin is not an http or https origin", ErrMalformed)
	case d.Schema != d.Origin+"/schemas/server/v1":
		return fmt.Errorf("%w: schema is not on the origin", ErrMalformed)
	case len(d.Name) > 100:
		return fmt.Errorf("%w: name is longer than 100 bytes", ErrMalformed)
	case d.Relay != "" && !isRelay(d.Relay):
		return fmt.Errorf("%w: relay is not a ws or wss URL", ErrMalformed)
	case d.Venue != nil && (!nostr.IsValid32ByteHex(d.Venue.PubKey) || len(d.Venue.Profiles) > 16):
		return fmt.Errorf("%w: venue", ErrMalformed)
	case d.Receipts != nil && (!isText(d.Receipts.Issuer) || !isText(d.Receipts.LogKey)):
		return fmt.Errorf("%w: receipts", ErrMalformed)
	case d.Carriers != nil && !areCarriers(d.Carriers):
		return fmt.Errorf("%w: carriers", ErrMalformed)
	case d.publicKey() == nil:
		return fmt.Errorf("%w: server_key is not 32 bytes in base64url", ErrMalformed)
	case d.IssuedAt.IsZero():
		return fmt.Errorf("%w: issued_at is missing", ErrMalformed)
	}
	return nil
}

// isOrigin reports whether s is scheme://host[:port] and nothing more (RFC 6454).
func isOrigin(s string, schemes ...string) bool {
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || u.User != nil {
		return false
	}
	for _, scheme := range schemes {
		if u.Scheme == scheme && s == scheme+"://"+u.Host {
			return true
		}
	}
	return false
}

func isRelay(s string) bool {
	u, err := url.Parse(s)
	return err == nil && u.Host != "" && u.User == nil && u.RawQuery == "" && u.Fragment == "" &&
		(u.Scheme == "ws" || u.Scheme == "wss")
}
