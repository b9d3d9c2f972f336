package canonical

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/nbd-wtf/go-nostr"
	"pgregory.net/rapid"
)

func testEvent() *nostr.Event {
	return &nostr.Event{
		ID: strings.Repeat("ab", 32), PubKey: strings.Repeat("cd", 32), CreatedAt: 1_800_000_000, Kind: 1,
		Tags: nostr.Tags{{"p", "x"}, {}}, Content: "a\"\n\u2028<", Sig: strings.Repeat("ef", 64),
	}
}

func TestEncodeEvent_writes_NIP01_in_its_order(t *testing.T) {
	got, err := EncodeEvent(testEvent())
	want := `{"id":"` + strings.Repeat("ab", 32) + `","pubkey":"` + strings.Repeat("cd", 32) +
		`","created_at":1800000000,"kind":1,"tags":[["p","x"],[]],"content":"a\"\n` + "\u2028" + `<","sig":"` + strings.Repeat("ef", 64) + `"}`
	if err != nil || string(got) != want {
		t.Errorf("got %s, want %s, %v", got, want, err)
	}
}

func TestDecodeEvent_undoes_EncodeEvent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ev := testEvent()
		ev.Content = rapid.String().Draw(t, "content")
		ev.Tags = nostr.Tags{}
		for _, tag := range rapid.SliceOfN(rapid.SliceOfN(rapid.String(), 0, 3), 0, 3).Draw(t, "tags") {
			ev.Tags = append(ev.Tags, tag)
		}
		data, err := EncodeEvent(ev)
		if err != nil {
			t.Fatal(err)
		}
		got, err := DecodeEvent(data)
		if err != nil {
			t.Skip("noncharacter: ", err)
		}
		if diff := cmp.Diff(ev, got); diff != "" {
			t.Fatal(diff)
		}
		// The id is computed over the library's escapes: they must be ours.
		serialized := string(ev.Serialize())
		if _, content, _ := strings.Cut(string(data), `"content":`); !strings.HasSuffix(serialized, content[:strings.LastIndex(content, `,"sig"`)]+"]") {
			t.Fatalf("escapes differ: %s and %s", data, serialized)
		}
	})
}

func TestDecodeEvent_refuses_every_tolerance(t *testing.T) {
	whole, err := EncodeEvent(testEvent())
	if err != nil {
		t.Fatal(err)
	}
	set := func(key string, value any) string {
		var members map[string]any
		if err := json.Unmarshal(whole, &members); err != nil {
			t.Fatal(err)
		}
		if members[key] = value; value == nil {
			delete(members, key)
		}
		data, err := json.Marshal(members)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	for name, in := range map[string]string{
		"no id":               set("id", nil),
		"no pubkey":           set("pubkey", nil),
		"no created_at":       set("created_at", nil),
		"no kind":             set("kind", nil),
		"no tags":             set("tags", nil),
		"no content":          set("content", nil),
		"null content":        strings.Replace(string(whole), `"tags":`, `"content":null,"tags":`, 1),
		"upper-case id":       set("id", strings.Repeat("AB", 32)),
		"short pubkey":        set("pubkey", "cd"),
		"upper-case sig":      set("sig", strings.Repeat("EF", 64)),
		"long sig":            set("sig", strings.Repeat("ef", 65)),
		"negative created_at": set("created_at", -1),
		"kind of 17 bits":     set("kind", 65536),
		"kind as text":        set("kind", "1"),
		"tag of numbers":      set("tags", [][]int{{1}}),
		"unknown key":         set("extra", 1),
		"duplicate key":       strings.Replace(string(whole), `"kind":1`, `"kind":1,"kind":1`, 1),
		"null":                `null`,
	} {
		t.Run(name, func(t *testing.T) {
			_, err := DecodeEvent([]byte(in))
			if !errors.Is(err, ErrShape) && !errors.Is(err, ErrNotIJSON) {
				t.Errorf("got %v for %s", err, in)
			}
		})
	}
	if unsigned, err := DecodeEvent([]byte(set("sig", nil))); err != nil || unsigned.Sig != "" {
		t.Errorf("an unsigned event is one, too: %v", err)
	}
}

func TestEncodeEvent_refuses_bad_UTF8(t *testing.T) {
	ev := testEvent()
	ev.Content = "\xff"
	if data, err := EncodeEvent(ev); err == nil {
		t.Errorf("got %s", data)
	}
}
