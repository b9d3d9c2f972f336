package wellknown_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/parleykit/parley/protocol/wellknown"
)

func TestParseName_readsWhatNIP05Allows(t *testing.T) {
	for text, want := range map[string][2]string{
		"alice@parley.example":      {"alice", "parley.example"},
		"Alice@Parley.Example:8443": {"alice", "parley.example:8443"},
		"a.b-c_1@127.0.0.1:8417":    {"a.b-c_1", "127.0.0.1:8417"},
		"_@parley.example":          {"_", "parley.example"},
		"parley.example":            {"_", "parley.example"},
	} {
		name, host, err := wellknown.ParseName(text)
		if err != nil || name != want[0] || host != want[1] {
			t.Errorf("%s: %q, %q, %v", text, name, host, err)
		}
	}
	for _, text := range []string{
		"", "@", "alice@", "@parley.example", "a b@parley.example", "alice@parley.example/x", "alice@bob@parley.example",
		"alice@parley.example?x", "alice@user:pass@host", "älice@parley.example", "alice@-x", strings.Repeat("a", 65) + "@x.example",
		"alice@" + strings.Repeat("a", 300),
	} {
		if _, _, err := wellknown.ParseName(text); !errors.Is(err, wellknown.ErrName) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestFindName_takesAWellFormedKeyOnly(t *testing.T) {
	key := strings.Repeat("a1", 32)
	pubkey, relays, err := wellknown.FindName([]byte(`{"names":{"bob":7,"alice":"`+key+`"},"relays":{"`+key+`":["wss://a.example","x"],"y":3},"z":[]}`), "alice")
	if err != nil || pubkey != key || len(relays) != 2 {
		t.Errorf("%q, %q, %v", pubkey, relays, err)
	}
	for _, document := range []string{
		"", "[]", `{"names":[]}`, `{"names":{}}`, `{"names":{"alice":"npub1x"}}`, `{"names":{"alice":7}}`,
		`{"names":{"alice":"` + strings.ToUpper(key) + `"}}`, `{"names":{"Alice":"` + key + `"}}`, strings.Repeat(" ", wellknown.MaxNamesSize+1) + "{}",
	} {
		if _, _, err := wellknown.FindName([]byte(document), "alice"); !errors.Is(err, wellknown.ErrName) {
			t.Errorf("%.80s: %v", document, err)
		}
	}
	many, err := json.Marshal(wellknown.Names{Names: map[string]string{"alice": key}, Relays: map[string][]string{key: make([]string, 100)}})
	if err != nil {
		t.Fatal(err)
	}
	if _, relays, _ := wellknown.FindName(many, "alice"); len(relays) > 8 {
		t.Errorf("%d relays", len(relays))
	}
}
