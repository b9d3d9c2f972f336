package receipt

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// caseFile is one file of testdata/receipt: claims, and cases that each change
// them, or the header, in one place.
type caseFile struct {
	About  string         `json:"about"`
	Claims map[string]any `json:"claims"`
	Cases  []receiptCase  `json:"cases"`
}

// A receiptCase is a receipt and what becomes of it.
type receiptCase struct {
	Name string `json:"name"`
	change
	Header  change `json:"header"`
	Payload any    `json:"payload_text"` // instead of claims
	Head    any    `json:"header_text"`  // instead of a header
	Break   string `json:"break"`        // a name in broken
	Given   struct {
		Interop bool   `json:"interop"`
		Issuer  string `json:"issuer"`
		Subject string `json:"subject"`
		Policy  string `json:"policy"`
		Seen    bool   `json:"seen"`
		Skew    int    `json:"skew"` // seconds
	} `json:"given"`

	Code     Code        `json:"code"`    // "" when the receipt holds
	Pointer  string      `json:"pointer"` // "*" when any will do
	Warnings [][2]string `json:"warnings"`
	Policy   PolicyState `json:"policy"`
}

// A change sets and drops what pointers point to.
type change struct {
	Set  map[string]any `json:"set"`
	Drop []string       `json:"drop"`
}

var casesNow = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func TestReceipts_are_judged_as_the_cases_say(t *testing.T) {
	paths, err := filepath.Glob("../../testdata/receipt/*.json")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	count := 0
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var file caseFile
		decoder := json.NewDecoder(strings.NewReader(string(data)))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&file); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		count += len(file.Cases)
		t.Run(strings.TrimSuffix(filepath.Base(path), ".json"), func(t *testing.T) {
			for _, c := range file.Cases {
				t.Run(c.Name, func(t *testing.T) { c.run(t, file.Claims) })
			}
		})
	}
	if count < 200 {
		t.Errorf("only %d cases", count)
	}
}

func (c *receiptCase) run(t *testing.T, claims map[string]any) {
	given := VerifyOptions{
		Now: casesNow, Skew: time.Duration(c.Given.Skew) * time.Second, Interop: c.Given.Interop,
		Issuer: c.Given.Issuer, Subject: c.Given.Subject, PolicyDigest: c.Given.Policy,
		Seen: func(string, string) bool { return c.Given.Seen },
	}
	verified, err := Verify(c.receipt(t, claims), testKey, given)
	if c.Code != "" {
		refusal, ok := err.(*Error)
		if !ok || refusal.Code != c.Code || c.Pointer != "*" && refusal.Pointer != c.Pointer {
			t.Errorf("got %v, want %s at %q", err, c.Code, c.Pointer)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	var warnings [][2]string
	for _, w := range verified.Warnings {
		warnings = append(warnings, [2]string{w.Pointer, w.Code})
	}
	if diff := cmp.Diff(c.Warnings, warnings); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
	if c.Policy != "" && verified.PolicyBinding != c.Policy {
		t.Errorf("policy is %s, want %s", verified.PolicyBinding, c.Policy)
	}
}

// receipt makes the receipt of a case, signed whatever it says.
func (c *receiptCase) receipt(t *testing.T, claims map[string]any) string {
	header := `{"alg":"EdDSA","kid":"key-1","typ":"interaction-record+jwt"}`
	if c.Head != nil {
		header = written(t, c.Head).(string)
	} else {
		header = c.Header.apply(t, header)
	}
	payload := c.apply(t, string(encoded(t, claims)))
	if c.Payload != nil {
		payload = written(t, c.Payload).(string)
	}
	jws := sealed(header, payload)
	if c.Break == "" {
		return jws
	}
	spoil, known := broken[c.Break]
	if !known {
		t.Fatalf("nobody knows how to break by %q", c.Break)
	}
	return spoil(strings.Split(jws, "."))
}

// broken makes a compact form out of the three parts of a good one.
var broken = map[string]func(part []string) string{
	"empty":             func([]string) string { return "" },
	"no dots":           func(p []string) string { return p[0] },
	"two parts":         func(p []string) string { return p[0] + "." + p[1] },
	"four parts":        func(p []string) string { return strings.Join(p, ".") + "." + p[2] },
	"empty signature":   func(p []string) string { return p[0] + "." + p[1] + "." },
	"padded signature":  func(p []string) string { return strings.Join(p, ".") + "==" },
	"padded payload":    func(p []string) string { return p[0] + "." + p[1] + "==." + p[2] },
	"line break":        func(p []string) string { return strings.Join(p, ".") + "\n" },
	"line break inside": func(p []string) string { return p[0] + "." + p[1][:8] + "\r\n" + p[1][8:] + "." + p[2] },
	"standard alphabet": func(p []string) string { return p[0] + "." + p[1] + "." + p[2][:84] + "+/" },
	"stray bits":        func(p []string) string { return p[0] + "." + p[1] + "." + p[2][:85] + "_" },
	"short signature":   func(p []string) string { return p[0] + "." + p[1] + "." + p[2][:80] },
	"long signature":    func(p []string) string { return p[0] + "." + p[1] + "." + p[2][:84] + "AAAA" },
	"another signature": func(p []string) string { return p[0] + "." + p[1] + ".AAAAAA" + p[2][6:] },
	"too large":         func(p []string) string { return p[0] + "." + strings.Repeat("A", MaxJWS) + "." + p[2] },
	"another payload": func(p []string) string {
		return p[0] + "." + strings.Split(sealed("{}", `{"peac_version":"0.2"}`), ".")[1] + "." + p[2]
	},
}

// apply changes a JSON object in text.
func (c *change) apply(t *testing.T, text string) string {
	var object map[string]any
	if err := json.Unmarshal([]byte(text), &object); err != nil {
		t.Fatal(err)
	}
	for pointer, value := range c.Set {
		parent, name := place(t, object, pointer)
		parent[name] = written(t, value)
	}
	for _, pointer := range c.Drop {
		parent, name := place(t, object, pointer)
		delete(parent, name)
	}
	return string(encoded(t, object))
}

// place is the object that a pointer leads into and the name of its last step.
func place(t *testing.T, object map[string]any, pointer string) (map[string]any, string) {
	cut := strings.LastIndexByte(pointer, '/')
	parent, ok := lookUp(object, pointer[:cut])
	if !ok {
		t.Fatalf("nothing at %q", pointer[:cut])
	}
	return parent.(map[string]any), unescape.Replace(pointer[cut+1:])
}

// written writes out {"$repeat": [text or list, n], "$prefix": text} and
// {"$join": [texts]}, so that what is long need not stand in a file.
func written(t *testing.T, value any) any {
	switch v := value.(type) {
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = written(t, v[i])
		}
		return out
	case map[string]any:
		if parts, ok := v["$join"].([]any); ok {
			var b strings.Builder
			for _, part := range parts {
				b.WriteString(written(t, part).(string))
			}
			return b.String()
		}
		if repeat, ok := v["$repeat"].([]any); ok {
			return repeated(repeat[0], int(repeat[1].(float64)), v["$prefix"])
		}
		out := make(map[string]any, len(v))
		for name := range v {
			out[name] = written(t, v[name])
		}
		return out
	}
	return value
}

func repeated(what any, n int, prefix any) any {
	if items, ok := what.([]any); ok {
		var out []any
		for range n {
			out = append(out, items...)
		}
		return out
	}
	start, _ := prefix.(string)
	return start + strings.Repeat(what.(string), n)
}
