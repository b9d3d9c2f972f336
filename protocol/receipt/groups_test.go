package receipt

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestGroups_accept_whatever_their_fields_allow(t *testing.T) {
	for name, make := range groupMakers {
		t.Run(name, rapid.MakeCheck(func(t *rapid.T) {
			value := make(t)
			if known, err := checkGroup(namespace+name, value, ""); !known || err != nil {
				t.Errorf("%t, %v: %v", known, err, value)
			}
		}))
	}
}

func TestGroups_refuse_what_is_no_object_and_what_they_do_not_know(t *testing.T) {
	for name, make := range groupMakers {
		for _, odd := range []any{nil, "a", 1.0, true, []any{}} {
			if _, err := checkGroup(namespace+name, odd, "/x"); err == nil || err.Code != CodeInvalidFormat || err.Pointer != "/x" {
				t.Errorf("%s took %v: %v", name, odd, err)
			}
		}
		t.Run(name, rapid.MakeCheck(func(t *rapid.T) {
			value := make(t).(map[string]any)
			value["a/b~c"] = "x"
			if _, err := checkGroup(namespace+name, value, "/x"); err == nil || err.Code != CodeInvalidFormat || err.Pointer != "/x/a~1b~0c" {
				t.Errorf("took an unknown member: %v", err)
			}
		}))
	}
}

// A refusal names a place that is there, or where something is missing.
func TestGroups_point_to_the_place_they_refuse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name, group := anyGroup(t)
		value := spoilt(t, group)
		_, err := checkGroup(namespace+name, value, "/x")
		if err == nil {
			return
		}
		if err.Code != CodeInvalidFormat {
			t.Fatalf("code %s", err.Code)
		}
		path, ok := strings.CutPrefix(err.Pointer, "/x")
		if !ok {
			t.Fatalf("pointer %q", err.Pointer)
		}
		parent := path[:max(0, strings.LastIndexByte(path, '/'))]
		if _, ok := lookUp(value, parent); !ok {
			t.Errorf("nothing at %q in %v", parent, value)
		}
		if _, ok := lookUp(value, path); ok == (err.Detail == "missing") {
			t.Errorf("%v, but present is %t", err, ok)
		}
	})
}

func TestGroups_bound_the_text_of_a_refusal(t *testing.T) {
	_, err := checkGroup(namespace+"identity", map[string]any{strings.Repeat("k", 1<<16): 1.0}, "/extensions/org.peacprotocol~1identity")
	if err == nil || len(err.Error()) > 500 {
		t.Errorf("got %v", err)
	}
}

func TestGroups_leave_keys_of_others_alone(t *testing.T) {
	for _, key := range []string{"example.org/agreement", "access", "org.peacprotocol/Access", "org.peacprotocol/nothing", ""} {
		if known, err := checkGroup(key, 1.0, ""); known || err != nil {
			t.Errorf("%q: %t, %v", key, known, err)
		}
	}
}

func TestRegisteredTypes_demand_registered_groups(t *testing.T) {
	if len(groupOfType) != 61 || len(groups) != 19 {
		t.Errorf("%d types, %d groups", len(groupOfType), len(groups))
	}
	for typ, group := range groupOfType {
		if groups[group] == nil || !isExtensionKey(group) || !isRegisteredType(typ) {
			t.Errorf("%s demands %s", typ, group)
		}
	}
	if group := groupOf(namespace + "consent-record"); group != namespace+"consent" {
		t.Errorf("a consent-record demands %q", group)
	}
	for _, typ := range []string{"consent-record", "org.peacprotocol/consent", "org.peacprotocol/Payment", "example.org/payment", ""} {
		if isRegisteredType(typ) || groupOf(typ) != "" {
			t.Errorf("%q is registered", typ)
		}
	}
}

func TestExtensionKeys_are_a_lowercase_domain_and_one_segment(t *testing.T) {
	label := strings.Repeat("a", 63)
	domain := label + "." + label + "." + label + "." + strings.Repeat("a", 61) // 253
	for key, want := range map[string]bool{
		"example.org/a":                   true,
		"a.b/0_-":                         true,
		"xn--bcher-kva.org/a":             true,
		"1.2/3":                           true,
		label + ".b/a":                    true,
		label + "a.b/a":                   false,
		domain + "/a":                     true,
		domain + "a/a":                    false,
		"a.b/" + strings.Repeat("a", 508): true,
		"a.b/" + strings.Repeat("a", 509): false,
		"example/a":                       false,
		"example.org":                     false,
		"example.org/":                    false,
		"/a":                              false,
		"":                                false,
		"example.org/a/b":                 false,
		"example.org/a.b":                 false,
		"example.org/_a":                  false,
		"example.org/-a":                  false,
		"example.org/A":                   false,
		"Example.org/a":                   false,
		"-a.org/a":                        false,
		"a-.org/a":                        false,
		"a..b/a":                          false,
		".a.b/a":                          false,
		"a.b./a":                          false,
		"exämple.org/a":                   false,
		"example.org/a\n":                 false,
		"https://example.org/":            false,
	} {
		if got := isExtensionKey(key); got != want {
			t.Errorf("%q: %t", key, got)
		}
	}
}

