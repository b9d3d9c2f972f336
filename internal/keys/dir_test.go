package keys

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
)

func openDir(t *testing.T) *Dir {
	t.Helper()
	dir, err := Open(filepath.Join(t.TempDir(), "keys"))
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func names(t *testing.T, dir *Dir) []string {
	t.Helper()
	entries, err := os.ReadDir(dir.Path())
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, entry := range entries {
		if entry.Name() != ".lock" {
			found = append(found, entry.Name())
		}
	}
	return found
}

func TestOpen_makesAPrivateFolderAndRefusesALooserOne(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "keys")
	dir, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(dir.Path())
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Fatalf("mode %v, %v", info.Mode(), err)
	}
	for _, mode := range []os.FileMode{0o710, 0o704, 0o755} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(path); !errors.Is(err, ErrPermissions) {
			t.Errorf("mode %04o: %v", mode, err)
		}
	}
}

func TestOpen_refusesAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path); err == nil {
		t.Error("a file was opened as a folder")
	}
}

func TestEnsure_writesOnePrivateFileAndKeepsTheKey(t *testing.T) {
	dir := openDir(t)
	first, err := dir.EnsureNostr(Agent)
	if err != nil {
		t.Fatal(err)
	}
	second, err := dir.EnsureNostr(Agent)
	if err != nil || second.PublicKey() != first.PublicKey() {
		t.Fatalf("second key %v, %v; first %v", second, err, first)
	}
	found := names(t, dir)
	if len(found) != 1 || found[0] != "agent."+first.KID() {
		t.Fatalf("files %v, want agent.%s alone", found, first.KID())
	}
	info, err := os.Stat(filepath.Join(dir.Path(), found[0]))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if !regexp.MustCompile(`^[0-9a-f]{8}$`).MatchString(first.KID()) {
		t.Errorf("kid %q", first.KID())
	}
}

func TestEnsure_concurrentCallersEndWithOneKey(t *testing.T) {
	dir := openDir(t)
	var wait sync.WaitGroup
	got := make([]string, 16)
	for i := range got {
		wait.Go(func() {
			key, err := dir.EnsureNostr(Venue)
			if err != nil {
				t.Errorf("ensuring: %v", err)
				return
			}
			got[i] = key.PublicKey()
		})
	}
	wait.Wait()
	for _, public := range got {
		if public != got[0] {
			t.Fatalf("different keys: %v", got)
		}
	}
	if found := names(t, dir); len(found) != 1 {
		t.Errorf("files %v", found)
	}
}

func TestNostr_refusesAKeyThatOthersMayRead(t *testing.T) {
	for _, mode := range []os.FileMode{0o640, 0o604, 0o620} {
		dir := openDir(t)
		key, err := dir.EnsureNostr(Agent)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(filepath.Join(dir.Path(), "agent."+key.KID()), mode); err != nil {
			t.Fatal(err)
		}
		if _, err := dir.Nostr(Agent); !errors.Is(err, ErrPermissions) {
			t.Errorf("mode %04o: %v", mode, err)
		}
		if _, err := dir.EnsureNostr(Agent); !errors.Is(err, ErrPermissions) {
			t.Errorf("mode %04o: ensuring gave %v", mode, err)
		}
	}
}

func TestNostr_refusesWhatIsNotTheNamedKey(t *testing.T) {
	nsec := vectorNSec + "\n"
	right := "agent." + mustParse(t, vectorNSec).KID()
	for _, tt := range []struct {
		name, file, text string
		want             error
	}{
		{"wrong kid", "agent.00000000", nsec, ErrMalformed},
		{"empty", right, "", ErrMalformed},
		{"hex instead of nsec", right, vectorSecret, ErrMalformed},
		{"Ed25519 key", right, "-----BEGIN PRIVATE KEY-----\n", ErrMalformed},
		{"too long", right, nsec + strings.Repeat(" ", maxFile), ErrMalformed},
		{"another name", right + ".old", nsec, ErrNoKey},
		{"another purpose", "nobody.00000000", nsec, ErrNoKey},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := openDir(t)
			if err := os.WriteFile(filepath.Join(dir.Path(), tt.file), []byte(tt.text), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := dir.Nostr(Agent); !errors.Is(err, tt.want) {
				t.Errorf("error %v, want %v", err, tt.want)
			}
		})
	}
}

