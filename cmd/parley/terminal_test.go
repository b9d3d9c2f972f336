package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode"

	"pgregory.net/rapid"
)

func TestTextOfOthersCannotSteerTheTerminal(t *testing.T) {
	for in, want := range map[string]string{
		"plain text":              "plain text",
		"é, 日本, 👍":                "é, 日本, 👍",
		"\x1b[2Jgone":             `\u001b[2Jgone`,
		"\u009b31mred":            `\u009b31mred`,
		"\u202eevil\u2066":        `\u202eevil\u2066`,
		"zero\u200bwidth":         `zero\u200bwidth`,
		"tag\U000e0041":           `tag\U000e0041`,
		"bell\a back\b del\x7f\r": `bell\u0007 back\u0008 del\u007f\u000d`,
		"two\nlines\tand":         `two\u000alines\u0009and`,
		"line\u2028separator":     `line\u2028separator`,
		"broken \xff byte":        `broken \xff byte`,
	} {
		if got := line(in); got != want {
			t.Errorf("line(%q) = %q, want %q", in, got, want)
		}
	}
	if got := plain("a\n\tb\r", true); got != "a\n\tb\\u000d" {
		t.Errorf("lines are not kept: %q", got)
	}
}

func TestNoControlCharacterSurvives(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")) + rapid.String().Draw(t, "text")
		for _, r := range plain(in, true) {
			if r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r)) {
				t.Fatalf("%U survives in %q", r, plain(in, true))
			}
		}
	})
}

func TestColoursAreOnlyForTerminals(t *testing.T) {
	var out bytes.Buffer
	p := newPrinter(&out)
	p.println(p.paint(red, "no"))
	if strings.Contains(out.String(), "\x1b") {
		t.Errorf("painted a file: %q", out.String())
	}
	p.color = true
	if got := p.paint(red, "no"); got != "\x1b[31mno\x1b[0m" {
		t.Errorf("paint = %q", got)
	}
}

func TestTableCellsAreMadePlain(t *testing.T) {
	var out bytes.Buffer
	newPrinter(&out).table([]string{"NAME", "TEXT"}, [][]string{{"a\x1b[0m", ""}, {"longer name", "x\ny"}})
	want := "NAME           TEXT\na\\u001b[0m     -\nlonger name    x\\u000ay\n"
	got := out.String()
	if strings.Contains(got, "\x1b") || strings.Count(got, "\n") != strings.Count(want, "\n") {
		t.Errorf("table =\n%q", got)
	}
}

func TestLengthsAreSaidThePeopleWay(t *testing.T) {
	for d, want := range map[time.Duration]string{
		40 * time.Second: "40 s", 90 * time.Second: "90 s", 5 * time.Minute: "5 min",
		3 * time.Hour: "3 h", 12 * 24 * time.Hour: "12 days", -time.Second: "1 s",
	} {
		if got := span(d); got != want {
			t.Errorf("span(%v) = %q, want %q", d, got, want)
		}
	}
}

func TestJSONOfOthersTextHoldsNothingATerminalObeys(t *testing.T) {
	hostile := map[string]string{"text": "a\u009b31m \u202e\u007f \U000e0041 é 漢 \U0001f600"}
	plainJSON, err := json.Marshal(hostile)
	if err != nil {
		t.Fatal(err)
	}
	escaped := escapeJSON(plainJSON)
	for _, r := range string(escaped) {
		if unsafeRune(r, true) {
			t.Errorf("U+%04X is left in %s", r, escaped)
		}
	}
	var back map[string]string
	if err := json.Unmarshal(escaped, &back); err != nil || back["text"] != hostile["text"] {
		t.Errorf("reads back as %q, %v", back, err)
	}
}
