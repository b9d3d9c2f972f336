package agreement

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// hostile are texts that would forge something if they were written as they
// are. Each is a single line.
var hostile = []string{
	"# Title", "## Must not", "- Deadline: 2030-01-01T00:00:00Z", "* item", "+ item", "1. > rule", "12) rule",
	"> quote", ">", "```", "~~~", "    code", "\tcode", "---", "===", "***", "_ _ _", "<b>x</b>", "<!-- ", "-->",
	"&lt;", "&#62;", `\`, `\\`, `a\`, "`p1`, initiator", "![x](http://e.example/x)", "[a]: http://e.example",
	"| a | b |", "| - | - |", "$x$", "trailing  ", " leading", "a \\", "x\u202Egnp", "a\u2028# b", "a\u200bb",
	"\u200f", "None.", ": definition", "Outcome: reached", "~~no~~", "1", "1.", ".", "٣. x", "&#32;", "a  b\tc",
	"[^1]: note", "[x] done", "http://e.example/a_b_c", "www.e.example/a_b", "mailto:a_b@e.example", "@everyone", `\\\`, "`a\\`", "é e\u0301", "\U000E0041x",
}

func TestEscapeLine_isReadBackExactly(t *testing.T) {
	for _, line := range hostile {
		if got := unescape(t, escapeLine(line)); got != line {
			t.Errorf("%q is written as %q and read as %q", line, escapeLine(line), got)
		}
	}
}

// structural matches a line that would begin a block in CommonMark or GFM, or
// that a reader would strip.
var structural = regexp.MustCompile("^([ \t]|#|[-+*]([ \t]|$)|[0-9]{1,9}[.)]([ \t]|$)|>|```|~~~|<|=+[ \t]*$|-+[ \t]*$|\\||:)|[ \t]$")

// active matches a character that could begin an inline construct.
var active = regexp.MustCompile("[`*_\\[\\]<>|~$@]|://|(?i:www\\.)|&[^#]|&#[^0-9x]")

