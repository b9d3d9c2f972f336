package agreement

import (
	"fmt"
	"strings"
)

// quote renders text as a block quote: every line of it on a line of its own
// behind "> ", an empty one as ">". A line that is followed by another within
// a paragraph ends with a backslash, CommonMark's hard line break.
func quote(first, rest, text string) []string {
	lines := strings.Split(text, "\n")
	out := make([]string, len(lines))
	for i, line := range lines {
		prefix := rest
		if i == 0 {
			prefix = first
		}
		out[i] = prefix + ">"
		if line == "" {
			continue
		}
		out[i] += " " + escapeLine(line)
		if i+1 < len(lines) && lines[i+1] != "" {
			out[i] += `\`
		}
	}
	return out
}

// always are the characters that can mean something to CommonMark, GFM or an
// HTML renderer anywhere in a line. Each is written behind a backslash. The
// backslash itself is not among them: it is written as a character reference,
// since readers disagree on "\\\" before a line break.
const always = "`*_[]<>#|~&$@"

// escapeLine renders one line so that a CommonMark reader shows exactly its
// characters and nothing else. Different lines have different renderings.
func escapeLine(line string) string {
	body := strings.TrimLeft(line, " \t")
	lead := line[:len(line)-len(body)]
	core := strings.TrimRight(body, " \t")
	var b strings.Builder
	writeSpaces(&b, lead)
	mark := startMark(core)
	for i, r := range core {
		switch {
		case i == mark || strings.ContainsRune(always, r) || linkMark(core, i):
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\\':
			b.WriteString("&#92;")
		case hidden(r):
			fmt.Fprintf(&b, "&#x%X;", r)
		default:
			b.WriteRune(r)
		}
	}
	writeSpaces(&b, body[len(core):])
	return b.String()
}

// startMark is the index of the character that would begin a list, a heading
// underline, a thematic break or a definition if the line began with it, or -1.
func startMark(core string) int {
	rest := strings.TrimLeft(core, "0123456789")
	at := len(core) - len(rest)
	switch {
	case rest == "":
		return -1
	case at == 0 && strings.IndexByte("-+=:", rest[0]) >= 0:
		return 0
	case at > 0 && strings.IndexByte(".)", rest[0]) >= 0:
		return at
	}
	return -1
}

// linkMark tells whether the byte at i would make a bare address a link: the
// colon of "://" or the dot of "www.". The escapes inside such an address
// would give the link another target than its text says.
func linkMark(core string, i int) bool {
	switch core[i] {
	case ':':
		return strings.HasPrefix(core[i:], "://")
	case '.':
		return i >= 3 && strings.EqualFold(core[i-3:i], "www")
	}
	return false
}

// writeSpaces writes blanks at the ends of a line as character references:
// there they would make code blocks or line breaks, or be dropped.
func writeSpaces(b *strings.Builder, blanks string) {
	for _, r := range blanks {
		fmt.Fprintf(b, "&#%d;", r)
	}
}

// hiddenRanges are the code points that show nothing, break lines or reorder
// what stands around them. The list is fixed here, not taken from a Unicode
// version, since the Markdown must stay exact. U+200C and U+200D are absent:
// scripts and emoji need them.
var hiddenRanges = [][2]rune{
	{0x00AD, 0x00AD},
	{0x034F, 0x034F},
	{0x061C, 0x061C},
	{0x115F, 0x1160},
	{0x17B4, 0x17B5},
	{0x180B, 0x180F},
	{0x200B, 0x200B},
	{0x200E, 0x200F},
	{0x2028, 0x202E},
	{0x2060, 0x206F},
	{0x3164, 0x3164},
	{0xFEFF, 0xFEFF},
	{0xFFA0, 0xFFA0},
	{0xFFF9, 0xFFFB},
	{0x1D173, 0x1D17A},
	{0xE0000, 0xE0FFF},
}

func hidden(r rune) bool {
	for _, pair := range hiddenRanges {
		if r >= pair[0] && r <= pair[1] {
			return true
		}
	}
	return false
}
