package agreement

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

var example = regexp.MustCompile("(?ms)^```(json [a-z]+|markdown)\n(.*?)^```$")

// TestSpec_examplesAreRead parses every example of the specification.
func TestSpec_examplesAreRead(t *testing.T) {
	read := map[string]func([]byte) error{
		"json agreement": func(b []byte) error { _, err := ParseAgreement(b); return err },
		"json command":   func(b []byte) error { _, err := ParseCommand(b); return err },
		"json event":     func(b []byte) error { _, err := ParseEvent(b); return err },
		"json signature": func(b []byte) error { _, err := ParseSignature(b); return err },
		"markdown": func(b []byte) error {
			if want := sample(2).Markdown(); string(b) != want {
				return fmt.Errorf("want\n%s", want)
			}
			return nil
		},
	}
	seen := map[string]int{}
	for _, m := range example.FindAllSubmatch(spec(t), -1) {
		name := string(m[1])
		seen[name]++
		if err := read[name](m[2]); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name := range read {
		if seen[name] == 0 {
			t.Errorf("no example of %s", name)
		}
	}
}

// TestSpec_namesEveryWordOfTheClosedSets keeps the tables complete.
func TestSpec_namesEveryWordOfTheClosedSets(t *testing.T) {
	doc := string(spec(t))
	words := append(Assurances(),
		CodeInvalid, CodeUnknownAgreement, CodeUnknownParticipant, CodeStaleDigest, CodeClosed, CodeExpired,
		CodeAlreadyDecided, CodeEventLimit, CodeKeyConflict, CodeSignatureRequired, CodeSignatureInvalid,
		CodeNotPermitted, CodeCap,
		OutcomePending, OutcomeReached, OutcomeDisagreed, OutcomeNoConsensus, OutcomeExpired,
		ActionPropose, ActionComment, ActionQuestion, ActionChangeRequest, ActionAgree, ActionDisagree,
		ActionAbstain, ActionWithdraw, ActionExpire, ActionClose,
		ProofParticipant, ProofDelegate, ProofVenue, KindHuman, KindAgent, KindAgentMail)
	for _, word := range append(words, schemaAgreement, schemaCommand, schemaEvent, schemaBundle) {
		if !strings.Contains(doc, "`"+word+"`") {
			t.Errorf("%s is not in the specification", word)
		}
	}
	for _, r := range hiddenRanges {
		text := fmt.Sprintf("%04X", r[0])
		if r[1] != r[0] {
			text = fmt.Sprintf("%04X–%04X", r[0], r[1])
		}
		if !strings.Contains(doc, text) {
			t.Errorf("%s is not in the specification", text)
		}
	}
	if !strings.Contains(doc, "196,608") || MaxEventBytes != 196608 {
		t.Error("the size of one participant's text differs")
	}
}

func spec(t *testing.T) []byte {
	t.Helper()
	doc, err := os.ReadFile("../../docs/spec/agreement.md")
	if err != nil {
		t.Fatal(err)
	}
	return doc
}
