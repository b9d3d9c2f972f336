package disktest

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// traced is a trace as strace writes it, from one with plain texts.
func traced(t *testing.T, text string) *Recording {
	t.Helper()
	inHex := regexp.MustCompile(`"[^"]*"|<[^>.][^>]*>`).ReplaceAllStringFunc(text, func(s string) string {
		var b strings.Builder
		for _, c := range []byte(s[1 : len(s)-1]) {
			fmt.Fprintf(&b, `\x%s`, hex.EncodeToString([]byte{c}))
		}
		return s[:1] + b.String() + s[len(s)-1:]
	})
	r := &Recording{root: "/r"}
	if err := r.read(strings.NewReader(inHex)); err != nil {
		t.Fatal(err)
	}
	return r
}

// files are the contents of all files of an image by their names.
func files(t *testing.T, r *Recording, at int, rng *rand.Rand) map[string]string {
	t.Helper()
	root := t.TempDir()
	r.Image(t, at, root, rng)
	found := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		found[strings.TrimPrefix(path, root+"/")] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestImage_holdsWhatWasSyncedAndNothingElse(t *testing.T) {
	r := traced(t, `1 openat(AT_FDCWD</r>, "a", O_RDWR|O_CREAT, 0600) = 3</r/a>
1 pwrite64(3</r/a>, "one", 3, 0) = 3
1 fsync(3</r/a>) = 0
1 openat(AT_FDCWD</r>, "/r", O_RDONLY) = 4</r>
1 fsync(4</r>) = 0
1 write(1<pipe>, "ok 1", 4) = 4
1 pwrite64(3</r/a>, "two", 3, 3) = 3
1 pwrite64(3</r/a>, "lost", 4, 6) = -1 ENOSPC (No space left on device) (INJECTED)
1 fsync(3</r/a>) = -1 EIO (Input/output error) (INJECTED)
1 fsync(3</r/a>) = 0
1 rename("/r/a", "/r/b") = 0
1 fsync(4</r>) = 0
1 ftruncate(3</r/a>, 1) = 0
`)
	for at, want := range map[int]map[string]string{
		0: {}, 4: {}, 5: {"a": "one"}, 9: {"a": "one"}, 10: {"a": "one"}, 11: {"a": "one"}, 12: {"b": "one"}, 13: {"b": "one"},
	} {
		if diff := cmp.Diff(want, files(t, r, at, nil)); diff != "" {
			t.Errorf("at %d: %s", at, diff)
		}
	}
	if len(r.Output) != 1 || r.Output[0] != (Line{"ok 1", 5}) || r.Injected != 2 {
		t.Errorf("output %v, %d injected", r.Output, r.Injected)
	}
}

func TestImage_tearsWhatWasNotSyncedAtSectors(t *testing.T) {
	r := traced(t, `1 openat(AT_FDCWD</r>, "a", O_RDWR|O_CREAT, 0600) = 3</r/a>
1 openat(AT_FDCWD</r>, "/r", O_RDONLY) = 4</r>
1 fsync(4</r>) = 0
1 pwrite64(3</r/a>, "`+strings.Repeat("x", 2048)+`", 2048, 256) = 2048
`)
	rng := rand.New(rand.NewPCG(1, 1))
	seen := map[string]bool{}
	for range 200 {
		content := []byte(files(t, r, r.Points(), rng)["a"])
		for from := 0; from < len(content); from += sector {
			piece := content[from:min(from+sector, len(content))]
			if from == 0 {
				piece = piece[min(256, len(piece)):]
			}
			if n := bytes.Count(piece, []byte("x")); n != 0 && n != len(piece) {
				t.Fatalf("a sector at %d is torn itself", from)
			}
		}
		seen[string(content)] = true
	}
	if len(seen) < 10 {
		t.Errorf("only %d different images", len(seen))
	}
}
