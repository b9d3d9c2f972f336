package agent

import (
	"strings"
	"testing"
)

func TestAListThatIsNotThereIsAnEmptyOne(t *testing.T) {
	var b strings.Builder
	if err := encodeJSON(&b, struct {
		Events []string `json:"events"`
		Text   string   `json:"text"`
		Left   int      `json:"left,omitempty"`
	}{Text: "<&>"}); err != nil {
		t.Fatal(err)
	}
	if want := `{"events":[],"text":"<&>"}` + "\n"; b.String() != want {
		t.Errorf("encoded %q, want %q", b.String(), want)
	}
}
