package canonical

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

func TestTransform_writes_what_every_implementation_must(t *testing.T) {
	for name, c := range map[string]struct{ in, want string }{
		"UTF-16 order, not bytes":           {"{\"\uFB33\":1,\"\U0001F600\":2,\"z\":3}", "{\"z\":3,\"\U0001F600\":2,\"\uFB33\":1}"},
		"index-like keys stay text":         {`{"9":1,"10":2}`, `{"10":2,"9":1}`},
		"array order is kept":               {`[3, 1, 2]`, `[3,1,2]`},
		"integers lose their point":         {`1.0`, `1`},
		"exponent at 1e21":                  {`1e21`, `1e+21`},
		"small exponent":                    {`1E-7`, `1e-7`},
		"minus zero":                        {`-0`, `0`},
		"minus zero with point":             {`-0.0e5`, `0`},
		"line separator raw":                {`"\u2028"`, "\"\u2028\""},
		"no HTML escapes":                   {`"<&>"`, `"<&>"`},
		"control characters":                {`"\u0001\n\u001f"`, `"\u0001\n\u001f"`},
		"slash unescaped":                   {`"\/"`, `"/"`},
		"surrogate pair becomes one":        {`"\ud83d\ude00"`, "\"\U0001F600\""},
		"composed stays composed":           {"\"\u00e9\"", "\"\u00e9\""},
		"decomposed stays decomposed":       {"\"e\u0301\"", "\"e\u0301\""},
		"NFC and NFD keys are two keys":     {"{\"\u00e9\":1,\"e\u0301\":2}", "{\"e\u0301\":2,\"\u00e9\":1}"},
		"largest exact integer":             {`9007199254740991`, `9007199254740991`},
		"smallest exact integer":            {`-9007199254740991`, `-9007199254740991`},
		"spaces go":                         {" {\t\"a\" :\r\n1 } ", `{"a":1}`},
		"smallest double":                   {`5e-324`, `5e-324`},
		"largest double":                    {`1.7976931348623157e308`, `1.7976931348623157e+308`},
		"escaped and plain name are one":    {`{"\u0061":1}`, `{"a":1}`},
		"private use is a character":        {"\"\uE000\"", "\"\uE000\""},
		"replacement character is one, too": {"\"\uFFFD\"", "\"\uFFFD\""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Transform([]byte(c.in))
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestCheck_refuses_what_readers_would_differ_on(t *testing.T) {
	for name, c := range map[string]struct{ in, reason string }{
		"integer a double rounds":         {`9007199254740993`, "2^53"},
		"the same with a point":           {`9007199254740993.0`, "2^53"},
		"the same with an exponent":       {`9.007199254740993e15`, "2^53"},
		"2^53 itself":                     {`9007199254740992`, "2^53"},
		"negative 2^53":                   {`-9007199254740992`, "2^53"},
		"integer spelled 1e20":            {`1e20`, "2^53"},
		"too large for a double":          {`1e400`, "out of range"},
		"too small for a double":          {`1e-400`, "out of range"},
		"lone high surrogate":             {`"\ud800"`, "syntax"},
		"lone low surrogate":              {`"\udc00"`, "syntax"},
		"reversed surrogates":             {`"\ude00\ud83d"`, "syntax"},
		"surrogate in a name":             {`{"\ud800":1}`, "syntax"},
		"duplicate name":                  {`{"a":1,"a":1}`, `duplicate name at "/a"`},
		"duplicate name in disguise":      {`{"a":1,"\u0061":1}`, "duplicate name"},
		"duplicate name further in":       {`[{"b":{"a":1,"a":2}}]`, `"/0/b/a"`},
		"bad UTF-8":                       {"\"\xff\"", "UTF-8"},
		"overlong UTF-8":                  {"\"\xc0\xaf\"", "UTF-8"},
		"surrogate in UTF-8":              {"\"\xed\xa0\x80\"", "UTF-8"},
		"noncharacter":                    {"\"\uFFFE\"", "U+FFFE"},
		"noncharacter escaped":            {`"\uffff"`, "U+FFFF"},
		"noncharacter in a name":          {"{\"\uFDD0\":1}", "U+FDD0"},
		"noncharacter of a higher plane":  {"\"\U0001FFFF\"", "U+1FFFF"},
		"place of a noncharacter":         {"{\"a\":[0,\"\uFFFE\"]}", `"/a/1"`},
		"byte order mark":                 {"\uFEFF{}", "syntax"},
		"nothing":                         {``, "unexpected end"},
		"only space":                      {` `, "unexpected end"},
		"two values":                      {`1 2`, "after the value"},
		"trailing comma":                  {`[1,]`, "syntax"},
		"comment":                         {`/**/1`, "syntax"},
		"NaN":                             {`NaN`, "syntax"},
		"leading zero":                    {`01`, ""},
		"plus":                            {`+1`, "syntax"},
		"single quotes":                   {`'a'`, "syntax"},
		"raw control character":           {"\"\n\"", "syntax"},
		"cut short":                       {`{"a":`, "unexpected end"},
		"too deep":                        {strings.Repeat("[", MaxDepth+1) + strings.Repeat("]", MaxDepth+1), "deeper"},
		"far too deep and never closed":   {strings.Repeat("[", 1<<20), "deeper"},
		"too many tokens":                 {"[" + strings.Repeat("0,", MaxTokens) + "0]", "tokens"},
		"too large":                       {`"` + strings.Repeat("a", MaxSize) + `"`, "bytes"},
		"a long name is cut in the error": {`{"` + strings.Repeat("k", 1<<16) + `":1e400}`, "..."},
	} {
		t.Run(name, func(t *testing.T) {
			err := Check([]byte(c.in))
			if !errors.Is(err, ErrNotIJSON) {
				t.Fatalf("got %v", err)
			}
			if text := err.Error(); !strings.Contains(text, c.reason) || len(text) > 300 {
				t.Errorf("error %q does not say %q, or too much", text, c.reason)
			}
			if _, err := Transform([]byte(c.in)); err == nil {
				t.Error("Transform took it")
			}
		})
	}
}

func TestCheck_takes_documents_up_to_each_limit(t *testing.T) {
	for name, in := range map[string]string{
		"depth":  strings.Repeat("[", MaxDepth) + strings.Repeat("]", MaxDepth),
		"tokens": "[" + strings.Repeat("0,", MaxTokens-3) + "0]",
		"size":   `"` + strings.Repeat("a", MaxSize-2) + `"`,
	} {
		t.Run(name, func(t *testing.T) {
			if err := Check([]byte(in)); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestDigest_is_lowercase_hex_SHA256(t *testing.T) {
	const want = "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
	if got := Digest([]byte("{}")); got != want {
		t.Errorf("got %s", got)
	}
}

func FuzzCheck(f *testing.F) {
	for _, seed := range []string{`{"a":[1,2.5,"x",null,true]}`, `"\ud83d\ude00"`, `1e-7`, `[[[]]]`, `{"a":1,"a":2}`, "\"\uFFFE\"", `1e20`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		admitted := Check(data) == nil
		_, err := Transform(data)
		if admitted != (err == nil) {
			t.Fatalf("gate says %v, Transform says %v", admitted, err)
		}
	})
}

func FuzzTransform(f *testing.F) {
	for _, seed := range []string{`{"b":1,"a":[1.0,-0,1E-7,1e21]}`, `{"10":1,"9":2}`, `"<\u2028\/>"`, ` [ ] `, `9007199254740991`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		once, err := Transform(data)
		if err != nil {
			return
		}
		twice, err := Transform(once)
		if err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("%q became %q and then %q, %v", data, once, twice, err)
		}
	})
}
