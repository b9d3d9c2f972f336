package keys

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/nbd-wtf/go-nostr"
	"github.com/nbd-wtf/go-nostr/nip44"
)

// groupOrder is the order n of secp256k1; a secret lies between 1 and n-1.
const groupOrder = "fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141"

// Nostr is a secp256k1 key that signs Nostr events. Printing, logging or
// encoding it shows its npub only.
type Nostr struct {
	public string // 64 lowercase hex digits, x-only
	npub   string
	// secret is a function so that printing a struct around a Nostr, where fmt
	// may not call methods, shows an address at most: 64 lowercase hex digits.
	secret func() string
}

// newNostr checks a secret of 64 lowercase hex digits. Errors do not show it.
func newNostr(secret string) (*Nostr, error) {
	if raw, err := hex.DecodeString(secret); err != nil || len(raw) != 32 || strings.ToLower(secret) != secret {
		return nil, fmt.Errorf("%w: a Nostr secret is 32 bytes", ErrMalformed)
	}
	if secret >= groupOrder || secret == strings.Repeat("0", 64) {
		return nil, fmt.Errorf("%w: a Nostr secret lies between 1 and the group order", ErrMalformed)
	}
	public, err := nostr.GetPublicKey(secret)
	if err != nil {
		return nil, fmt.Errorf("%w: no public key", ErrMalformed)
	}
	return &Nostr{public: public, npub: encodeNIP19(prefixPublic, public), secret: func() string { return secret }}, nil
}

// GenerateNostr makes a key from crypto/rand that is kept nowhere.
func GenerateNostr() (*Nostr, error) {
	var raw [32]byte
	for {
		rand.Read(raw[:]) // never fails: crypto/rand ends the program instead
		if key, err := newNostr(hex.EncodeToString(raw[:])); err == nil {
			return key, nil
		}
	}
}

// ParseNostr reads a secret as nsec (NIP-19) or as 64 hex digits. ErrMalformed
// without the input otherwise.
func ParseNostr(text string) (*Nostr, error) {
	text = strings.TrimSpace(text)
	if len(text) > 128 {
		return nil, fmt.Errorf("%w: want nsec1… or 64 hex digits", ErrMalformed)
	}
	if !strings.HasPrefix(strings.ToLower(text), prefixSecret+"1") {
		return newNostr(strings.ToLower(text))
	}
	secret, err := decodeNIP19(prefixSecret, text)
	if err != nil {
		return nil, err
	}
	return newNostr(secret)
}

// ParsePublic reads a public key as npub (NIP-19) or as 64 hex digits and
// returns 64 lowercase hex digits. ErrMalformed when it is no point of the
// curve.
func ParsePublic(text string) (string, error) {
	text = strings.TrimSpace(text)
	if len(text) > 128 {
		return "", fmt.Errorf("%w: want npub1… or 64 hex digits", ErrMalformed)
	}
	public := strings.ToLower(text)
	if strings.HasPrefix(public, prefixPublic+"1") {
		decoded, err := decodeNIP19(prefixPublic, text)
		if err != nil {
			return "", err
		}
		public = decoded
	}
	if len(public) != 64 || !nostr.IsValidPublicKey(public) {
		return "", fmt.Errorf("%w: want npub1… or 64 hex digits", ErrMalformed)
	}
	return public, nil
}

// Nostr opens the key of a purpose. ErrNoKey when there is none.
// ErrPassphraseMissing or ErrPassphraseWrong when it is stored with another
// passphrase than that of the Dir.
func (d *Dir) Nostr(p Purpose) (*Nostr, error) { return open(d, p, d.parseFile) }

// OpenNostr opens one key that List named, whatever its state.
func (d *Dir) OpenNostr(f File) (*Nostr, error) { return openFile(f, d.parseFile) }

// parseFile reads what a key file holds: an nsec or an ncryptsec, never bare
// hex.
func (d *Dir) parseFile(text []byte) (*Nostr, error) {
	if isEncrypted(string(text)) {
		return decrypt(string(text), d.passphrase)
	}
	if !strings.HasPrefix(string(text), prefixSecret+"1") {
		return nil, fmt.Errorf("%w: no nsec", ErrMalformed)
	}
	return ParseNostr(string(text))
}

