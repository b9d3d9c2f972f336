package keys

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"

	"github.com/parleykit/parley/internal/durable"
	"github.com/parleykit/parley/internal/filelock"
)

// Purpose says what a key is for; it is the first part of the file's name.
type Purpose string

// The purposes of docs/keys.md.
const (
	Agent      Purpose = "agent"
	Venue      Purpose = "venue"
	Issuer     Purpose = "issuer"
	Attester   Purpose = "attester"
	Checkpoint Purpose = "checkpoint"
	OPRF       Purpose = "oprf"
	DKIM       Purpose = "dkim"
	Token      Purpose = "token"
	Undo       Purpose = "undo"
	Slot       Purpose = "slot"
	Server     Purpose = "server"
	Witness    Purpose = "witness"
	Bridge     Purpose = "bridge"
)

var purposes = []Purpose{Agent, Venue, Issuer, Attester, Checkpoint, OPRF, DKIM, Token, Undo, Slot, Server, Witness, Bridge}

// Errors of this package. None of them ever carries a secret.
var (
	// ErrNoKey means that the folder holds no key of the purpose asked for.
	ErrNoKey = errors.New("keys: no such key")
	// ErrExists means that an import would stand beside another key.
	ErrExists = errors.New("keys: there is one already")
	// ErrAmbiguous means that two files claim the same purpose.
	ErrAmbiguous = errors.New("keys: more than one key of this purpose")
	// ErrPermissions means that the group or others may read a key.
	ErrPermissions = errors.New("keys: readable by others than its owner")
	// ErrPurpose means that a purpose is not in the table of docs/keys.md.
	ErrPurpose = errors.New("keys: unknown purpose")
	// ErrMalformed means that a key file or an imported key is not a key of
	// the kind asked for, or does not match its file name.
	ErrMalformed = errors.New("keys: malformed key")
)

// maxFile bounds what is read from a key file.
const maxFile = 4096

// kidPattern is the second part of a key file's name.
var kidPattern = regexp.MustCompile(`^[0-9a-f]{8}$`)

// Dir is a folder of keys.
type Dir struct {
	path       string
	passphrase Passphrase   // of Nostr keys; unset stores them in clear
	cost       uint8        // log2 of the scrypt cost of new passphrase files
	fault      func() error // tests stop an operation before each change with it
}

// Open opens the folder at path, making it (mode 0700) when it is missing.
// ErrPermissions when it exists and others than its owner may enter it.
func Open(path string) (*Dir, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("making key folder: %w", err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("opening key folder: %w", err)
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("opening key folder %s: not a folder", path)
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return nil, fmt.Errorf("%w: folder %s has mode %04o, want 0700", ErrPermissions, path, mode)
	}
	return &Dir{path: path, cost: defaultCost}, nil
}

// Path is the folder's path as it was given to Open.
func (d *Dir) Path() string { return d.path }

// open reads the active key of a purpose.
func open[K interface{ KID() string }](d *Dir, p Purpose, parse func([]byte) (K, error)) (K, error) {
	for try := 1; ; try++ {
		file, err := d.find(p)
		if err != nil {
			var none K
			return none, err
		}
		key, err := openFile(file, parse)
		if !errors.Is(err, fs.ErrNotExist) || try == 3 {
			return key, err
		} // another process has renamed it since it was listed
	}
}

// openFile reads one key and holds it against its file name.
func openFile[K interface{ KID() string }](file File, parse func([]byte) (K, error)) (K, error) {
	var none K
	text, err := file.read()
	if err != nil {
		return none, err
	}
	key, err := parse(text)
	if err != nil {
		return none, fmt.Errorf("reading %s: %w", file.Path, err)
	}
	if key.KID() != file.KID {
		return none, fmt.Errorf("%w: %s holds the key %s", ErrMalformed, file.Path, key.KID())
	}
	return key, nil
}

// ensure opens the key of a purpose; where there is none it makes one under the
// lock, after looking again, so that two processes end with the same key.
func ensure[K any](d *Dir, p Purpose, open func(Purpose) (*K, error), generate func() (*K, error), store func(Purpose, *K, State) error) (key *K, err error) {
	if key, err = open(p); !errors.Is(err, ErrNoKey) {
		return key, err
	}
	err = d.locked(func() error {
		if key, err = open(p); !errors.Is(err, ErrNoKey) {
			return err
		}
		if key, err = generate(); err != nil {
			return err
		}
		return store(p, key, Active)
	})
	if err != nil {
		return nil, err
	}
	return key, nil
}

// read returns the text of a key file after checking who may read it.
func (f File) read() ([]byte, error) {
	before, err := os.Lstat(f.Path)
	if err != nil {
		return nil, fmt.Errorf("opening key: %w", err)
	}
	if !before.Mode().IsRegular() {
		return nil, fmt.Errorf("%w: %s is not a regular file", ErrMalformed, f.Path)
	}
	file, err := os.Open(f.Path)
	if err != nil {
		return nil, fmt.Errorf("opening key: %w", err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, fmt.Errorf("opening key: %w", err)
	}
	if err := checkFile(info, before, f.Path); err != nil {
		return nil, err
	}
	text := make([]byte, info.Size())
	if _, err := file.ReadAt(text, 0); err != nil {
		return nil, fmt.Errorf("reading key: %w", err)
	}
	return text, nil
}

func checkFile(info, before fs.FileInfo, path string) error {
	if !os.SameFile(info, before) {
		return fmt.Errorf("%w: %s changed while it was opened", ErrMalformed, path)
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return fmt.Errorf("%w: %s has mode %04o, want 0600", ErrPermissions, path, mode)
	}
	if info.Size() == 0 || info.Size() > maxFile {
		return fmt.Errorf("%w: %s has %d bytes", ErrMalformed, path, info.Size())
	}
	return nil
}

// create writes a key file: temporary name, fsync, rename, fsync of the folder.
// A file of that name is replaced.
func (d *Dir) create(name string, text []byte) error {
	if err := d.before(); err != nil {
		return err
	}
	temp, err := os.CreateTemp(d.path, ".new-*")
	if err != nil {
		return fmt.Errorf("writing key: %w", err)
	}
	defer os.Remove(temp.Name())
	if err := errors.Join(writeSynced(temp, text), temp.Close()); err != nil {
		return fmt.Errorf("writing key: %w", err)
	}
	if err := os.Rename(temp.Name(), filepath.Join(d.path, name)); err != nil {
		return fmt.Errorf("writing key: %w", err)
	}
	return d.sync()
}

func writeSynced(file *os.File, text []byte) error {
	if err := file.Chmod(0o600); err != nil {
		return err
	}
	if _, err := file.Write(text); err != nil {
		return err
	}
	return file.Sync()
}

// sync makes a rename in the folder durable.
func (d *Dir) sync() error {
	if err := durable.SyncFolder(d.path); err != nil {
		return fmt.Errorf("syncing key folder: %w", err)
	}
	return nil
}

// locked runs fn while no other process changes the folder.
func (d *Dir) locked(fn func() error) error {
	file, err := os.OpenFile(filepath.Join(d.path, ".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("locking key folder: %w", err)
	}
	defer file.Close()
	if err := filelock.Wait(file); err != nil {
		return fmt.Errorf("locking key folder: %w", err)
	}
	return fn()
}
