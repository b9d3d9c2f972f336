package disktest

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// Volume is a small file system in memory.
type Volume struct {
	Path string
}

// Mount makes a file system of a number of bytes for one test.
func Mount(t testing.TB, bytes int) *Volume {
	t.Helper()
	path, err := os.MkdirTemp("", "disktest-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(path) })
	if err := mount(path, bytes); err != nil {
		t.Skipf("no file system may be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := unmount(path); err != nil {
			t.Errorf("unmounting: %v", err)
		}
	})
	return &Volume{path}
}

func (v *Volume) ballast() string { return filepath.Join(v.Path, "ballast") }

// Fill takes all space but spare bytes.
func (v *Volume) Fill(t testing.TB, spare int64) {
	t.Helper()
	file, err := os.OpenFile(v.ballast(), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	block := make([]byte, 4096)
	for {
		left, err := free(v.Path)
		if err != nil {
			t.Fatal(err)
		}
		if left <= spare {
			return
		}
		if _, err := file.Write(block); errors.Is(err, syscall.ENOSPC) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// Empty gives the space back that Fill took.
func (v *Volume) Empty(t testing.TB) {
	t.Helper()
	if err := os.Remove(v.ballast()); err != nil {
		t.Fatal(err)
	}
}

// Scratch is a folder that is removed with the test, in memory where the
// system has such a place: images need no disk that syncs.
func Scratch(t testing.TB) string {
	t.Helper()
	path, err := os.MkdirTemp("/dev/shm", "disktest-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(path) })
	return path
}
