package ntfybridge_test

import (
	"strings"
	"testing"

	"github.com/parleykit/parley/ntfybridge"
)

func FuzzStream(f *testing.F) {
	for _, seed := range []string{
		`{"id":"abcdefghijkl","time":1,"event":"message","topic":"inbox","message":"{}"}` + "\n",
		`{"id":"abcdefghijkl","event":"open","topic":"a,b"}` + "\n" + `{"event":"keepalive"}` + "\n\n",
		`{"id":"abcdefghijkl","event":"message","topic":"inbox","message":"UEYBAA","encoding":"base64"}` + "\n",
		`{"id":"abcdefghijkl","event":"message","attachment":null}` + "\n", "<html>\n", "\x00\n", strings.Repeat("x", 40_000) + "\n{}\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		events, faults, longest := ntfybridge.ReadStream(strings.NewReader(text))
		if lines := strings.Count(text, "\n"); events+faults > lines || longest > len(text)*3 { // U+FFFD for one byte
			t.Errorf("%d events and %d faults in %d lines, a text of %d of %d bytes", events, faults, lines, longest, len(text))
		}
	})
}
