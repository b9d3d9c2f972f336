package canonical

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"
)

// conformance is the folder of published vectors beside the repository.
func conformance(t *testing.T, name string) string {
	t.Helper()
	dir := filepath.Join("..", "..", "..", "shared", "conformance", name)
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("conformance vectors are not here: %v", err)
	}
	return dir
}

func TestTransform_matches_the_published_vectors(t *testing.T) {
	dir := conformance(t, "jcs")
	inputs, err := filepath.Glob(filepath.Join(dir, "input", "*.json"))
	if err != nil || len(inputs) == 0 {
		t.Fatalf("no vectors in %s: %v", dir, err)
	}
	for _, input := range inputs {
		name := filepath.Base(input)
		t.Run(name, func(t *testing.T) {
			data, err := os.ReadFile(input)
			if err != nil {
				t.Fatal(err)
			}
			want, err := os.ReadFile(filepath.Join(dir, "output", name))
			if err != nil {
				t.Fatal(err)
			}
			got, err := Transform(data)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}

// anyJSON draws a document of the kinds the gate admits.
func anyJSON(depth int) *rapid.Generator[any] {
	leaf := rapid.OneOf(
		rapid.Just[any](nil),
		rapid.Bool().AsAny(),
		rapid.String().AsAny(),
		rapid.Int64Range(-maxSafeInteger, maxSafeInteger).AsAny(),
		rapid.Float64Range(-1e9, 1e9).AsAny(),
		rapid.Float64Range(1e21, 1e300).AsAny(),
	)
	if depth == 0 {
		return leaf
	}
	return rapid.OneOf(
		leaf,
		rapid.SliceOfN(anyJSON(depth-1), 0, 4).AsAny(),
		rapid.MapOfN(rapid.String(), anyJSON(depth-1), 0, 4).AsAny(),
	)
}

// Two implementations by different people agree on every admitted document.
func TestTransform_agrees_with_a_second_implementation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		data, err := json.Marshal(anyJSON(3).Draw(t, "document"))
		if err != nil {
			t.Fatal(err)
		}
		got, err := Transform(data)
		if err != nil {
			t.Skip("refused by the gate: ", err)
		}
		second := jsontext.Value(bytes.Clone(data))
		if err := second.Canonicalize(); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, second) {
			t.Fatalf("input  %s\nours   %s\nsecond %s", data, got, second)
		}
		if again, err := Transform(got); err != nil || !bytes.Equal(again, got) {
			t.Fatalf("not idempotent: %s then %s, %v", got, again, err)
		}
	})
}
