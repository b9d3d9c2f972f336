package main

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nbd-wtf/go-nostr"
	"github.com/rogpeppe/go-internal/testscript"
	"pgregory.net/rapid"

	carriernostr "github.com/parleykit/parley/carrier/nostr"
	"github.com/parleykit/parley/internal/config"
	"github.com/parleykit/parley/internal/egress"
	"github.com/parleykit/parley/internal/keys"
	"github.com/parleykit/parley/protocol/wellknown"
)

// samekeys A B: two server documents name the same keys.
func sameKeys(ts *testscript.TestScript, _ bool, args []string) {
	var docs [2]*wellknown.Document
	for i, name := range args {
		doc, err := wellknown.Open([]byte(ts.ReadFile(name)))
		ts.Check(err)
		docs[i] = doc
	}
	if docs[0].ServerKey != docs[1].ServerKey || docs[0].Venue.PubKey != docs[1].Venue.PubKey {
		ts.Fatalf("keys differ: %+v and %+v", docs[0], docs[1])
	}
}

func configOf(data string) *config.Config {
	cfg := config.Default()
	cfg.Data, cfg.Listen, cfg.Metrics.Listen, cfg.MQTT.Broker.Listen = data, "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	return &cfg
}

// contents are the files of a data folder but for locks.
func contents(t testing.TB, folder string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || strings.HasPrefix(entry.Name(), ".") || entry.Name() == lockName {
			return err
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(folder, path)
		found[name] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// small is the archive of a data folder with one key of each kind.
func small(t *testing.T) (archive []byte, files map[string]string) {
	t.Helper()
	data := filepath.Join(t.TempDir(), "data")
	dir, err := keys.Open(filepath.Join(data, "keys"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := dir.EnsureNostr(keys.Venue); err != nil {
		t.Fatal(err)
	}
	if _, err := dir.EnsureEd25519(keys.Server); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{".new-1", "a copy"} { // neither is a key
		if err := os.WriteFile(filepath.Join(data, "keys", name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(t.TempDir(), "backup.tar")
	if err := backup(t.Context(), configOf(data), path, io.Discard); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if archive, err = os.ReadFile(path); err != nil {
		t.Fatal(err)
	}
	files = contents(t, data)
	delete(files, "keys/a copy")
	return archive, files
}

func restoreBytes(t testing.TB, archive []byte) (data string, err error) {
	t.Helper()
	folder, err := os.MkdirTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(folder, "backup.tar")
	if err := os.WriteFile(path, archive, 0o600); err != nil {
		t.Fatal(err)
	}
	data = filepath.Join(folder, "data")
	return data, restore(t.Context(), configOf(data), path, io.Discard)
}

func TestRestore_isExactlyWhatWasBackedUp(t *testing.T) {
	archive, want := small(t)
	data, err := restoreBytes(t, archive)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, contents(t, data)); diff != "" || len(want) != 2 {
		t.Error(diff)
	}
	if _, err := keys.Open(filepath.Join(data, "keys")); err != nil {
		t.Errorf("the keys are not private: %v", err)
	}
}

// Any damage is found, or harmless because every file came out whole. After a
// refusal the folder is as empty as before.
func TestRestore_neverBelievesADamagedArchive(t *testing.T) {
	archive, want := small(t)
	rapid.Check(t, func(rt *rapid.T) {
		damaged := bytes.Clone(archive)
		at := rapid.IntRange(0, len(damaged)-1).Draw(rt, "at")
		if rapid.Bool().Draw(rt, "cut") {
			damaged = damaged[:at]
		} else {
			damaged[at] ^= 1 << rapid.IntRange(0, 7).Draw(rt, "bit")
		}
		data, err := restoreBytes(t, damaged)
		got := contents(t, data)
		if err != nil {
			want := map[string]string{}
			if diff := cmp.Diff(want, got); diff != "" {
				rt.Fatalf("after %v: %s", err, diff)
			}
			if err := checkEmpty(data); err != nil {
				rt.Fatal(err)
			}
			return
		}
		if diff := cmp.Diff(want, got); diff != "" {
			rt.Fatal(diff)
		}
	})
}

func TestRestore_refusesNamesThatNoBackupHas(t *testing.T) {
	for _, header := range []tar.Header{
		{Name: "../outside"},
		{Name: "keys/../../outside"},
		{Name: "/outside"},
		{Name: "keys/.lock"},
		{Name: "keys/a/b"},
		{Name: "parleyd.lock"},
		{Name: "relay"},
		{Name: "relay/" + strings.Repeat("a/", 9) + "a"},
		{Name: "keys/a", Typeflag: tar.TypeSymlink, Linkname: "/outside"},
		{Name: "keys/", Typeflag: tar.TypeDir},
	} {
		var out bytes.Buffer
		archive := tar.NewWriter(&out)
		header.Mode = 0o600
		if err := archive.WriteHeader(&header); err != nil {
			t.Fatal(err)
		}
		if err := archive.Close(); err != nil {
			t.Fatal(err)
		}
		data, err := restoreBytes(t, out.Bytes())
		if err == nil || header.Name != "relay" && !strings.Contains(err.Error(), "no backup does") {
			t.Errorf("%s: %v", header.Name, err)
		}
		if err := checkEmpty(data); err != nil {
			t.Errorf("%s: %v", header.Name, err)
		}
	}
}

// The manifest and the files must be the same set, whichever has more.
func TestRestore_refusesAManifestOfOtherFiles(t *testing.T) {
	sum := sha256.Sum256([]byte("x"))
	file := backupFile{Name: "keys/x", Size: 1, SHA256: hex.EncodeToString(sum[:])}
	for name, list := range map[string]manifest{
		"none":         {Format: backupFormat, Files: []backupFile{}},
		"one more":     {Format: backupFormat, Files: []backupFile{file, {Name: "keys/y"}}},
		"twice":        {Format: backupFormat, Files: []backupFile{file, file}},
		"another size": {Format: backupFormat, Files: []backupFile{{file.Name, 2, file.SHA256}}},
		"another sum":  {Format: backupFormat, Files: []backupFile{{file.Name, 1, strings.Repeat("0", 64)}}},
		"a new format": {Format: "parley-backup/2", Files: []backupFile{file}},
	} {
		list.LeftOut = []string{}
		text, err := json.Marshal(list)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		archive := tar.NewWriter(&out)
		for _, entry := range []struct{ name, text string }{{file.Name, "x"}, {backupManifest, string(text)}} {
			if err := archive.WriteHeader(&tar.Header{Name: entry.name, Mode: 0o600, Size: int64(len(entry.text))}); err != nil {
				t.Fatal(err)
			}
			if _, err := archive.Write([]byte(entry.text)); err != nil {
				t.Fatal(err)
			}
		}
		if data, err := restoreBytes(t, out.Bytes()); err == nil {
			t.Errorf("%s: restored %v", name, contents(t, data))
		}
	}
}

// A restore may stop before each of its renames; no server starts on what it
// leaves, and it cannot be restored over.
func TestRestore_cutOffIsNotTakenForAServer(t *testing.T) {
	archive, _ := small(t)
	data := t.TempDir()
	aside := filepath.Join(data, restoreFolder)
	if _, err := unpack(bytes.NewReader(archive), aside); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"", "keys"} {
		if part != "" {
			if err := os.Rename(filepath.Join(aside, part), filepath.Join(data, part)); err != nil {
				t.Fatal(err)
			}
		}
		if s, err := compose(t.Context(), configOf(data), slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "cut off") {
			t.Errorf("compose = %v, %v", s, err)
		}
		if err := checkEmpty(data); err == nil {
			t.Error("the folder passes for an empty one")
		}
	}
}

func TestLockData_holdsTheFolderUntilItIsClosed(t *testing.T) {
	data := t.TempDir()
	first, err := lockData(data)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lockData(data); !errors.Is(err, errDataInUse) {
		t.Errorf("a second lock: %v", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := lockData(data)
	if err != nil {
		t.Fatal(err)
	}
	again.Close()
}

// A backup of a stopped server brings the relay's events back; one beside a
// running server brings the keys and the database.
func TestBackup_bringsAServerBack(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	folder := t.TempDir()
	key, err := keys.GenerateNostr()
	if err != nil {
		t.Fatal(err)
	}
	note := nostr.Event{Kind: nostr.KindRelayListMetadata, CreatedAt: nostr.Now(), Tags: nostr.Tags{{"r", "wss://relay.example"}}}
	if err := key.Sign(&note); err != nil {
		t.Fatal(err)
	}
	change := func(to string) func(*config.Config) { return func(cfg *config.Config) { cfg.Data = to } }
	var venue string
	t.Run("before", func(t *testing.T) {
		s := startServer(t, change(data))
		venueKey, err := s.keys.Nostr(keys.Venue)
		if err != nil {
			t.Fatal(err)
		}
		venue = venueKey.PublicKey()
		if err := relayClient(t).Publish(t.Context(), s.http.Origin().WebSocket()+"/", &note); err != nil {
			t.Fatal(err)
		}
		if err := backup(t.Context(), configOf(data), filepath.Join(folder, "running.tar"), io.Discard); err != nil {
			t.Fatal(err)
		}
	})
	if err := backup(t.Context(), configOf(data), filepath.Join(folder, "stopped.tar"), io.Discard); err != nil {
		t.Fatal(err)
	}
	for name, events := range map[string]int{"running.tar": 0, "stopped.tar": 1} {
		t.Run(name, func(t *testing.T) {
			back := filepath.Join(t.TempDir(), "data")
			if err := restore(t.Context(), configOf(back), filepath.Join(folder, name), io.Discard); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(filepath.Join(back, backupDatabase)); err != nil {
				t.Error(err)
			}
			s := startServer(t, change(back))
			if restored, err := s.keys.Nostr(keys.Venue); err != nil || restored.PublicKey() != venue {
				t.Errorf("venue %v, %v", restored, err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			found, err := relayClient(t).Query(ctx, s.http.Origin().WebSocket()+"/", nostr.Filter{Authors: []string{key.PublicKey()}, Limit: 5})
			if err != nil || len(found) != events {
				t.Errorf("events %v, %v", found, err)
			}
		})
	}
}

func relayClient(t *testing.T) *carriernostr.Client {
	t.Helper()
	client, err := carriernostr.NewClient(carriernostr.ClientOptions{Dialer: egress.New(egress.Options{AllowLoopback: true})})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}
