package receipt

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/parleykit/parley/protocol/canonical"
)

func TestGate_names_the_cause_of_each_refusal(t *testing.T) {
	tests := []struct {
		name, text string
		code       Code
		pointer    string
	}{
		{"a name twice", `{"a":1,"a":2}`, CodeIJSONDuplicateName, "/a"},
		{"a name twice, further down", `{"x":[{"a":1,"a":2}]}`, CodeIJSONDuplicateName, "/x/0/a"},
		{"a name twice once its escape is decoded", `{"a\/b":1,"a/b":2}`, CodeIJSONDuplicateName, "/a~1b"},
		{"a name twice as a code unit", `{"alg":1,"\u0061lg":2}`, CodeIJSONDuplicateName, "/alg"},

		{"2^53", `{"n":9007199254740992}`, CodeIJSONNumber, "/n"},
		{"-2^53", `{"n":-9007199254740992}`, CodeIJSONNumber, "/n"},
		{"a fraction that a double rounds to the bound", `{"n":9007199254740991.1}`, CodeIJSONNumber, "/n"},
		{"a negative one", `{"n":-9007199254740991.1}`, CodeIJSONNumber, "/n"},
		{"many digits after the bound", `{"n":9007199254740991.000000000000000000000000000001}`, CodeIJSONNumber, "/n"},
		{"an exponent", `{"n":1e16}`, CodeIJSONNumber, "/n"},
		{"a small mantissa and an exponent", `{"n":0.0009007199254740992e19}`, CodeIJSONNumber, "/n"},
		{"more than a double holds", `{"n":1E+400}`, CodeIJSONNumber, "/n"},
		{"an exponent that no integer holds", `{"n":1e999999999999999999999999}`, CodeIJSONNumber, "/n"},
		{"1e21, which reads as no integer", `{"n":1e21}`, CodeIJSONNumber, "/n"},

		{"a lone high surrogate", `{"s":"\uD800"}`, CodeIJSONString, "/s"},
		{"a lone low surrogate", `{"s":"\uDC00"}`, CodeIJSONString, "/s"},
		{"two high surrogates", `{"s":"\uD83D\uD83D"}`, CodeIJSONString, "/s"},
		{"a high surrogate before text", `{"s":"\uD83Dxx"}`, CodeIJSONString, "/s"},
		{"a high surrogate at the end", `{"s":"\uD83D`, CodeIJSONString, "/s"},
		{"a surrogate in UTF-8", "{\"s\":\"\xed\xa0\x80\"}", CodeIJSONString, "/s"},
		{"a byte that is no UTF-8", "{\"s\":\"\xff\"}", CodeIJSONString, "/s"},
		{"an overlong form", "{\"s\":\"\xc0\xaf\"}", CodeIJSONString, "/s"},
		{"a byte that is no UTF-8 outside strings", "{\xff", CodeIJSONString, ""},
		{"an unknown escape", `{"s":"\x"}`, CodeIJSONString, "/s"},
		{"an escape of no hex digits", `{"s":"\uZZZZ"}`, CodeIJSONString, "/s"},
		{"an escape of control characters", "{\"s\":\"\\u\x10\x11\x12\x13\"}", CodeIJSONString, "/s"},
		{"a backslash at the end", `{"s":"\`, CodeIJSONString, "/s"},
		{"a string without an end", `{"s":"abc}`, CodeIJSONString, "/s"},
		{"a control character", "{\"s\":\"a\nb\"}", CodeIJSONString, "/s"},
		{"U+FDD0 as an escape", `{"s":"\uFDD0"}`, CodeIJSONString, "/s"},
		{"U+FDEF in UTF-8", "{\"s\":\"\uFDEF\"}", CodeIJSONString, "/s"},
		{"U+FFFF as an escape", `{"s":"\uffff"}`, CodeIJSONString, "/s"},
		{"U+1FFFE as a pair", `{"s":"\uD83F\uDFFE"}`, CodeIJSONString, "/s"},
		{"a noncharacter in a name", `{"\uFDD0":1}`, CodeIJSONString, ""},

		{"nothing", ``, CodeInvalidFormat, ""},
		{"an array", `[]`, CodeInvalidFormat, ""},
		{"a byte order mark", "\ufeff{}", CodeInvalidFormat, ""},
		{"two values", `{}{}`, CodeInvalidFormat, ""},
		{"an open object", `{"a":{`, CodeInvalidFormat, "/a"},
		{"a comma at the end", `{"a":1,}`, CodeInvalidFormat, ""},
		{"a comma at the end of an array", `{"a":[1,]}`, CodeInvalidFormat, "/a/1"},
		{"a comma alone", `{,}`, CodeInvalidFormat, ""},
		{"no colon", `{"a" 1}`, CodeInvalidFormat, "/a"},
		{"a name without quotes", `{a:1}`, CodeInvalidFormat, ""},
		{"a leading zero", `{"n":01}`, CodeInvalidFormat, "/n"},
		{"a plus", `{"n":+1}`, CodeInvalidFormat, "/n"},
		{"no digit after the point", `{"n":1.}`, CodeInvalidFormat, "/n"},
		{"no digit before the point", `{"n":.5}`, CodeInvalidFormat, "/n"},
		{"no digit in the exponent", `{"n":1e+}`, CodeInvalidFormat, "/n"},
		{"a minus alone", `{"n":-}`, CodeInvalidFormat, "/n"},
		{"half a word", `{"n":nul}`, CodeInvalidFormat, "/n"},
		{"NaN", `{"n":NaN}`, CodeInvalidFormat, "/n"},
		{"a zero byte", "{\x00}", CodeInvalidFormat, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, _, err := readObject([]byte(test.text))
			if err == nil || err.Code != test.code || err.Pointer != test.pointer {
				t.Errorf("got %v, want %s at %q", err, test.code, test.pointer)
			}
		})
	}
}

func TestGate_admits_what_every_reader_reads_alike(t *testing.T) {
	text := ` { "max" : 9007199254740991 , "min":-9007199254740991, "exponent":1e3, "padded":1e0000000003,
		"tiny":1e-999999, "tinier":1e-999999999999999999999999, "edge":0.001e-9223372036854775808, "point":9007199254740990.5, "zero":-0.0e99999, "shift":90071992547409910e-1,
		"pair":"\uD83D\uDE00", "escapes":"\"\\\/\b\f\n\r\t\u00e9", "raw":"é😀", "text":"9007199254740993",
		"empty":[ ], "none":{ }, "words":[true,false,null] } `
	got, sizes, err := readObject([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var want map[string]any
	if err := json.Unmarshal([]byte(text), &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if sizes["words"] != len("[true,false,null]") || sizes["none"] != len("{ }") {
		t.Errorf("sizes %v", sizes)
	}
}

func TestStructure_is_bounded_while_it_is_read(t *testing.T) {
	names := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `,"n%d":0`, i)
		}
		return "{" + strings.TrimPrefix(b.String(), ",") + "}"
	}
	items := func(n int) string { return "[" + strings.TrimSuffix(strings.Repeat("0,", n), ",") + "]" }
	many := `{"a":[` + strings.TrimSuffix(strings.Repeat(items(9_998)+",", 10), ",") + `]}`
	tests := []struct {
		name, text string
		admitted   bool
	}{
		{"32 deep", `{"a":` + nested(31) + `}`, true},
		{"33 deep", `{"a":` + nested(32) + `}`, false},
		{"far too deep", `{"a":` + strings.Repeat("[", 150_000), false},
		{"10,000 items", `{"a":` + items(10_000) + `}`, true},
		{"10,001 items", `{"a":` + items(10_001) + `}`, false},
		{"1,000 keys", names(1_000), true},
		{"1,001 keys", names(1_001), false},
		{"65,536 units", `{"a":"` + strings.Repeat("é", 65_536) + `"}`, true},
		{"65,537 units", `{"a":"` + strings.Repeat("x", 65_537) + `"}`, false},
		{"32,769 pairs", `{"a":"` + strings.Repeat("😀", 32_769) + `"}`, false},
		{"32,768 pairs as escapes", `{"a":"` + strings.Repeat(`\ud83d\ude00`, 32_768) + `"}`, true},
		{"a name of 65,537 units", `{"` + strings.Repeat("x", 65_537) + `":0}`, false},
		{"99,992 nodes and eight more", many[:len(many)-2] + `,0,0,0,0,0,0,0,0]}`, true},
		{"100,001 nodes", many[:len(many)-2] + `,0,0,0,0,0,0,0,0,0]}`, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, _, err := readObject([]byte(test.text))
			if test.admitted && err != nil {
				t.Error(err)
			}
			if !test.admitted && (err == nil || err.Code != CodeConstraint) {
				t.Errorf("got %v, want %s", err, CodeConstraint)
			}
		})
	}
}

// Another parser, another gate and this one agree on what is admitted.
func checkReading(t rapid.TB, data []byte) {
	t.Helper()
	got, _, refusal := readObject(data)
	if refusal != nil {
		if refusal.Code.Explain().Status == 0 || len(refusal.Error()) > 1_000 {
			t.Fatalf("refusal %q", refusal.Error())
		}
		return
	}
	var want map[string]any
	if err := json.Unmarshal(data, &want); err != nil {
		t.Fatalf("admitted what another parser refuses: %v\n%q", err, data)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("%q: %s", data, diff)
	}
	if bytes.ContainsAny(data, ".eE") {
		return // the other gate refuses numbers that a double takes for zero
	}
	if err := canonical.Check(data); err != nil {
		t.Fatalf("admitted what another gate refuses: %v\n%q", err, data)
	}
}

func TestGate_reads_drawn_documents_like_another_parser(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		data := encoded(t, map[string]any{"value": anyJSON(t, 4)})
		if _, _, err := readObject(data); err != nil {
			t.Fatalf("%v\n%s", err, data)
		}
		checkReading(t, data)
	})
}
