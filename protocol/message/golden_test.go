package message

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/parleykit/parley/protocol/canonical"
)

var update = flag.Bool("update", false, "rewrite the golden files of testdata/message")

// golden lists the files of one folder of testdata/message.
func golden(t *testing.T, folder string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "..", "testdata", "message", folder, "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden files in %s: %v", folder, err)
	}
	return files
}

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

// The valid golden files are what Encode makes of examples(), one for each
// type with a body.
func TestEncode_keeps_the_golden_bytes(t *testing.T) {
	for typ, m := range examples(t) {
		path := filepath.Join("..", "..", "testdata", "message", "valid", typ+".json")
		data, err := m.Encode()
		if err != nil {
			t.Fatalf("%s: %v", typ, err)
		}
		if *update {
			writeFile(t, path, data)
		}
		if got := readFile(t, path); string(got) != string(data) {
			t.Errorf("%s: encoded as\n%s\nnot as\n%s", typ, data, got)
		}
	}
}

func TestParse_and_Encode_give_valid_files_back(t *testing.T) {
	for _, path := range golden(t, "valid") {
		data := readFile(t, path)
		m, err := Parse(data)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		if again, err := m.Encode(); err != nil || string(again) != string(data) {
			t.Errorf("%s became %s, %v", path, again, err)
		}
	}
}

func TestParse_refuses_invalid_files_with_their_reason(t *testing.T) {
	for _, path := range golden(t, "invalid") {
		_, err := Parse(readFile(t, path))
		if err == nil {
			t.Errorf("%s was taken", path)
			continue
		}
		reason := strings.TrimSuffix(path, ".json") + ".error"
		if *update {
			writeFile(t, reason, []byte(err.Error()+"\n"))
		}
		if want := strings.TrimSpace(string(readFile(t, reason))); err.Error() != want {
			t.Errorf("%s: got %q, want %q", path, err, want)
		}
	}
}

var jsonBlock = regexp.MustCompile("(?s)```json\n(.*?)\n```")

func TestSpec_examples_are_messages_in_canonical_form(t *testing.T) {
	page := readFile(t, filepath.Join("..", "..", "docs", "spec", "message.md"))
	blocks := jsonBlock.FindAllSubmatch(page, -1)
	if len(blocks) == 0 {
		t.Fatal("no examples")
	}
	for _, block := range blocks {
		if _, err := Parse(block[1]); err != nil {
			t.Errorf("%v: %s", err, block[1])
		}
		if exact, err := canonical.Transform(block[1]); err != nil || string(exact) != string(block[1]) {
			t.Errorf("not canonical: %s", block[1])
		}
	}
}

func TestSpec_names_every_type_with_its_size(t *testing.T) {
	page := string(readFile(t, filepath.Join("..", "..", "docs", "spec", "message.md")))
	for typ, info := range Types {
		row := regexp.MustCompile("(?m)^\\| `" + regexp.QuoteMeta(typ) + "` \\|.*\\| " + size(info.MaxBody) + " \\|$")
		if !row.MatchString(page) {
			t.Errorf("no row for %s with %s", typ, size(info.MaxBody))
		}
	}
}