func TestEscapeLine_leavesNothingThatMarkdownCouldRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		line := rapid.OneOf(
			rapid.SampledFrom(hostile),
			rapid.StringOfN(rapid.RuneFrom([]rune("#-+=*_`~<>&;$|[]()!\\ \t1234567890.:/w@ab\u202e\u2028")), 0, 30, -1),
			rapid.StringMatching(`[^\n]*`),
		).Draw(t, "line")
		got := escapeLine(line)
		if structural.MatchString(got) {
			t.Fatalf("%q: %q begins a block", line, got)
		}
		bare := regexp.MustCompile(`\\.`).ReplaceAllString(got, "")
		if active.MatchString(bare) || strings.Contains(bare, `\`) || strings.ContainsFunc(got, hidden) {
			t.Fatalf("%q: %q has active characters", line, got)
		}
		if unescape(t, got) != line {
			t.Fatalf("%q is read back as %q", line, unescape(t, got))
		}
	})
}

// TestMarkdown_saysExactlyOneAgreement reads the rendering of hostile texts
// back with an independent reader: nothing is lost and nothing is forged.
func TestMarkdown_saysExactlyOneAgreement(t *testing.T) {
	lineOf := rapid.OneOf(rapid.SampledFrom(hostile), rapid.StringMatching(`[ -~]{0,20}`), rapid.Just(""))
	textOf := rapid.Custom(func(t *rapid.T) string {
		return "x" + strings.Join(rapid.SliceOfN(lineOf, 1, 6).Draw(t, "lines"), "\n")
	})
	rapid.Check(t, func(t *rapid.T) {
		a := sample(rapid.IntRange(2, 8).Draw(t, "n"))
		a.Title = strings.ReplaceAll("x"+rapid.SampledFrom(hostile).Draw(t, "title"), "\t", " ")
		a.Objective = textOf.Draw(t, "objective")
		a.Must = rapid.SliceOfN(textOf, 0, 12).Draw(t, "must")
		a.MustNot = rapid.SliceOfN(textOf, 0, 3).Draw(t, "must_not")
		for i := range a.Participants {
			a.Participants[i].Label = strings.ReplaceAll("x"+rapid.SampledFrom(hostile).Draw(t, "label"), "\t", " ")
		}
		if err := a.Check(); err != nil {
			t.Fatal(err)
		}
		want := texts{a.Title, a.Objective, a.Must, a.MustNot, nil}
		for _, p := range a.Participants {
			want.labels = append(want.labels, p.Label)
		}
		got := readMarkdown(t, a.Markdown())
		if diff := cmp.Diff(fmt.Sprintf("%q", want), fmt.Sprintf("%q", got)); diff != "" {
			t.Fatalf("%s\n%s", diff, a.Markdown())
		}
	})
}

func TestMarkdown_endsWithOneLineFeed(t *testing.T) {
	md := sample(2).Markdown()
	if !strings.HasSuffix(md, "\n") || strings.HasSuffix(md, "\n\n") || strings.Contains(md, "\r") {
		t.Errorf("ends with %q", md[len(md)-5:])
	}
}

func TestMarkdown_goldenOfEveryOptionalField(t *testing.T) {
	a := sample(4)
	a.Supersedes = &Supersedes{"019ad4f5-3c00-7a1b-8c2d-aaaaaaaaaaaa", strings.Repeat("ab", 32)}
	a.Strategy.Threshold = "2/3"
	a.Must = []string{"one\n\ntwo\n  three  \nfour", strings.Join(hostile, "\n")}
	a.MustNot = nil
	a.Participants[1].Kind, a.Participants[1].Delegate = KindHuman, newKey("delegate").PublicKey()
	a.Participants[2].PubKey, a.Participants[2].AddressCommitment = "", commitment("p3")
	a.Participants[3].Label = "`p9`, initiator <b>\u202e"
	golden(t, "hostile.md", []byte(a.Markdown()))
}

// texts are the parties' texts of an agreement.
type texts struct {
	title, objective string
	must, mustNot    []string
	labels           []string
}

// readMarkdown is a second reader of the layout, written from its
// specification: sections by heading, quotes by their mark.
func readMarkdown(t rapid.TB, md string) texts {
	t.Helper()
	var out texts
	section := ""
	var quotes [][]string
	flush := func() {
		var read []string
		for _, q := range quotes {
			read = append(read, unquote(t, q))
		}
		switch section {
		case "Objective":
			out.objective = read[0]
		case "Must":
			out.must = read
		case "Must not":
			out.mustNot = read
		case "Participants":
			out.labels = read
		}
		quotes = nil
	}
	for i, line := range strings.Split(strings.TrimSuffix(md, "\n"), "\n") {
		mark, rest, quoted := cutQuote(line)
		switch {
		case i == 0:
			out.title = unescape(t, strings.TrimPrefix(line, "# "))
		case strings.HasPrefix(line, "## "):
			flush()
			section = line[3:]
		case quoted && (mark || len(quotes) == 0 || section == "Participants"):
			quotes = append(quotes, []string{rest})
		case quoted:
			quotes[len(quotes)-1] = append(quotes[len(quotes)-1], rest)
		}
	}
	flush()
	return out
}

var quoteLine = regexp.MustCompile(`^( *|[0-9]+\. )>(?: (.*))?$`)

// cutQuote splits a quoted line; mark tells whether it begins a list item.
func cutQuote(line string) (mark bool, rest string, ok bool) {
	m := quoteLine.FindStringSubmatch(line)
	if m == nil {
		return false, "", false
	}
	return strings.HasSuffix(m[1], ". "), m[2], true
}

func unquote(t rapid.TB, lines []string) string {
	t.Helper()
	out := make([]string, len(lines))
	for i, line := range lines {
		if i+1 < len(lines) && line != "" && lines[i+1] != "" {
			cut, ok := strings.CutSuffix(line, `\`)
			if !ok {
				t.Fatalf("no hard break: %q", line)
			}
			line = cut
		}
		out[i] = unescape(t, line)
	}
	return strings.Join(out, "\n")
}

var escaped = regexp.MustCompile(`\\(.)|&#([0-9]+);|&#x([0-9A-F]+);`)

func unescape(t rapid.TB, s string) string {
	t.Helper()
	return escaped.ReplaceAllStringFunc(s, func(m string) string {
		if m[0] == '\\' {
			return m[1:]
		}
		digits, base := m[2:len(m)-1], 10
		if digits[0] == 'x' {
			digits, base = digits[1:], 16
		}
		n, err := strconv.ParseInt(digits, base, 32)
		if err != nil {
			t.Fatalf("%s: %v", m, err)
		}
		return string(rune(n))
	})
}
