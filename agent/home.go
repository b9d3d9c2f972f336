package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/parleykit/parley/internal/filelock"
)

// Names inside a home folder.
const (
	databaseName   = "agent.db"
	socketName     = "agent.sock"
	lockName       = "agent.lock"
	keysName       = "keys"
	agreementsName = "agreements"
)

// DefaultHome is $PARLEY_HOME, else the folder "parley" in the user's data
// folder (XDG Base Directory on Linux).
func DefaultHome() (string, error) {
	if home := os.Getenv("PARLEY_HOME"); home != "" {
		return filepath.Abs(home)
	}
	if dir := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "parley"), nil
	}
	dir, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("finding the home folder: %w", err)
	}
	switch runtime.GOOS {
	case "darwin":
		return filepath.Join(dir, "Library", "Application Support", "parley"), nil
	case "windows":
		return filepath.Join(dir, "AppData", "Local", "parley"), nil
	default:
		return filepath.Join(dir, ".local", "share", "parley"), nil
	}
}

// SocketPath is where the daemon of a home listens.
func SocketPath(home string) string { return filepath.Join(home, socketName) }

// makeHome creates the folder for its owner alone and refuses a looser one: the
// socket inside is as private as the folder.
func makeHome(home string) error {
	if err := os.MkdirAll(home, 0o700); err != nil {
		return fmt.Errorf("creating the home folder: %w", err)
	}
	info, err := os.Stat(home)
	if err != nil {
		return fmt.Errorf("reading the home folder: %w", err)
	}
	if !info.IsDir() {
		return fmt.Errorf("home %s is not a folder", home)
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return unavailable("the home folder %s is open to others (mode %04o)", home, mode).
			hint("chmod 700 %s", home)
	}
	return nil
}

// ErrLocked says that another process holds the home.
var ErrLocked = errors.New("agent: the home is in use by another process")

// lock is held on a home for as long as the process may write to it.
type lock struct{ file *os.File }

// acquire takes the lock or returns ErrLocked at once.
func acquire(home string) (*lock, error) {
	path := filepath.Join(home, lockName)
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the lock file: %w", err)
	}
	if err := filelock.Try(file); err != nil {
		holder := readHolder(file)
		file.Close()
		if errors.Is(err, filelock.ErrHeld) {
			return nil, lockedBy(home, holder)
		}
		return nil, fmt.Errorf("locking the home: %w", err)
	}
	if err := file.Truncate(0); err == nil {
		_, _ = file.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	return &lock{file}, nil
}

func (l *lock) release() error { return l.file.Close() }

// readHolder is the process number in the file, for the message only.
func readHolder(file *os.File) string {
	data := make([]byte, 16)
	n, _ := file.ReadAt(data, 0)
	holder := strings.TrimSpace(string(data[:n]))
	if _, err := strconv.Atoi(holder); err != nil {
		return "unknown"
	}
	return holder
}

func lockedBy(home, holder string) *Error {
	e := unavailable("%w: %s is used by process %s", ErrLocked, home, holder)
	return e.hint("is `parley run` up already? otherwise wait until the other command ends")
}

// exists reports whether a file is there.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}
