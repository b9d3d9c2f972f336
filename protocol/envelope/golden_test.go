package envelope

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/nbd-wtf/go-nostr"

	"github.com/parleykit/parley/protocol/canonical"
	"github.com/parleykit/parley/protocol/message"
)

var update = flag.Bool("update", false, "rewrite the golden files of testdata/envelope")

var goldenDir = filepath.Join("..", "..", "testdata", "envelope")

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func writeFile(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestSeal_keeps_the_golden_bytes fixes every random choice. The deflated case
// is only opened: a newer compressor may find shorter bytes for it.
func TestSeal_keeps_the_golden_bytes(t *testing.T) {
	for name, m := range map[string]*message.Message{
		"plain":    text(t, "Shall we meet on Tuesday?"),
		"deflated": text(t, strings.Repeat("Shall we meet on Tuesday? ", 40)),
		"parts":    artifact(t, noise("golden", base64url, 29_000)),
	} {
		t.Run(name, func(t *testing.T) {
			wraps, err := sealWith(fixedEntropy(name), m, alice, now)
			if err != nil {
				t.Fatal(err)
			}
			data, err := m.Encode()
			if err != nil {
				t.Fatal(err)
			}
			lines := []byte{}
			for _, wrap := range wraps {
				lines = append(append(lines, wrap.Bytes...), '\n')
			}
			if *update {
				writeFile(t, filepath.Join(goldenDir, name+".message.json"), data)
				writeFile(t, filepath.Join(goldenDir, name+".wraps.jsonl"), lines)
			}
			want := readFile(t, filepath.Join(goldenDir, name+".wraps.jsonl"))
			if name != "deflated" && !bytes.Equal(lines, want) {
				t.Errorf("sealed as\n%s\nnot as\n%s", lines, want)
			}
		})
	}
}

func TestOpen_opens_the_golden_wraps(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(goldenDir, "*.wraps.jsonl"))
	if err != nil || len(files) != 3 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, path := range files {
		var wraps []Wrap
		for line := range bytes.Lines(readFile(t, path)) {
			wrap := bytes.TrimSuffix(line, []byte("\n"))
			ev, err := parseWrap(wrap)
			if err != nil {
				t.Fatal(err)
			}
			wraps = append(wraps, Wrap{ID: ev.ID, Bytes: wrap})
		}
		m, parts := openAll(t, wraps)
		if parts != nil {
			if m, err = Join(parts, alice.PublicKey(), bob.PublicKey(), now); err != nil {
				t.Fatal(err)
			}
		}
		got, err := m.Encode()
		want := readFile(t, strings.TrimSuffix(path, ".wraps.jsonl")+".message.json")
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: got %s, %v", path, got, err)
		}
	}
}

func TestOpen_refuses_the_golden_forgeries_for_their_reason(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(goldenDir, "refused", "*.json"))
	if err != nil || len(files) < 50 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, path := range files {
		_, err := Open(readFile(t, path), bob, now)
		reason, _, _ := strings.Cut(filepath.Base(path), ".")
		if err == nil || Reason(err) != reason {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestKeys_of_the_golden_files_are_written_down(t *testing.T) {
	type agent struct {
		Secret string `json:"secret"`
		Public string `json:"public"`
	}
	keys := map[string]agent{}
	for name, k := range map[string]key{"alice": alice, "bob": bob, "carol": carol} {
		keys[name] = agent{k.secret, k.PublicKey()}
	}
	data, err := json.MarshalIndent(map[string]any{"now": canonical.At(now), "keys": keys}, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(goldenDir, "keys.json")
	if *update {
		writeFile(t, path, append(data, '\n'))
	}
	if got := readFile(t, path); string(got) != string(data)+"\n" {
		t.Errorf("got %s, want %s", got, data)
	}
}

var jsonBlock = regexp.MustCompile("(?s)```json\n(.*?)\n```")

// The rumors of the page are whole, so their ids must be right; seals and
// wraps are shown with a shortened content.
func TestSpec_examples_are_events_of_the_three_layers(t *testing.T) {
	kinds := map[int]int{}
	for _, block := range jsonBlock.FindAllSubmatch(readFile(t, filepath.Join("..", "..", "docs", "spec", "envelope.md")), -1) {
		ev, err := canonical.DecodeEvent(block[1])
		if err != nil {
			t.Errorf("%v: %s", err, block[1])
			continue
		}
		kinds[ev.Kind]++
		if exact, err := canonical.EncodeEvent(ev); err != nil || !bytes.Equal(exact, block[1]) {
			t.Errorf("not exact: %s", block[1])
		}
		if ev.Kind != KindRumor {
			continue
		}
		part, deflate, err := readTags(ev.Tags)
		if err != nil || !ev.CheckID() {
			t.Errorf("rumor with wrong id or tags, %v; its id is %s", err, ev.GetID())
		}
		if part == nil {
			data, err := unpack(ev.Content, deflate)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := read(data, alice.PublicKey(), bob.PublicKey(), now); err != nil {
				t.Error(err)
			}
		}
	}
	if kinds[KindRumor] < 2 || kinds[KindSeal] != 1 || kinds[KindWrap] != 1 {
		t.Errorf("kinds %v", kinds)
	}
}

func TestSpec_names_the_sizes_as_they_are(t *testing.T) {
	page := string(readFile(t, filepath.Join("..", "..", "docs", "spec", "envelope.md")))
	for what, n := range map[string]int{
		"longest rumor":           maxRumor,
		"wrap of that":            wrapLen(maxRumor),
		"content without tags":    maxContent(nil),
		"content with both tags":  maxContent(nostr.Tags{encodingTag, Part{Index: MaxParts, Total: MaxParts, Digest: digest}.tag()}),
		"bytes around a wrap":     wrapOverhead,
		"bytes around a seal":     sealOverhead,
		"most bytes of any wrap":  EventLimit,
		"most parts of a message": MaxParts,
	} {
		if !regexp.MustCompile(`\b` + strconv.Itoa(n) + `\b`).MatchString(page) {
			t.Errorf("%s, %d, is not on the page", what, n)
		}
	}
}
