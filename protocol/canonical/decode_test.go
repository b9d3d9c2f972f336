package canonical

import (
	"errors"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/nbd-wtf/go-nostr"
)

type document struct {
	Name  string         `json:"name"`
	Count int64          `json:"count"`
	List  []string       `json:"list,omitzero"`
	Inner *document      `json:"inner,omitzero"`
	Raw   jsontext.Value `json:"raw,omitzero"`
	At    *Time          `json:"at,omitzero"`
	Event *nostr.Event   `json:"event,omitzero"`
}

func TestDecode_reads_what_Marshal_wrote(t *testing.T) {
	at := Time{}
	if err := at.UnmarshalText([]byte("2026-11-30T12:00:00Z")); err != nil {
		t.Fatal(err)
	}
	in := document{Name: "a", Count: 3, List: []string{"x"}, Inner: &document{Name: "b"}, Raw: jsontext.Value(`null`), At: &at}
	data, err := Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	var out document
	if err := Decode(data, &out); err != nil {
		t.Fatal(err)
	}
	again, err := Marshal(out)
	if err != nil || string(again) != string(data) {
		t.Errorf("got %s, want %s, %v", again, data, err)
	}
}

func TestDecode_names_the_place_of_what_it_refuses(t *testing.T) {
	for name, c := range map[string]struct{ in, want string }{
		"unknown name":              {`{"nam":"a"}`, `unknown name at "/nam"`},
		"name in another case":      {`{"Name":"a"}`, `unknown name at "/Name"`},
		"unknown name further in":   {`{"inner":{"x":1}}`, `unknown name at "/inner/x"`},
		"wrong type":                {`{"name":1}`, `number of the wrong type at "/name"`},
		"number as text":            {`{"count":"1"}`, `string of the wrong type at "/count"`},
		"integer with a fraction":   {`{"count":1.5}`, `at "/count"`},
		"null for a string":         {`{"name":null}`, `null at "/name"`},
		"null for a list":           {`{"list":null}`, `null at "/list"`},
		"null in a list":            {`{"list":["a",null]}`, `null at "/list/1"`},
		"null for a pointer":        {`{"inner":null}`, `null at "/inner"`},
		"null for the document":     {`null`, `null at ""`},
		"an array for the document": {`[]`, `array of the wrong type at ""`},
		"time in another zone":      {`{"at":"2026-11-30T12:00:00+00:00"}`, `at "/at"`},
		"lenient event":             {`{"event":{"id":"x"}}`, `at "/event"`},
		"a long name is cut":        {`{"` + strings.Repeat("k", 1<<16) + `":1}`, `..."`},
	} {
		t.Run(name, func(t *testing.T) {
			err := Decode([]byte(c.in), &document{})
			if !errors.Is(err, ErrShape) {
				t.Fatalf("got %v", err)
			}
			if text := err.Error(); !strings.Contains(text, c.want) || len(text) > 300 {
				t.Errorf("got %q, want %q", text, c.want)
			}
		})
	}
}

func TestDecode_passes_the_gate_first(t *testing.T) {
	if err := Decode([]byte(`{"count":1,"count":2}`), &document{}); !errors.Is(err, ErrNotIJSON) {
		t.Errorf("got %v", err)
	}
}

func TestMarshal_refuses_what_the_gate_would(t *testing.T) {
	for name, v := range map[string]any{
		"large integer": map[string]int64{"n": 1 << 60},
		"bad UTF-8":     "\xff",
		"function":      func() {},
	} {
		if data, err := Marshal(v); err == nil {
			t.Errorf("%s became %s", name, data)
		}
	}
}
