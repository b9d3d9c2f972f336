package envelope

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/nbd-wtf/go-nostr"
	"github.com/nbd-wtf/go-nostr/nip44"
	"pgregory.net/rapid"
)

func TestPayloadLen_is_what_NIP44_makes(t *testing.T) {
	for _, n := range []int{1, 31, 32, 33, 64, 65, 256, 257, 1024, 1025, 28_672, 28_673, 40_960, 40_961, 65_535} {
		payload, err := nip44.Encrypt(strings.Repeat("x", n), [32]byte{1})
		if err != nil {
			t.Fatal(err)
		}
		if got := payloadLen(n); got != len(payload) {
			t.Errorf("%d bytes: computed %d, are %d", n, got, len(payload))
		}
	}
}

// The longest content fits to the byte, and one byte more does not.
func TestSeal_uses_the_event_limit_exactly(t *testing.T) {
	if wrapLen(maxRumor) > EventLimit || wrapLen(maxRumor+1) <= EventLimit {
		t.Errorf("rumor of %d bytes: wrap of %d; one more: %d", maxRumor, wrapLen(maxRumor), wrapLen(maxRumor+1))
	}
	m := artifact(t, "x")
	data, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	room := maxContent(nil) - escapedLen(string(data)) + 1
	for extra, want := range map[int]int{0: 1, 1: 2} {
		wraps := mustSeal(t, artifact(t, noise("exact", base64url, room+extra)))
		if len(wraps) != want {
			t.Errorf("%d bytes beyond: %d wraps", extra, len(wraps))
		}
		if n := wrapLen(maxRumor); len(wraps[0].Bytes) != n {
			t.Errorf("wrap of %d bytes, computed %d", len(wraps[0].Bytes), n)
		}
	}
}

func TestEscapedLen_is_what_JSON_writes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.String().Draw(t, "s")
		quoted, err := jsontext.AppendQuote(nil, s)
		if err != nil {
			t.Fatal(err)
		}
		if got := escapedLen(s); got != len(quoted)-2 {
			t.Fatalf("%q: computed %d, is %s", s, got, quoted)
		}
	})
}

func TestEventOverhead_is_what_an_event_adds(t *testing.T) {
	tags := nostr.Tags{encodingTag, Part{Index: 64, Total: 64, Digest: digest}.tag()}
	ev := nostr.Event{Kind: KindRumor, PubKey: alice.PublicKey(), CreatedAt: nostr.Timestamp(now.Unix()), Tags: tags, Content: "12345"}
	ev.ID = ev.GetID()
	if got, want := eventOverhead(KindRumor, tags, false)+5, len(encode(t, &ev)); got != want {
		t.Errorf("computed %d, is %d", got, want)
	}
}

func TestSplit_cuts_between_characters_and_never_over_the_limit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.StringN(1, 400, -1).Draw(t, "s")
		limit := rapid.IntRange(6, 100).Draw(t, "limit")
		pieces := split(s, limit)
		if strings.Join(pieces, "") != s {
			t.Fatalf("%q became %q", s, pieces)
		}
		for i, piece := range pieces {
			if !utf8.ValidString(piece) || piece == "" || escapedLen(piece) > limit {
				t.Fatalf("piece %q of limit %d", piece, limit)
			}
			if i > 0 {
				first, _ := utf8.DecodeRuneInString(piece)
				if escapedLen(pieces[i-1])+escapedLen(string(first)) <= limit {
					t.Fatalf("piece %q had room for %q", pieces[i-1], first)
				}
			}
		}
	})
}
