package main

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/parleykit/parley/internal/config"
	"github.com/parleykit/parley/internal/database"
	"github.com/parleykit/parley/internal/durable"
	"github.com/parleykit/parley/protocol/canonical"
)

// Names inside a backup, which is a tar archive.
const (
	backupFormat   = "parley-backup/1"
	backupManifest = "manifest.json" // the last file
	backupDatabase = "parley.db"
	backupKeys     = "keys"
	backupRelay    = "relay"
)

// manifest lists what a backup holds. It finds damage, not a forger: it is not
// signed.
type manifest struct {
	Format    string         `json:"format"`
	CreatedAt canonical.Time `json:"created_at"`
	Files     []backupFile   `json:"files"`
	LeftOut   []string       `json:"left_out"` // parts of the server that are not in it
}

type backupFile struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"` // 64 lowercase hex digits
}

// backupVerbs are those of this file and of restore.go.
func backupVerbs() []verb {
	return []verb{
		{
			name: "backup", args: "ARCHIVE", least: 1, most: 1, line: "write keys, database and relay events to a file",
			help: `The archive holds the secret keys: keep it private. With a server running, or
on PostgreSQL, parts are left out, which the command names.

Example:
  parleyd -c parley.yaml backup backup.tar`, run: onArchive(backup),
		},
		{
			name: "restore", args: "ARCHIVE", least: 1, most: 1, line: "fill an empty data folder from a backup",
			help: `Example:
  parleyd -c parley.yaml restore backup.tar`, run: onArchive(restore),
		},
	}
}

func onArchive(job func(ctx context.Context, cfg *config.Config, path string, stdout io.Writer) error) func(context.Context, *invocation) error {
	return func(ctx context.Context, in *invocation) error {
		cfg, err := loadConfig(in.arguments, nil)
		if err != nil {
			return err
		}
		if err := job(ctx, cfg, in.words[0], in.stdout); err != nil {
			return in.refused(err)
		}
		return nil
	}
}

// backup writes an archive of the data folder to a new file of mode 0600. The
// store of the relay is in it only when no server runs: no other process can
// read it.
func backup(ctx context.Context, cfg *config.Config, path string, stdout io.Writer) (err error) {
	if _, err := os.Stat(cfg.KeysDir()); err != nil {
		return fmt.Errorf("there is no server in %s: %w", cfg.Data, err)
	}
	lock, err := lockData(cfg.Data)
	running := errors.Is(err, errDataInUse)
	if err != nil && !running {
		return err
	}
	if !running {
		defer lock.Close()
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s exists; nothing is replaced", path)
	}
	if err != nil {
		return err
	}
	archive := &archiver{out: tar.NewWriter(file), list: manifest{
		Format: backupFormat, CreatedAt: canonical.At(time.Now()), Files: []backupFile{}, LeftOut: []string{},
	}}
	err = errors.Join(archive.fill(ctx, cfg, filepath.Dir(path), running), file.Sync(), file.Close())
	if err != nil {
		return errors.Join(err, os.Remove(path))
	}
	if err := durable.SyncFolder(filepath.Dir(path)); err != nil {
		return err
	}
	fmt.Fprintf(stdout, "wrote %s: %d files; it holds the secret keys, keep it private\n", path, len(archive.list.Files))
	for _, part := range archive.list.LeftOut {
		fmt.Fprintf(stdout, "left out: %s\n", part)
	}
	return nil
}

// archiver writes the files of a backup and notes them.
type archiver struct {
	out  *tar.Writer
	list manifest
}

func (a *archiver) fill(ctx context.Context, cfg *config.Config, scratch string, running bool) error {
	if err := a.addFolder(backupKeys, cfg.KeysDir()); err != nil {
		return err
	}
	if err := a.addDatabase(ctx, cfg, scratch); err != nil {
		return err
	}
	if cfg.Relay.Store == config.StoreDatabase {
		return a.end() // its events are in the database
	}
	if running {
		a.list.LeftOut = append(a.list.LeftOut, "the relay's events, since the server was running; a backup with the server stopped holds them")
	} else if err := a.addFolder(backupRelay, cfg.RelayDir()); err != nil {
		return err
	}
	return a.end()
}

// addDatabase adds a copy of the database as it is at one moment, also beside a
// running server.
func (a *archiver) addDatabase(ctx context.Context, cfg *config.Config, scratch string) error {
	source, ok := strings.CutPrefix(cfg.DatabaseURL(), "sqlite:")
	if !ok {
		a.list.LeftOut = append(a.list.LeftOut, "the database server; use its own tools, such as pg_dump")
		return nil
	}
	if _, err := os.Stat(source); errors.Is(err, fs.ErrNotExist) {
		return nil // a relay alone has none
	}
	folder, err := os.MkdirTemp(scratch, ".parley-backup-*") // mode 0700
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	copied := filepath.Join(folder, backupDatabase)
	if err := database.Copy(ctx, source, copied); err != nil {
		return err
	}
	return a.addFile(backupDatabase, copied)
}

// addFolder adds the regular files of a folder, but for locks and files that
// are being written. A folder that is not there is passed over.
func (a *archiver) addFolder(name, folder string) error {
	return filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) && path == folder {
			return nil
		}
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		if strings.HasPrefix(entry.Name(), ".") || entry.Name() == "LOCK" {
			return nil
		}
		below, err := filepath.Rel(folder, path)
		if err != nil {
			return err
		}
		below = name + "/" + filepath.ToSlash(below)
		if !restoredName.MatchString(below) {
			a.list.LeftOut = append(a.list.LeftOut, fmt.Sprintf("%q, which is no file of the server", below))
			return nil
		}
		return a.addFile(below, path)
	})
}

func (a *archiver) addFile(name, path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if err := a.header(name, info.Size()); err != nil {
		return err
	}
	sum := sha256.New()
	if _, err := io.CopyN(io.MultiWriter(a.out, sum), file, info.Size()); err != nil {
		return fmt.Errorf("archiving %s: %w", path, err)
	}
	a.list.Files = append(a.list.Files, backupFile{Name: name, Size: info.Size(), SHA256: hex.EncodeToString(sum.Sum(nil))})
	return nil
}

func (a *archiver) header(name string, size int64) error {
	return a.out.WriteHeader(&tar.Header{
		Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o600,
		ModTime: a.list.CreatedAt.Time, Format: tar.FormatPAX,
	})
}

// end writes the manifest. An archive without it is not whole.
func (a *archiver) end() error {
	text, err := json.MarshalIndent(a.list, "", "  ")
	if err != nil {
		return err
	}
	if err := a.header(backupManifest, int64(len(text))); err != nil {
		return err
	}
	if _, err := a.out.Write(text); err != nil {
		return err
	}
	return a.out.Close()
}

// names are the files of a manifest, in order.
func (m manifest) names() []string {
	var list []string
	for _, f := range m.Files {
		list = append(list, f.Name)
	}
	slices.Sort(list)
	return list
}
