package keys

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// State says whether a key is in use. It is the end of the file's name.
type State string

// The states of a key. A purpose has at most one active and one next key, and
// any number of retired ones.
const (
	Active  State = "active"  // agent.<kid>: in use
	Next    State = "next"    // agent.<kid>.next: takes over at the next Rotate
	Retired State = "retired" // agent.<kid>.retired: was in use; never opened by purpose
)

// fileName is the only place where names of key files are made.
func fileName(p Purpose, kid string, s State) string {
	if s == Active {
		return string(p) + "." + kid
	}
	return string(p) + "." + kid + "." + string(s)
}

// parseName reads a name that fileName made.
func parseName(name string) (File, bool) {
	parts := strings.Split(name, ".")
	if len(parts) == 2 {
		parts = append(parts, string(Active))
	} else if len(parts) != 3 || parts[2] == string(Active) {
		return File{}, false
	}
	f := File{Purpose: Purpose(parts[0]), KID: parts[1], State: State(parts[2])}
	ok := slices.Contains(purposes, f.Purpose) && kidPattern.MatchString(f.KID) &&
		slices.Contains([]State{Active, Next, Retired}, f.State)
	return f, ok
}

// File names one key of a folder without opening it.
type File struct {
	// Purpose is what the key is for.
	Purpose Purpose
	// KID is the first 8 hex digits of SHA-256(public key).
	KID string
	// State is what the name says. A next key without an active one beside it
	// is in use all the same: see Rotate.
	State State
	// Path is where the file lies.
	Path string
}

// List names every key file of the folder, sorted by purpose, then KID. Files
// with other names (temporary ones, backups) are not keys and not listed.
func (d *Dir) List() ([]File, error) {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return nil, fmt.Errorf("listing keys: %w", err)
	}
	var files []File
	for _, entry := range entries {
		if file, ok := parseName(entry.Name()); ok {
			file.Path = filepath.Join(d.path, entry.Name())
			files = append(files, file)
		}
	}
	return files, nil
}

// only returns the one file of a purpose in a state: ErrNoKey, ErrAmbiguous,
// ErrPurpose.
func (d *Dir) only(p Purpose, s State) (File, error) {
	if !slices.Contains(purposes, p) {
		return File{}, fmt.Errorf("%w: %.20q", ErrPurpose, string(p))
	}
	files, err := d.List()
	if err != nil {
		return File{}, err
	}
	files = slices.DeleteFunc(files, func(f File) bool { return f.Purpose != p || f.State != s })
	switch len(files) {
	case 0:
		return File{}, fmt.Errorf("%w: %s, %s", ErrNoKey, p, s)
	case 1:
		return files[0], nil
	}
	return File{}, fmt.Errorf("%w: %s has %s and %s", ErrAmbiguous, p, files[0].Path, files[1].Path)
}

// find returns the file of the key in use: the active one, or the next one
// where a rotation was cut off between its two steps.
func (d *Dir) find(p Purpose) (File, error) {
	file, err := d.only(p, Active)
	if !errors.Is(err, ErrNoKey) {
		return file, err
	}
	if next, err := d.only(p, Next); !errors.Is(err, ErrNoKey) {
		return next, err
	}
	return File{}, fmt.Errorf("%w: %s", ErrNoKey, p)
}

// Next names the next key of a purpose without making one: ErrNoKey when there
// is none.
func (d *Dir) Next(p Purpose) (File, error) { return d.only(p, Next) }

// Rotate retires the active key of a purpose and makes the next one active.
// ErrNoKey when no next key was made.
//
// It has two steps, each one rename: active to retired, then next to active.
// Between them the next key counts as the one in use, so that at every moment,
// also after a crash, exactly one key is. Calling Rotate again completes a
// rotation that was cut off.
func (d *Dir) Rotate(p Purpose) (File, error) {
	var file File
	err := d.locked(func() (err error) {
		if _, err = d.only(p, Next); err != nil {
			return err
		}
		active, err := d.only(p, Active)
		if err == nil {
			_, err = d.move(active, Retired)
		}
		if err != nil && !errors.Is(err, ErrNoKey) {
			return err
		}
		file, err = d.settle(p)
		return err
	})
	return file, err
}

// settle makes a next key without an active one beside it active.
func (d *Dir) settle(p Purpose) (File, error) {
	file, err := d.find(p)
	if err != nil || file.State == Active {
		return file, err
	}
	return d.move(file, Active)
}

// move renames a key file to its name in another state.
func (d *Dir) move(f File, to State) (File, error) {
	if err := d.before(); err != nil {
		return f, err
	}
	path := filepath.Join(d.path, fileName(f.Purpose, f.KID, to))
	if err := os.Rename(f.Path, path); err != nil {
		return f, fmt.Errorf("renaming key: %w", err)
	}
	f.Path, f.State = path, to
	return f, d.sync()
}

// before gives tests the moment before each change.
func (d *Dir) before() error {
	if d.fault == nil {
		return nil
	}
	return d.fault()
}

// ensureNext opens the next key of a purpose; where there is none it makes one.
func ensureNext[K any, P interface {
	*K
	KID() string
}](d *Dir, p Purpose, parse func([]byte) (P, error), generate func() (P, error), store func(Purpose, P, State) error) (key P, err error) {
	err = d.locked(func() error {
		if _, err := d.settle(p); err != nil {
			return err
		}
		file, err := d.only(p, Next)
		if err == nil {
			key, err = openFile(file, parse)
			return err
		}
		if !errors.Is(err, ErrNoKey) {
			return err
		}
		if key, err = generate(); err != nil {
			return err
		}
		return store(p, key, Next)
	})
	if err != nil {
		return nil, err
	}
	return key, nil
}
