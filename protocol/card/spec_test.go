package card

import (
	"os"
	"regexp"
	"testing"

	"github.com/nbd-wtf/go-nostr"
)

var example = regexp.MustCompile("(?ms)^```json ([a-z-]+)\n(.*?)^```$")

func TestSpec_examplesAreWhatTheTextSays(t *testing.T) {
	doc, err := os.ReadFile("../../docs/spec/card.md")
	if err != nil {
		t.Fatal(err)
	}
	found := example.FindAllSubmatch(doc, -1)
	if len(found) != 2 {
		t.Fatalf("%d examples", len(found))
	}
	for _, m := range found {
		var ev nostr.Event
		if err := ev.UnmarshalJSON(m[2]); err != nil {
			t.Fatal(err)
		}
		c, err := Parse(&ev, now)
		if refused := string(m[1]) == "card-refused"; refused != (err != nil) {
			t.Fatalf("%s: %v", m[1], err)
		}
		if err != nil {
			continue
		}
		again := event(t, c)
		if again.String() != ev.String() {
			t.Errorf("the example is not in the order of the text:\n%s\n%s", ev, again)
		}
	}
}
