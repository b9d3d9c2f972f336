package logproof

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/mod/sumdb/note"

	"github.com/parleykit/parley/protocol/receipt"
)

// The types of keys, from the tables of C2SP signed-note and tlog-cosignature.
const (
	algLog     = 0x01 // Ed25519 over the note's text
	algWitness = 0x04 // Ed25519 over cosignature/v1, a time and the text
)

// maxName bounds the name of a key and the origin of a log, in bytes.
const maxName = 256

// timestampSize is the length of the time before a witness's signature.
const timestampSize = 8

// Key is the public Ed25519 key of a log or of a witness, with its name. The
// zero value is no key and verifies nothing. Keys are comparable.
type Key struct {
	name   string
	alg    byte
	public [ed25519.PublicKeySize]byte
}

var _ note.Verifier = Key{}

// LogKey is the key by which a log signs its checkpoints; name is its origin.
// ErrMalformed, as of all that make a Key.
func LogKey(name string, public ed25519.PublicKey) (Key, error) {
	return newKey(name, algLog, public)
}

// WitnessKey is a key by which a witness cosigns checkpoints of any log.
func WitnessKey(name string, public ed25519.PublicKey) (Key, error) {
	return newKey(name, algWitness, public)
}

func newKey(name string, alg byte, public []byte) (Key, error) {
	k := Key{name: name, alg: alg}
	if !validName(name) || len(public) != len(k.public) {
		return Key{}, fmt.Errorf("%w: key %.60q", ErrMalformed, name)
	}
	// Under a weak key there are signatures of texts that nobody signed.
	if _, err := receipt.NewJWK(public, "").PublicKey(); err != nil {
		return Key{}, fmt.Errorf("%w: key %.60q: %w", ErrMalformed, name, err)
	}
	copy(k.public[:], public)
	return k, nil
}

// validName is the rule of C2SP signed-note for names, which an origin obeys
// as well since it is one.
func validName(name string) bool {
	return name != "" && len(name) <= maxName && utf8.ValidString(name) &&
		!strings.ContainsFunc(name, func(r rune) bool { return r == '+' || unicode.IsSpace(r) || unicode.IsControl(r) })
}

// ParseKey reads the one-line form of a key, C2SP's vkey: the name, the key id
// in 8 hex digits, and the type and key in base64, with a plus between them.
// ErrMalformed.
func ParseKey(text string) (Key, error) {
	name, rest, _ := strings.Cut(text, "+")
	_, encoded, _ := strings.Cut(rest, "+")
	if len(encoded) > 2*ed25519.PublicKeySize {
		return Key{}, fmt.Errorf("%w: long key", ErrMalformed)
	}
	material, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil || len(material) == 0 || material[0] != algLog && material[0] != algWitness {
		return Key{}, fmt.Errorf("%w: key %.60q is of no known type", ErrMalformed, name)
	}
	k, err := newKey(name, material[0], material[1:])
	if err == nil && k.String() != text {
		err = fmt.Errorf("%w: key %.60q has another id", ErrMalformed, name)
	}
	if err != nil {
		return Key{}, err
	}
	return k, nil
}

// String is the form that ParseKey reads.
func (k Key) String() string {
	return fmt.Sprintf("%s+%08x+%s", k.name, k.KeyHash(), base64.StdEncoding.EncodeToString(k.material()))
}

func (k Key) material() []byte { return append([]byte{k.alg}, k.public[:]...) }

// Name is the name by which signature lines call the key.
func (k Key) Name() string { return k.name }

// IsWitness tells a witness's key from a log's.
func (k Key) IsWitness() bool { return k.alg == algWitness }

// KeyHash is the id of the key in signature lines.
func (k Key) KeyHash() uint32 {
	sum := sha256.Sum256(append([]byte(k.name+"\n"), k.material()...))
	return binary.BigEndian.Uint32(sum[:])
}

// Verify checks the signature of one line over the text of a note.
func (k Key) Verify(text, signature []byte) bool {
	switch {
	case k.alg == algLog:
		return len(signature) == ed25519.SignatureSize && ed25519.Verify(k.public[:], text, signature)
	case k.alg == algWitness && len(signature) == timestampSize+ed25519.SignatureSize:
		at := binary.BigEndian.Uint64(signature)
		return at < 1<<63 && ed25519.Verify(k.public[:], cosigned(string(text), at), signature[timestampSize:])
	}
	return false
}

// cosigned is the message that a witness signs (C2SP tlog-cosignature).
func cosigned(text string, at uint64) []byte {
	return []byte("cosignature/v1\ntime " + strconv.FormatUint(at, 10) + "\n" + text)
}

// Sign makes the signature line of a key over the text of a checkpoint, with
// its line end. at, to the second, is the time in the cosignature of a witness;
// a log's signature has none. ErrMalformed where signer has another key; else the
// error of signer.
func Sign(text string, k Key, signer crypto.Signer, at time.Time) (line string, err error) {
	if public, ok := signer.Public().(ed25519.PublicKey); !ok || !bytes.Equal(public, k.public[:]) {
		return "", fmt.Errorf("%w: signer of %.60q has another key", ErrMalformed, k.name)
	}
	message, stamp := []byte(text), []byte(nil)
	if k.IsWitness() {
		if at.Unix() < 0 {
			return "", fmt.Errorf("%w: time before 1970", ErrMalformed)
		}
		stamp = binary.BigEndian.AppendUint64(nil, uint64(at.Unix()))
		message = cosigned(text, uint64(at.Unix()))
	}
	signature, err := signer.Sign(nil, message, crypto.Hash(0))
	if err != nil {
		return "", fmt.Errorf("signing checkpoint: %w", err)
	}
	payload := append(append(binary.BigEndian.AppendUint32(nil, k.KeyHash()), stamp...), signature...)
	return "\u2014 " + k.name + " " + base64.StdEncoding.EncodeToString(payload) + "\n", nil
}
