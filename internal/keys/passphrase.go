package keys

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/nbd-wtf/go-nostr/nip49"

	"github.com/parleykit/parley/internal/durable"
)

// Errors of keys that are stored with a passphrase.
var (
	// ErrPassphraseMissing means that a key is stored with a passphrase and
	// none was given.
	ErrPassphraseMissing = errors.New("keys: the key needs its passphrase")
	// ErrPassphraseWrong means that a passphrase does not open a key.
	ErrPassphraseWrong = errors.New("keys: wrong passphrase")
	// ErrPassphrase means that a text cannot be a passphrase.
	ErrPassphrase = errors.New("keys: not a passphrase")
)

const (
	prefixEncrypted = "ncryptsec"
	// encryptedLength is that of 91 bytes in bech32: prefix, separator, 146
	// characters of data and 6 of checksum.
	encryptedLength = len(prefixEncrypted) + 1 + 146 + 6
	// defaultCost is LOG_N of new files: 64 MiB and about 100 ms.
	defaultCost = 16
	// maxCost is the largest LOG_N that is worked on: 1 GiB.
	maxCost = 20
	// maxPassphrase bounds a passphrase, in bytes.
	maxPassphrase = 1024
	// charset is the alphabet of bech32 (BIP-173).
	charset = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"
)

// Passphrase opens keys that are stored encrypted (NIP-49). The zero value is
// none. Printing, logging or encoding it shows nothing of it.
type Passphrase struct{ text func() string }

// ParsePassphrase takes one line of 1 to 1024 bytes of UTF-8. NIP-49 makes it
// NFKC, so that it does not matter how its characters were typed.
func ParsePassphrase(text string) (Passphrase, error) {
	if text == "" || len(text) > maxPassphrase || !utf8.ValidString(text) || strings.ContainsAny(text, "\r\n\x00") {
		return Passphrase{}, fmt.Errorf("%w: want one line of 1 to %d bytes of UTF-8", ErrPassphrase, maxPassphrase)
	}
	return Passphrase{func() string { return text }}, nil
}

// ReadPassphrase reads a passphrase from a file with one line. ErrPermissions
// when the group or others may read it.
func ReadPassphrase(path string) (Passphrase, error) {
	text, err := File{Path: path}.read()
	if err != nil {
		return Passphrase{}, fmt.Errorf("reading passphrase: %w", err)
	}
	text, _ = bytes.CutSuffix(text, []byte("\n"))
	text, _ = bytes.CutSuffix(text, []byte("\r"))
	return ParsePassphrase(string(text))
}

// IsSet tells whether there is a passphrase.
func (p Passphrase) IsSet() bool { return p.text != nil }

// String shows nothing of the passphrase.
func (Passphrase) String() string { return "<passphrase>" }

// GoString shows nothing of the passphrase.
func (Passphrase) GoString() string { return "<passphrase>" }

// Format shows nothing of the passphrase, whatever the verb.
func (p Passphrase) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(p.String())) }

// LogValue shows nothing of the passphrase.
func (p Passphrase) LogValue() slog.Value { return slog.StringValue(p.String()) }

// MarshalText shows nothing of the passphrase.
func (p Passphrase) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// WithPassphrase is the same folder with a passphrase: encrypted Nostr keys are
// opened with it, and Nostr keys that are made or imported are stored with it.
func (d *Dir) WithPassphrase(p Passphrase) *Dir {
	with := *d
	with.passphrase = p
	return &with
}

// SetPassphrase stores every Nostr key of a purpose, whatever its state, with
// another passphrase, or in clear where p is not set. Each file is replaced in
// one step; calling it again completes a change that was cut off.
func (d *Dir) SetPassphrase(purpose Purpose, p Passphrase) error {
	return d.locked(func() error {
		if _, err := d.find(purpose); err != nil {
			return err
		}
		files, err := d.List()
		if err != nil {
			return err
		}
		files = slices.DeleteFunc(files, func(f File) bool { return f.Purpose != purpose })
		opened := make([]*Nostr, len(files))
		for i, file := range files {
			if opened[i], err = openFile(file, d.parseFile); errors.Is(err, ErrPassphraseWrong) && p.IsSet() {
				opened[i], err = openFile(file, d.WithPassphrase(p).parseFile)
			}
			if err != nil {
				return err
			}
		}
		for i, file := range files {
			if err := d.WithPassphrase(p).storeNostr(purpose, opened[i], file.State); err != nil {
				return err
			}
		}
		return nil
	})
}

// Encrypted tells whether a passphrase is needed to open the file.
func (f File) Encrypted() (bool, error) {
	text, err := f.read()
	return isEncrypted(string(text)), err
}

// Export writes a backup of the key to a new file of mode 0600: an ncryptsec
// where p is set, else an nsec. It is durable when Export returns. ErrExists
// when there is a file already.
func (n Nostr) Export(path string, p Passphrase) error {
	text, err := n.file(p, defaultCost)
	if err != nil {
		return err
	}
	err = durable.WriteNew(path, text)
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("%w: %s", ErrExists, path)
	}
	if err != nil {
		return fmt.Errorf("writing backup: %w", err)
	}
	return (&Dir{path: filepath.Dir(path)}).sync()
}

// file is the content of a key file.
func (n Nostr) file(p Passphrase, cost uint8) ([]byte, error) {
	if !p.IsSet() {
		return []byte(encodeNIP19(prefixSecret, n.secret()) + "\n"), nil
	}
	text, err := nip49.Encrypt(n.secret(), p.text(), cost, nip49.ClientDoesNotTrackThisData)
	if err != nil {
		return nil, errors.New("keys: encrypting key") // the cause may show the secret
	}
	return []byte(text + "\n"), nil
}

func isEncrypted(text string) bool {
	return strings.HasPrefix(strings.ToLower(strings.TrimSpace(text)), prefixEncrypted+"1")
}

// decrypt opens an ncryptsec. Its form and its cost are checked before any
// work is done: the library would trust both.
func decrypt(text string, p Passphrase) (*Nostr, error) {
	text = strings.TrimSpace(text)
	if len(text) != encryptedLength || text != strings.ToLower(text) {
		return nil, fmt.Errorf("%w: not an ncryptsec", ErrMalformed)
	}
	version, cost, ok := encryptedHead(text[len(prefixEncrypted)+1:])
	switch {
	case !ok || version != 2:
		return nil, fmt.Errorf("%w: not an ncryptsec of version 2", ErrMalformed)
	case cost < 1 || cost > maxCost:
		return nil, fmt.Errorf("%w: LOG_N of the ncryptsec is %d, not 1 to %d", ErrMalformed, cost, maxCost)
	case !p.IsSet():
		return nil, ErrPassphraseMissing
	}
	secret, err := nip49.Decrypt(text, p.text())
	switch {
	case err == nil:
		return newNostr(secret)
	case strings.Contains(err.Error(), "authentication failed"):
		return nil, ErrPassphraseWrong
	default:
		return nil, fmt.Errorf("%w: ncryptsec is mistyped", ErrMalformed)
	}
}

// encryptedHead reads the first two bytes, 16 bits of the first 20.
func encryptedHead(data string) (version, cost byte, ok bool) {
	head := 0
	for _, c := range []byte(data[:4]) {
		at := strings.IndexByte(charset, c)
		if at < 0 {
			return 0, 0, false
		}
		head = head<<5 | at
	}
	return byte(head >> 12), byte(head >> 4), true
}
