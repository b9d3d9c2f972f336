package receipt

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParsePurpose_publishedCasesGetTheirTokens(t *testing.T) {
	data, err := os.ReadFile(conformance + "/purpose/normalization.json")
	if err != nil {
		t.Skip("the published test data are not here")
	}
	var set struct {
		Vectors []struct {
			ID       string
			Input    struct{ Header string }
			Expected struct {
				Tokens            []string
				Valid             bool
				UndeclaredPresent bool
			}
		}
	}
	if err := json.Unmarshal(data, &set); err != nil || len(set.Vectors) == 0 {
		t.Fatal(err)
	}
	for _, v := range set.Vectors {
		got, err := ParsePurpose([]string{v.Input.Header})
		if valid := v.Expected.Valid && !v.Expected.UndeclaredPresent; valid != (err == nil) {
			t.Errorf("%s: %v", v.ID, err)
		}
		if diff := cmp.Diff(v.Expected.Tokens, got); diff != "" {
			t.Errorf("%s: %s", v.ID, diff)
		}
	}
}

func TestParsePurpose_readsBothGrammarsAndAllFields(t *testing.T) {
	got, err := ParsePurpose([]string{"Train,\tcf:ai-crawler", "", "a-b_c, trailing_, x:y_, train, a"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"train", "cf:ai-crawler", "a-b_c", "trailing_", "x:y_", "a"}, got); diff != "" {
		t.Error(diff)
	}
	if got, err := ParsePurpose(nil); err != nil || got == nil || len(got) != 0 {
		t.Errorf("no field: %v, %v", got, err)
	}
}

func TestParsePurpose_refusesWhatNobodyMayDeclare(t *testing.T) {
	for name, value := range map[string]string{
		"undeclared":            "train, UNDECLARED",
		"a space within":        "train search",
		"a digit first":         "1train",
		"a hyphen last":         "train-",
		"hyphen and underscore": "a-b_",
		"two prefixes":          "a:b:c",
		"an empty prefix":       ":b",
		"an empty token":        "a:",
		"a quote":               `"train"`,
		"a Kelvin sign":         "in\u212Aex", // whose lower case is the letter k
		"too long":              strings.Repeat("a", maxPurposeToken+1),
		"a line break":          "train\r\nX",
		"another space":         "train\u00a0",
		"a field too large":     strings.Repeat("a,", maxPurposeHeader/2) + "a",
	} {
		if got, err := ParsePurpose([]string{value}); CodeOf(err) != CodeInvalidFormat || got != nil {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	if _, err := ParsePurpose([]string{strings.Repeat("a", maxPurposeToken)}); err != nil {
		t.Error(err)
	}
}

func TestFormatPurpose_writesOnlyTheNarrowGrammar(t *testing.T) {
	got, err := FormatPurpose([]string{PurposeTrain, "cf:ai_crawler"})
	if got != "train, cf:ai_crawler" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	for name, tokens := range map[string][]string{
		"none":       {},
		"eleven":     strings.Split("a,b,c,d,e,f,g,h,i,j,k", ","),
		"a hyphen":   {"ai-crawler"},
		"capitals":   {"Train"},
		"undeclared": {"undeclared"},
		"twice":      {"train", "search", "train"},
		"a comma":    {"train,search"},
	} {
		if _, err := FormatPurpose(tokens); CodeOf(err) != CodeInvalidFormat {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPurposeAnswer_saysWhatWasAppliedAndThatItVaries(t *testing.T) {
	vary := HeaderField{"Vary", "PEAC-Purpose"}
	for name, c := range map[string]struct {
		declared []string
		applied  string
		reason   PurposeReason
		want     []HeaderField
	}{
		"allowed":           {[]string{"train"}, "train", ReasonAllowed, []HeaderField{{"PEAC-Purpose-Applied", "train"}, {"PEAC-Purpose-Reason", "allowed"}, vary}},
		"unknown":           {[]string{"cf:x"}, "index", ReasonUnknownPreserved, []HeaderField{{"PEAC-Purpose-Applied", "index"}, {"PEAC-Purpose-Reason", "unknown_preserved"}, vary}},
		"nothing declared":  {nil, "", ReasonUndeclaredDefault, []HeaderField{{"PEAC-Purpose-Reason", "undeclared_default"}, vary}},
		"default applied":   {nil, "search", ReasonUndeclaredDefault, []HeaderField{{"PEAC-Purpose-Applied", "search"}, {"PEAC-Purpose-Reason", "undeclared_default"}, vary}},
		"not applied":       {[]string{"train"}, "", ReasonDenied, nil},
		"unknown applied":   {[]string{"cf:x"}, "cf:x", ReasonAllowed, nil},
		"no such reason":    {[]string{"train"}, "train", "because", nil},
		"reason of nothing": {[]string{"train"}, "train", ReasonUndeclaredDefault, nil},
		"reason of a token": {nil, "", ReasonAllowed, nil},
	} {
		got, err := PurposeAnswer(c.declared, c.applied, c.reason)
		if diff := cmp.Diff(c.want, got); diff != "" || (c.want == nil) != (err != nil) {
			t.Errorf("%s: %v %s", name, err, diff)
		}
	}
}