func TestForms_hold_to_their_grammar(t *testing.T) {
	for name, c := range map[string]struct {
		judge    rule
		good, no []string
	}{
		"duration": {
			duration,
			[]string{"P1Y", "P1M", "P2W", "P0D", "PT0S", "P1Y6M", "PT1H30M", "P1DT1S", "P1WT1H", "P0W1D", "P1W0D", "P999999999999999D"},
			[]string{"", "P", "PT", "30D", "P1", "P1D1Y", "P1Y1Y", "P1W1D", "P1DT", "P-1D", "P1.5D", "p1d", "PT1D", "P1H", "P1S", "PT1HT1M", "P1234567890123456D", "P1D ", "P1D\n"},
		},
		"instant": {
			instant,
			[]string{"2026-03-14T12:00:00Z", "2024-02-29T00:00:00.123456789Z", "2026-03-14T23:59:59+05:30"},
			[]string{"", "2026-03-14", "2026-03-14T12:00Z", "2026-03-14T12:00:00", "2026-02-29T00:00:00Z", "2026-03-14t12:00:00z", "2026-03-14 12:00:00Z", "2026-03-14T24:00:00Z", "2026-03-14T12:00:60Z", "2026-03-14T12:60:00Z", "2026-03-14T12:00:00,5Z", "2026-03-14T12:00:00+24:00", "2026-03-14T12:00:00+00:60", "2026-03-14T12:00:00Z\n"},
		},
		"day": {day, []string{"2026-01-31", "2026-02-30"}, []string{"2026-1-1", "2026-00-10", "2026-13-01", "2026-01-32", "26-01-01", "2026-01-01Z"}},
		"locator": {
			locator,
			[]string{"https://example.org", "HTTPS://example.org/a?b=c", "https://localhost:8443/", "https://[::1]/x", "https://münchen.example/"},
			[]string{"", "https://", "https:///x", "https:example.org", "http://example.org", "//example.org", "https://a@example.org", "https://:b@example.org", "https://example.org/#", "https://example.org/a b", "https://example.org/\x01", "https://example.org:65536/", "javascript:alert(1)"},
		},
		"identifier": {
			identifier,
			[]string{"about:blank", "urn:example:a", "https://example.org/#f", "tag:example.org,2026:x"},
			[]string{"", "/problems/1", "problems", "http://", "https://example.org:99999", "about:blank\n", ":a", "1a:b"},
		},
		"licence": {
			licence,
			[]string{"MIT", "GPL-2.0+", "LicenseRef-own", "MIT AND Apache-2.0 OR BSD-3-Clause", "(MIT OR(GPL-2.0-only))AND ISC", "Apache-2.0 WITH Classpath-exception-2.0", "(MIT WITH a) WITH b", "((MIT))"},
			[]string{"", " ", "AND", "MIT AND", "OR MIT", "MIT MIT", "MIT WITH", "MIT WITH a WITH b", "WITH a", "()", "(MIT", "MIT)", "MIT (ISC)", ")MIT(", "LicenseRef-", "MIT++", "+", "-MIT", "DocumentRef-a:LicenseRef-b", "MIT\nAND ISC"},
		},
		"digest": {digest, []string{"sha256:" + strings.Repeat("0a", 32)}, []string{"sha256:" + strings.Repeat("0A", 32), strings.Repeat("0", 64), "sha512:" + strings.Repeat("0", 64), "sha256:" + strings.Repeat("0", 63)}},
		"purpose token": {
			purposeToken(64),
			[]string{"a", "ai_training", "a-b", "vendor:a_b", "a9:b9"},
			[]string{"", "A", "1a", "_a", "a_", "a-", "a:", ":a", "a:b:c", "a b", "a_:b"},
		},
	} {
		for _, s := range c.good {
			if err := c.judge(s, ""); err != nil {
				t.Errorf("%s %q: %v", name, s, err)
			}
		}
		for _, s := range c.no {
			if err := c.judge(s, ""); err == nil {
				t.Errorf("%s took %q", name, s)
			}
		}
	}
}

func TestTexts_are_measured_in_characters(t *testing.T) {
	judge := text(1, 4)
	for s, want := range map[string]bool{"": false, "a": true, "éé𝄞𝄞": true, "𝄞𝄞𝄞𝄞𝄞": false} {
		if err := judge(s, ""); (err == nil) != want {
			t.Errorf("%q: %v", s, err)
		}
	}
}

func FuzzGroups(f *testing.F) {
	generator := rapid.Custom(func(t *rapid.T) any {
		_, group := anyGroup(t)
		return spoilt(t, group)
	})
	for seed := range 20 {
		f.Add(encoded(f, generator.Example(seed)))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var value any
		if json.Unmarshal(data, &value) != nil {
			return
		}
		for key := range groups {
			known, err := checkGroup(key, value, "/x")
			if !known {
				t.Fatalf("%s is unknown", key)
			}
			if err != nil && (err.Code != CodeInvalidFormat || !strings.HasPrefix(err.Pointer, "/x")) {
				t.Errorf("%s: %v", key, err)
			}
			if _, again := checkGroup(key, value, "/x"); err != nil && (again == nil || *again != *err) {
				t.Errorf("%s: %v, then %v", key, err, again)
			}
		}
	})
}

var unescape = strings.NewReplacer("~1", "/", "~0", "~")

// lookUp follows a pointer.
func lookUp(value any, pointer string) (any, bool) {
	if pointer == "" {
		return value, true
	}
	for name := range strings.SplitSeq(pointer[1:], "/") {
		name = unescape.Replace(name)
		switch v := value.(type) {
		case map[string]any:
			member, ok := v[name]
			if !ok {
				return nil, false
			}
			value = member
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i < 0 || i >= len(v) {
				return nil, false
			}
			value = v[i]
		default:
			return nil, false
		}
	}
	return value, true
}
