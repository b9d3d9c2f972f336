package main

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/parleykit/parley/internal/config"
	"github.com/parleykit/parley/internal/durable"
	"github.com/parleykit/parley/protocol/canonical"
)

// Limits of an archive that is restored.
const (
	maxManifest = 16 << 20 // bytes
	maxFiles    = 100_000
)

// restoreFolder holds what is not verified yet. A data folder that has it is
// not whole, and no server starts there.
const restoreFolder = ".restore"

// restoredName is what a backup may hold beside its manifest.
var restoredName = regexp.MustCompile(`^(parley\.db|keys/[A-Za-z0-9][A-Za-z0-9._-]*|relay(/[A-Za-z0-9][A-Za-z0-9._-]*){1,4})$`)

// restore fills an empty data folder from an archive. Everything is written
// aside and verified first; nothing is in its place before all is.
func restore(_ context.Context, cfg *config.Config, path string, stdout io.Writer) error {
	if want := "sqlite:" + filepath.Join(cfg.Data, backupDatabase); cfg.DatabaseURL() != want {
		return fmt.Errorf("the database must be %s for this", want)
	}
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := os.MkdirAll(cfg.Data, 0o700); err != nil {
		return fmt.Errorf("making the data folder: %w", err)
	}
	if err := checkEmpty(cfg.Data); err != nil {
		return err
	}
	lock, err := lockData(cfg.Data)
	if err != nil {
		return err
	}
	defer lock.Close()
	aside := filepath.Join(cfg.Data, restoreFolder)
	list, err := unpack(file, aside)
	if err != nil {
		return errors.Join(err, os.RemoveAll(aside))
	}
	if err := settle(aside, cfg.Data); err != nil {
		return err
	}
	fmt.Fprintf(stdout, "restored %d files of %s into %s\n", len(list.Files), list.CreatedAt, cfg.Data)
	for _, part := range list.LeftOut {
		fmt.Fprintf(stdout, "not in the backup: %s\n", part)
	}
	return nil
}

// checkEmpty refuses a folder that holds more than a lock.
func checkEmpty(data string) error {
	entries, err := os.ReadDir(data)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if entry.Name() != lockName {
			return fmt.Errorf("%s is not empty (%s); nothing is replaced", data, entry.Name())
		}
	}
	return nil
}

// unpack writes the files of an archive into a new folder and holds them
// against the manifest.
func unpack(in io.Reader, folder string) (*manifest, error) {
	if err := os.Mkdir(folder, 0o700); err != nil {
		return nil, err
	}
	found := manifest{}
	for archive := tar.NewReader(in); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil, errors.New("the archive has no manifest: it is not a whole backup")
		}
		if err != nil {
			return nil, fmt.Errorf("reading the archive: %w", err)
		}
		if header.Name == backupManifest {
			return verify(archive, found)
		}
		if header.Typeflag != tar.TypeReg || !restoredName.MatchString(header.Name) || len(found.Files) == maxFiles {
			return nil, fmt.Errorf("the archive holds %.80q, which no backup does", header.Name)
		}
		file, err := unpackFile(archive, header, folder)
		if err != nil {
			return nil, fmt.Errorf("unpacking %s: %w", header.Name, err)
		}
		found.Files = append(found.Files, file)
	}
}

func unpackFile(in io.Reader, header *tar.Header, folder string) (backupFile, error) {
	path := filepath.Join(folder, filepath.FromSlash(header.Name))
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return backupFile{}, err
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return backupFile{}, err
	}
	sum := sha256.New()
	size, err := io.Copy(io.MultiWriter(file, sum), in)
	err = errors.Join(err, file.Sync(), file.Close())
	return backupFile{Name: header.Name, Size: size, SHA256: hex.EncodeToString(sum.Sum(nil))}, err
}

// verify reads the manifest and compares it with what was found.
func verify(in io.Reader, found manifest) (*manifest, error) {
	text, err := io.ReadAll(io.LimitReader(in, maxManifest+1))
	if err != nil {
		return nil, fmt.Errorf("reading the manifest: %w", err)
	}
	if len(text) > maxManifest {
		return nil, fmt.Errorf("the manifest has more than %d bytes", maxManifest)
	}
	var want manifest
	if err := canonical.Decode(text, &want); err != nil {
		return nil, fmt.Errorf("reading the manifest: %w", err)
	}
	if want.Format != backupFormat {
		return nil, fmt.Errorf("the backup has the format %.40q, want %s", want.Format, backupFormat)
	}
	if !slices.Equal(want.names(), found.names()) {
		return nil, errors.New("the archive does not hold the files of its manifest")
	}
	listed := make(map[backupFile]bool, len(want.Files))
	for _, file := range want.Files {
		listed[file] = true
	}
	for _, file := range found.Files {
		if !listed[file] {
			return nil, fmt.Errorf("%s is damaged: size or SHA-256 is not that of the manifest", file.Name)
		}
	}
	return &want, nil
}

// settle moves what was verified into its place. Until the folder aside is
// gone, no server starts.
func settle(aside, data string) error {
	entries, err := os.ReadDir(aside)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if entry.IsDir() {
			if err := durable.SyncFolder(filepath.Join(aside, entry.Name())); err != nil {
				return err
			}
		}
		if err := os.Rename(filepath.Join(aside, entry.Name()), filepath.Join(data, entry.Name())); err != nil {
			return err
		}
	}
	if err := durable.SyncFolder(data); err != nil {
		return err
	}
	if err := os.Remove(aside); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return durable.SyncFolder(data)
}
