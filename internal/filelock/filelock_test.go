package filelock

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func open(t *testing.T, path string) *os.File {
	t.Helper()
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	return file
}

func TestALockKeepsOthersOutUntilItsFileIsClosed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first, second := open(t, path), open(t, path)
	if err := Try(first); err != nil {
		t.Fatal(err)
	}
	if err := Try(second); !errors.Is(err, ErrHeld) {
		t.Fatalf("the second Try = %v, want ErrHeld", err)
	}
	waited := make(chan error, 1)
	go func() { waited <- Wait(second) }()
	select {
	case err := <-waited:
		t.Fatalf("Wait came back with %v while the lock was held", err)
	default:
	}
	first.Close()
	if err := <-waited; err != nil {
		t.Errorf("Wait = %v", err)
	}
}
