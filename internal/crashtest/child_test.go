package crashtest_test

import (
	"strings"
	"testing"

	"github.com/parleykit/parley/internal/crashtest"
)

// TestChild answers two lines with what it was started with.
func TestChild(t *testing.T) {
	parent := crashtest.Begin(t)
	for line := range parent.Lines {
		parent.Say("%s %q", line, parent.Args)
		parent.Say("end of %s", line)
	}
}

func TestAKilledChildIsHeardToTheEnd(t *testing.T) {
	child := crashtest.Start(t, "TestChild", "one", "two words")
	child.Tell("hello")
	if line := child.Next(t); line != `hello ["one" "two words"]` {
		t.Errorf("child said %s", line)
	}
	child.Tell("more")
	for !strings.HasPrefix(child.Next(t), "more") { // "end of hello" comes before it
	}
	answers := crashtest.NewDrill(t).Answers(1)
	answers.Answer()
	for _, line := range child.KillAfter(t, answers) {
		if line != "end of more" {
			t.Errorf("unread was %q", line)
		}
	}
	child.Tell("nobody") // is no fault
	if rest := child.Kill(t); rest != nil {
		t.Errorf("a second kill told %q", rest)
	}
}
