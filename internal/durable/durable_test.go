package durable_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/parleykit/parley/internal/durable"
)

func TestWriteNew_makesAFileForItsOwnerAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := durable.WriteNew(path, []byte("text")); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode() != 0o600 || info.Size() != 4 {
		t.Errorf("file: %v, %v", info, err)
	}
}

func TestWriteNew_replacesNothingAndFollowsNoLink(t *testing.T) {
	folder := t.TempDir()
	path, link, target := filepath.Join(folder, "file"), filepath.Join(folder, "link"), filepath.Join(folder, "target")
	if err := errors.Join(os.WriteFile(path, []byte("old"), 0o600), os.Symlink(target, link)); err != nil {
		t.Fatal(err)
	}
	for _, taken := range []string{path, link} {
		if err := durable.WriteNew(taken, []byte("new")); !errors.Is(err, fs.ErrExist) {
			t.Errorf("%s: %v", taken, err)
		}
	}
	if text, err := os.ReadFile(path); string(text) != "old" {
		t.Errorf("the old file holds %q, %v", text, err)
	}
	if _, err := os.Stat(target); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a link was followed: %v", err)
	}
}

func TestSyncFolder_needsAFolder(t *testing.T) {
	folder := t.TempDir()
	if err := durable.SyncFolder(folder); err != nil {
		t.Error(err)
	}
	if err := durable.SyncFolder(filepath.Join(folder, "nowhere")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a folder that is not there: %v", err)
	}
}