func TestNostr_refusesASymbolicLink(t *testing.T) {
	dir := openDir(t)
	target := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(target, []byte(vectorNSec), 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir.Path(), "agent."+mustParse(t, vectorNSec).KID())
	if err := os.Symlink(target, link); err != nil {
		t.Skipf("no symbolic links here: %v", err)
	}
	if _, err := dir.Nostr(Agent); !errors.Is(err, ErrMalformed) {
		t.Errorf("error %v", err)
	}
}

func TestNostr_neverGuessesBetweenTwoKeys(t *testing.T) {
	dir := openDir(t)
	for _, text := range []string{vectorSecret, strings.Repeat("1", 64)} {
		if err := dir.storeNostr(Agent, mustParse(t, text), Active); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := dir.Nostr(Agent); !errors.Is(err, ErrAmbiguous) {
		t.Errorf("opening: %v", err)
	}
	if _, err := dir.EnsureNostr(Agent); !errors.Is(err, ErrAmbiguous) {
		t.Errorf("ensuring: %v", err)
	}
	files, err := dir.List()
	if err != nil || len(files) != 2 || files[0].Purpose != Agent {
		t.Errorf("List = %v, %v", files, err)
	}
}

func TestDir_knowsItsPurposesOnly(t *testing.T) {
	dir := openDir(t)
	for _, p := range []Purpose{"", "root", "../agent", "agent.x"} {
		if _, err := dir.EnsureNostr(p); !errors.Is(err, ErrPurpose) {
			t.Errorf("purpose %q: %v", p, err)
		}
	}
	if _, err := dir.Nostr(Issuer); !errors.Is(err, ErrNoKey) {
		t.Errorf("missing key: %v", err)
	}
}

func TestImportNostr_takesBothFormsAndReplacesNothing(t *testing.T) {
	dir := openDir(t)
	for _, form := range []string{vectorNSec, vectorSecret, " " + vectorNSec + "\n"} {
		key, err := dir.ImportNostr(Agent, form)
		if err != nil || key.PublicKey() != vectorPublic {
			t.Fatalf("importing: %v, %v", key, err)
		}
	}
	if stored, err := dir.Nostr(Agent); err != nil || stored.PublicKey() != vectorPublic {
		t.Errorf("stored %v, %v", stored, err)
	}
	if _, err := dir.ImportNostr(Agent, strings.Repeat("1", 64)); !errors.Is(err, ErrExists) {
		t.Errorf("second key: %v", err)
	}
	if found := names(t, dir); len(found) != 1 {
		t.Errorf("files %v", found)
	}
}

func TestImportNostr_refusesWhatIsNoSecretWithoutShowingIt(t *testing.T) {
	dir := openDir(t)
	for name, text := range map[string]string{
		"zero":        strings.Repeat("0", 64),
		"group order": groupOrder,
		"over order":  strings.Repeat("f", 64),
		"short":       vectorSecret[2:],
		"npub":        vectorNPub,
		"typo":        vectorNSec[:20] + "q" + vectorNSec[21:],
		"endless":     strings.Repeat("1", 4000),
	} {
		_, err := dir.ImportNostr(Agent, text)
		if !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		} else if strings.Contains(err.Error(), text[:16]) {
			t.Errorf("%s: error shows the secret: %v", name, err)
		}
	}
}

func mustParse(t *testing.T, text string) *Nostr {
	t.Helper()
	key, err := ParseNostr(text)
	if err != nil {
		t.Fatal(err)
	}
	return key
}
