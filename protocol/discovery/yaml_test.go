package discovery

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v4"
	"pgregory.net/rapid"

	"github.com/parleykit/parley/protocol/receipt"
)

func TestDecodeYAML_givesScalarsTheirType(t *testing.T) {
	for text, want := range map[string]any{
		"~": nil, "null": nil, "Null": nil, "NULL": nil, "nULL": "nULL",
		"true": true, "True": true, "FALSE": false, "yes": "yes", "on": "on", "tRUE": "tRUE",
		"0": 0.0, "-5": -5.0, "+5": 5.0, "1.": 1.0, ".5": 0.5, "-1.5e-3": -0.0015, "1E2": 100.0,
		"1_000": "1_000", "1:30": "1:30", "2026-01-02": "2026-01-02", "1e": "1e", "0x": "0x",
		"a#b": "a#b", "a:b": "a:b", "-a": "-a", "a - b": "a - b", "a, b": "a, b", "a]": "a]", `a"b`: `a"b`,
		"'it''s # no: comment'": "it's # no: comment", `"\u00e9\n\\\/"`: "é\n\\/", `""`: "", "''": "",
		`"true"`: "true", "'1'": "1", "[]": []any{}, "[ a , 1,true ]": []any{"a", 1.0, true},
		"[a:b, 'c,d', \"]\"]": []any{"a:b", "c,d", "]"}, "[a, ]": []any{"a"}, "a # b": "a", "'a'   # b": "a", "[] #": []any{},
	} {
		got, err := decodeYAML([]byte("k: " + text))
		if diff := cmp.Diff(any(map[string]any{"k": want}), got); diff != "" || err != nil {
			t.Errorf("%s: %v %s", text, err, diff)
		}
	}
}

