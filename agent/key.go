package agent

import (
	"errors"
	"path/filepath"

	"github.com/parleykit/parley/internal/keys"
)

// Key is one key file of a home. The secret is in none of its members.
type Key struct {
	KID       string `json:"kid"`            // first 8 hex digits of SHA-256(public key)
	State     string `json:"state"`          // active, next or retired
	NPub      string `json:"npub,omitempty"` // "" where the passphrase is missing or wrong
	Encrypted bool   `json:"encrypted"`      // stored with a passphrase (NIP-49)
	File      string `json:"file"`
}

// Keyring is the key folder of a home without the agent around it.
type Keyring struct {
	folder *keys.Dir
	lock   *lock // nil when opened for reading
}

// ReadKeys opens the keys of a home for Keys alone; a daemon may be up.
func ReadKeys(home, passphraseFile string) (*Keyring, error) {
	if !exists(filepath.Join(home, keysName)) {
		return nil, notFound("there are no keys in %s", home).hint("parley init --server URL, or parley key import FILE")
	}
	return openKeys(home, passphraseFile)
}

// OpenKeys opens the keys of a home, which it makes where it is missing, and
// takes the home's lock. Close gives it back.
func OpenKeys(home, passphraseFile string) (*Keyring, error) {
	if err := makeHome(home); err != nil {
		return nil, err
	}
	held, err := acquire(home)
	if errors.Is(err, ErrLocked) {
		return nil, unavailable("%w", err).hint("stop `parley run`, or wait until the other command ends")
	}
	if err != nil {
		return nil, err
	}
	ring, err := openKeys(home, passphraseFile)
	if err != nil {
		return nil, errors.Join(err, held.release())
	}
	ring.lock = held
	return ring, nil
}

func openKeys(home, passphraseFile string) (*Keyring, error) {
	folder, err := openKeyFolder(home, passphraseFile)
	if err != nil {
		return nil, err
	}
	return &Keyring{folder: folder}, nil
}

// openKeyFolder opens the key folder of a home with the passphrase of a file,
// if one is named.
func openKeyFolder(home, passphraseFile string) (*keys.Dir, error) {
	folder, err := keys.Open(filepath.Join(home, keysName))
	if err != nil {
		return nil, keyProblem(err)
	}
	if passphraseFile == "" {
		return folder, nil
	}
	passphrase, err := readPassphrase(passphraseFile)
	if err != nil {
		return nil, err
	}
	return folder.WithPassphrase(passphrase), nil
}

func readPassphrase(file string) (keys.Passphrase, error) {
	passphrase, err := keys.ReadPassphrase(file)
	if err != nil {
		return passphrase, keyProblem(err)
	}
	return passphrase, nil
}

// Close gives the home back.
func (k *Keyring) Close() error {
	if k.lock == nil {
		return nil
	}
	return k.lock.release()
}

// Keys lists the agent's keys in all states.
func (k *Keyring) Keys() ([]Key, error) {
	files, err := k.folder.List()
	if err != nil {
		return nil, keyProblem(err)
	}
	list := []Key{}
	for _, file := range files {
		if file.Purpose != keys.Agent {
			continue
		}
		shown := Key{KID: file.KID, State: string(file.State), File: file.Path}
		if shown.Encrypted, err = file.Encrypted(); err != nil {
			return nil, keyProblem(err)
		}
		key, err := k.folder.OpenNostr(file)
		switch {
		case err == nil:
			shown.NPub = key.NPub()
		case !errors.Is(err, keys.ErrPassphraseMissing) && !errors.Is(err, keys.ErrPassphraseWrong):
			return nil, keyProblem(err)
		}
		list = append(list, shown)
	}
	return list, nil
}

// Import stores a secret, given as nsec, ncryptsec or 64 hex digits, as the key
// of a home without one. It returns the npub.
func (k *Keyring) Import(secret string) (string, error) {
	key, err := k.folder.ImportNostr(keys.Agent, secret)
	if err != nil {
		return "", keyProblem(err)
	}
	return key.NPub(), nil
}

// Export writes a backup of the active key to a new file: an ncryptsec where
// passphraseFile names a passphrase, else an nsec. It returns the npub.
func (k *Keyring) Export(path, passphraseFile string) (string, error) {
	var passphrase keys.Passphrase
	if passphraseFile != "" {
		var err error
		if passphrase, err = readPassphrase(passphraseFile); err != nil {
			return "", err
		}
	}
	key, err := k.folder.Nostr(keys.Agent)
	if err != nil {
		return "", keyProblem(err)
	}
	if err := key.Export(path, passphrase); err != nil {
		return "", keyProblem(err)
	}
	return key.NPub(), nil
}

// SetPassphrase stores the agent's keys with the passphrase of a file, or in
// clear where none is named.
func (k *Keyring) SetPassphrase(passphraseFile string) error {
	var passphrase keys.Passphrase
	if passphraseFile != "" {
		var err error
		if passphrase, err = readPassphrase(passphraseFile); err != nil {
			return err
		}
	}
	return keyProblem(k.folder.SetPassphrase(keys.Agent, passphrase))
}

// keyProblem says in the terms of an operation why a key cannot be used.
func keyProblem(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, keys.ErrPassphraseMissing):
		return unavailable("the agent's key is stored with a passphrase: %w", err).
			hint("name the file that holds it: --passphrase-file FILE or PARLEY_PASSPHRASE_FILE")
	case errors.Is(err, keys.ErrPassphraseWrong):
		return refused("the passphrase does not open the agent's key: %w", err)
	case errors.Is(err, keys.ErrExists):
		return refused("nothing is replaced: %w", err)
	case errors.Is(err, keys.ErrNoKey):
		return notFound("this home has no key: %w", err).hint("parley init --server URL, or parley key import FILE")
	case errors.Is(err, keys.ErrMalformed):
		return invalid("%w", err).hint("the file of a key holds nsec1…, ncryptsec1… or 64 hex digits, and nothing else")
	case errors.Is(err, keys.ErrPassphrase):
		return invalid("%w", err)
	default:
		return unavailable("using the keys: %w", err)
	}
}