// EnsureNostr opens the key of a purpose and makes one when there is none.
func (d *Dir) EnsureNostr(p Purpose) (*Nostr, error) {
	return ensure(d, p, d.Nostr, GenerateNostr, d.storeNostr)
}

// NextNostr opens the key that will follow the active one at the next Rotate,
// and makes it when there is none. ErrNoKey when there is no active key.
func (d *Dir) NextNostr(p Purpose) (*Nostr, error) {
	return ensureNext(d, p, d.parseFile, GenerateNostr, d.storeNostr)
}

// ImportNostr stores a secret given as nsec, as 64 hex digits, or as ncryptsec
// of the Dir's passphrase. Importing the key that is already there changes
// nothing; ErrExists when another one is.
func (d *Dir) ImportNostr(p Purpose, secret string) (*Nostr, error) {
	key, err := d.parseSecret(secret)
	if err != nil {
		return nil, err
	}
	err = d.locked(func() error {
		present, err := d.find(p)
		switch {
		case errors.Is(err, ErrNoKey):
			return d.storeNostr(p, key, Active)
		case err != nil:
			return err
		case present.KID != key.KID():
			return fmt.Errorf("%w: %s", ErrExists, present.Path)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return key, nil
}

func (d *Dir) parseSecret(secret string) (*Nostr, error) {
	if isEncrypted(secret) {
		return decrypt(secret, d.passphrase)
	}
	return ParseNostr(secret)
}

func (d *Dir) storeNostr(p Purpose, key *Nostr, s State) error {
	text, err := key.file(d.passphrase, d.cost)
	if err != nil {
		return err
	}
	return d.create(fileName(p, key.KID(), s), text)
}

// PublicKey is the x-only public key, 64 lowercase hex digits.
func (n Nostr) PublicKey() string { return n.public }

// NPub is the public key in the form of NIP-19.
func (n Nostr) NPub() string { return n.npub }

// KID is the first 8 hex digits of SHA-256 over the 32 bytes of the public key.
func (n Nostr) KID() string {
	raw, _ := hex.DecodeString(n.public)
	return kid(raw)
}

// Sign sets the event's PubKey, ID and Sig (NIP-01). An event that names
// another public key is refused.
func (n Nostr) Sign(ev *nostr.Event) error {
	if ev.PubKey != "" && ev.PubKey != n.public {
		return fmt.Errorf("keys: signing event of another key")
	}
	if err := ev.Sign(n.secret()); err != nil {
		return fmt.Errorf("keys: signing event") // the cause may show the secret
	}
	return nil
}

// ConversationKey is the NIP-44 version 2 key shared with peer (64 lowercase
// hex digits). ErrMalformed when peer is no public key.
func (n Nostr) ConversationKey(peer string) ([32]byte, error) {
	if len(peer) != 64 || !nostr.IsValidPublicKey(peer) {
		return [32]byte{}, fmt.Errorf("%w: peer is not a public key", ErrMalformed)
	}
	shared, err := nip44.GenerateConversationKey(peer, n.secret())
	if err != nil {
		return [32]byte{}, fmt.Errorf("%w: no shared key with peer", ErrMalformed) // the cause may show the secret
	}
	return shared, nil
}

// String shows the public key only.
func (n Nostr) String() string { return n.npub }

// GoString shows the public key only.
func (n Nostr) GoString() string { return "keys.Nostr(" + n.npub + ")" }

// Format shows the public key only, whatever the verb.
func (n Nostr) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(n.String())) }

// LogValue shows the public key only.
func (n Nostr) LogValue() slog.Value { return slog.StringValue(n.npub) }

// MarshalText shows the public key only.
func (n Nostr) MarshalText() ([]byte, error) { return []byte(n.npub), nil }

// kid is the first 8 hex digits of SHA-256(public key).
func kid(public []byte) string {
	sum := sha256.Sum256(public)
	return hex.EncodeToString(sum[:4])
}