func TestDecodeYAML_readsBlocksByTheirIndentation(t *testing.T) {
	got, err := decodeYAML([]byte(`
a:
  b:
   c: 1
   d:

  # a comment anywhere
e:
- 1
- x
f:
    - 'y'
"g h": z
i.j-k/l:`))
	want := map[string]any{
		"a": map[string]any{"b": map[string]any{"c": 1.0, "d": nil}}, "e": []any{1.0, "x"},
		"f": []any{"y"}, "g h": "z", "i.j-k/l": nil,
	}
	if diff := cmp.Diff(any(want), got); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

func TestDecodeYAML_refusesWhatThePolicyForbids(t *testing.T) {
	for code, documents := range map[receipt.Code][]string{
		receipt.CodePolicyYAMLInjection: {
			"a: &x 1", "a: *x", "a: <<", "&x a: 1", "*x : 1", "a: [&x 1]", "a: [b, *x]", "a:\n- &x 1", "a:\n- *x", "a: &x\n  b: 1",
			"<<: *x", "<<: {}", "<<:\n  a: 1", "'<<': 1", "a:\n  <<: 1",
			"a: !!str 1", "a: !x 1", "!x a: 1", "a: [!x 1]", "a:\n- !!int 1", "!!map\na: 1", "a: !<tag:x> 1",
		},
		receipt.CodePolicyMultiDocument: {
			"a: 1\n---\nb: 2", "---\n---\na: 1", "a: 1\n...\n", "a: 1\n---", "--- a\n", "...", "a: 1\n--- # x\n",
		},
		receipt.CodePolicyInvalid: {
			"", "\n# only a comment\n", "---\n", "a", "[]", "a: {b: 1}", "a: |\n  text", "a: >\n  text", "a: |", "? a\n: b", "a: ? b",
			"1: a", "1.5: a", "true: a", "null: a", "~: a", "[a]: b", "{a: b}: c", " : a", "a b: c", ".inf: a",
			"a: 1\na: 2", "a: 1\n'a': 2", "a:\n  b: 1\n  b: 2",
			"a:1", "a:\t1", "\ta: 1", "a:\n\tb: 1", "a: 1\t", "a: b: c", "a: b:", "a: - b", "a: -", "- - a",
			"a: 1\n  b: 2", "a: b\n  c", "a:\n    b: 1\n  c: 2", "  a: 1\nb: 2", "a:\n  - 1\n - 2", "a:\n- 1\n  b", "a:\n  - 1\n  b: 2",
			"a: 1\n- b", "- a\nb: 1", "a:\n- b: 1", "a:\n- [1]", "a:\n-", "a:\n- # x", "a:\n-b",
			"a: [1", "a: [1\n]", "a: 1]x\n- 2", "a: [,]", "a: [1,,2]", "a: [1] x", "a: [1]#x", "a: [[1]]", "a: [{b: 1}]", "a: [b: 1]", "a: [b:]", "a: [1 #]", "a: [b c: d]",
			"a: 'b", "a: \"b", "a: 'b' c", "a: 'b'#c", "a: \"\\x41\"", "a: \"\\ud83d\\ude00\"", "a: \"\\", "'a'b: 1", "'a': 'b' 'c'", "'a' : 1", "'a'",
			"a: @b", "a: `b", "a: %b", "a: ,b", "a: ]", "a: }", "%YAML 1.2\n---\na: 1", "a: :b", "a: '",
			"a: .inf", "a: -.INF", "a: .nan", "a: 0x1F", "a: 0o17", "a: 017", "a: -00", "a: 1e999", "a: [.inf]",
			"a: \x00", "a: \x7f", "a: \u0085", "a: b\u2028c", "\ufeffa: 1", "a: b\rc: d", "a: \xff", "a: 'b\tc'",
		},
	} {
		for _, document := range documents {
			value, err := decodeYAML([]byte(document))
			if err == nil {
				_, err = policyLimits.object(value)
			}
			if receipt.CodeOf(err) != code {
				t.Errorf("%q: %v, want %s", document, err, code)
			}
		}
	}
}

func TestDecodeYAML_saysInWhichLine(t *testing.T) {
	_, err := decodeYAML([]byte("a: 1\n\n# x\nb: *c\n"))
	if err == nil || !strings.Contains(err.Error(), "line 4") {
		t.Error(err)
	}
}

func TestDecodeYAML_seesWhatAnotherReaderSees(t *testing.T) {
	piece := rapid.SampledFrom([]string{
		"a", "b", "k", "1", "0", ".", "-", ":", " ", "  ", "#", "'", "''", `"`, `\`, "n", "[", "]", ",", "~", "null", "true", "e", "+",
		"?", "!", "&", "*", "|", ">", "%", "@", "<<", "{", "}", "/", "_", "=", "é", "---", "yes", "x", "(", ";", "\u00a0", "$",
	})
	line := rapid.Custom(func(t *rapid.T) string {
		indent := strings.Repeat(" ", rapid.SampledFrom([]int{0, 0, 0, 1, 2, 4}).Draw(t, "indent"))
		start := rapid.SampledFrom([]string{"", "a: ", "b: ", "c:", "'d': ", "- ", "-", "e: [", `f: "`, "# "}).Draw(t, "start")
		end := rapid.SampledFrom([]string{"", "", "]", `"`, "'", " # c"}).Draw(t, "end")
		return indent + start + strings.Join(rapid.SliceOfN(piece, 0, 4).Draw(t, "pieces"), "") + end
	})
	taken := 0
	rapid.Check(t, func(t *rapid.T) {
		document := []byte(strings.Join(rapid.SliceOfN(line, 1, 4).Draw(t, "lines"), "\n"))
		if compareYAML(t, document) {
			taken++
		}
	})
	if taken == 0 {
		t.Error("nothing was compared")
	}
}

// FuzzPolicy holds, beside the promises of ParsePolicy, that another reader of
// YAML sees the same document, since a digest of it is signed.
func FuzzPolicy(f *testing.F) {
	f.Add([]byte(withoutFragment()))
	f.Add([]byte(asJSON))
	f.Add([]byte("version: peac-policy/0.1\nusage: open\nx:\n  y:\n  - 'a''b'\n  - \"\\u00e9\"\nz: [a:b, -1.5e3, ~]\n"))
	f.Add([]byte("version: peac-policy/0.1\nusage: open\n? a\n: *b\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := ParsePolicy(data, "")
		if err != nil {
			if receipt.CodeOf(err) == "" || p != nil {
				t.Fatalf("%v, %v", p, err)
			}
		} else if written, err := p.Encode(); err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		} else if again, err := ParsePolicy(written, ""); err != nil || again.Version != p.Version {
			t.Fatal(err)
		}
		compareYAML(t, data)
	})
}

// compareYAML reports whether there was something to compare.
func compareYAML(t interface{ Fatalf(string, ...any) }, data []byte) bool {
	if bytes.HasPrefix(bytes.TrimLeft(data, " \t\r\n"), []byte("{")) || len(data) > MaxPolicy {
		return false
	}
	mine, err := decodeYAML(data)
	if err != nil {
		return false
	}
	var theirs any
	if err := yaml.Load(data, &theirs); err != nil {
		t.Fatalf("%q is not YAML to another reader: %v", data, err)
	}
	if diff := cmp.Diff(mine, plain(theirs, mine)); diff != "" {
		t.Fatalf("%q differs: %s", data, diff)
	}
	return true
}

// plain brings another reader's values into the types of this package. Where
// that reader still has a type of YAML 1.1 for a text, mine is taken for it.
func plain(theirs, mine any) any {
	text, isText := mine.(string)
	switch v := theirs.(type) {
	case map[string]any:
		members, _ := mine.(map[string]any)
		out := map[string]any{}
		for key, value := range v {
			out[key] = plain(value, members[key])
		}
		return out
	case []any:
		items, _ := mine.([]any)
		out := []any{}
		for i, value := range v {
			var item any
			if i < len(items) {
				item = items[i]
			}
			out = append(out, plain(value, item))
		}
		return out
	case int, int64, uint64, float64:
		if isText && strings.ContainsAny(text, "_bB") {
			return mine
		}
		return number(v)
	case time.Time:
		if isText {
			return mine
		}
	}
	return theirs
}

func number(v any) any {
	switch n := v.(type) {
	case int:
		return float64(n)
	case int64:
		return float64(n)
	case uint64:
		return float64(n)
	}
	return v
}
