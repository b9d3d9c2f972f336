package discovery

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"

	"github.com/parleykit/parley/protocol/receipt"
)

// decodeYAML reads the subset of YAML 1.2 that doc.go describes into the values
// that JSON has. The limits are for whoever opens the value; depth costs bytes
// here, since each level is indented further than the one before.
func decodeYAML(data []byte) (any, error) {
	lines, err := splitYAML(data)
	if err != nil {
		return nil, err
	}
	if len(lines) == 0 {
		return nil, refuse(receipt.CodePolicyInvalid, "", "empty")
	}
	p := &yamlParser{lines}
	value, err := p.block()
	if err == nil && len(p.lines) > 0 {
		err = p.lines[0].refuse("indented otherwise than what it belongs to")
	}
	return value, err
}

// yamlLine is a line that says something.
type yamlLine struct {
	number, indent int
	text           string // without indentation, never empty
}

func (l yamlLine) refuse(format string, args ...any) error {
	return l.refuseAs(receipt.CodePolicyInvalid, format, args...)
}

func (l yamlLine) refuseAs(code receipt.Code, format string, args ...any) error {
	return refuse(code, "", "line %d: %s", l.number, fmt.Sprintf(format, args...))
}

func (l yamlLine) isItem() bool { return l.text == "-" || strings.HasPrefix(l.text, "- ") }

// splitYAML drops what says nothing, and refuses what would make more than one
// document or be read differently by different readers.
func splitYAML(data []byte) ([]yamlLine, error) {
	if !utf8.Valid(data) {
		return nil, refuse(receipt.CodePolicyInvalid, "", "not UTF-8")
	}
	var lines []yamlLine
	marked := false
	number := 0
	for raw := range strings.SplitSeq(string(data), "\n") {
		number++
		raw = strings.TrimRight(strings.TrimSuffix(raw, "\r"), " ")
		text := strings.TrimLeft(raw, " ")
		line := yamlLine{number, len(raw) - len(text), text}
		if strings.ContainsFunc(text, unprintable) {
			return nil, line.refuse("a character that is no text")
		}
		if text == "" || text[0] == '#' {
			continue
		}
		if text[0] == '%' {
			return nil, line.refuse("a directive")
		}
		if line.indent == 0 && text == "---" && !marked && len(lines) == 0 {
			marked = true
			continue
		}
		if line.indent == 0 && (strings.HasPrefix(text, "---") || strings.HasPrefix(text, "...")) {
			return nil, line.refuseAs(receipt.CodePolicyMultiDocument, "more than one document")
		}
		lines = append(lines, line)
	}
	return lines, nil
}

// unprintable are the characters that YAML forbids or that some readers take
// for a line's end.
func unprintable(r rune) bool {
	return r < ' ' || r >= 0x7f && r <= 0x9f || r == '\u2028' || r == '\u2029' || r == '\ufeff'
}

// yamlParser holds the lines that are not read yet.
type yamlParser struct {
	lines []yamlLine
}

// block reads the map or list whose first line is next.
func (p *yamlParser) block() (any, error) {
	if p.lines[0].isItem() {
		return p.list(p.lines[0].indent)
	}
	return p.mapping(p.lines[0].indent)
}

func (p *yamlParser) list(indent int) (any, error) {
	items := []any{}
	for len(p.lines) > 0 && p.lines[0].indent == indent && p.lines[0].isItem() {
		line := p.lines[0]
		p.lines = p.lines[1:]
		item, err := line.value(strings.TrimLeft(line.text[1:], " "), false)
		if err != nil {
			return nil, err
		}
		items = append(items, item)
	}
	return items, nil
}

func (p *yamlParser) mapping(indent int) (any, error) {
	members := map[string]any{}
	for len(p.lines) > 0 && p.lines[0].indent == indent {
		line := p.lines[0]
		key, rest, err := line.key()
		if err != nil {
			return nil, err
		}
		if _, twice := members[key]; twice {
			return nil, line.refuse("a key for the second time")
		}
		p.lines = p.lines[1:]
		if rest != "" && rest[0] != '#' {
			members[key], err = line.value(rest, true)
		} else {
			members[key], err = p.nested(indent)
		}
		if err != nil {
			return nil, err
		}
	}
	return members, nil
}

// nested reads what follows a key that has nothing on its line: lines further
// in, or a list at the same place, or null.
func (p *yamlParser) nested(indent int) (any, error) {
	if len(p.lines) == 0 {
		return nil, nil
	}
	next := p.lines[0]
	if next.indent > indent || next.indent == indent && next.isItem() {
		return p.block()
	}
	return nil, nil
}

var plainKey = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_./-]*$`)

// key splits a line of a map into its key and what follows the colon.
func (l yamlLine) key() (key, rest string, err error) {
	quoted := l.text[0] == '"' || l.text[0] == '\''
	if quoted {
		key, rest, err = l.quoted(l.text)
		if err != nil {
			return "", "", err
		}
		if !strings.HasPrefix(rest, ":") {
			return "", "", l.refuse("a key without its colon")
		}
		rest = rest[1:]
	} else {
		if err := l.indicator(l.text); err != nil {
			return "", "", err
		}
		var found bool
		if key, rest, found = strings.Cut(l.text, ":"); !found {
			return "", "", l.refuse("neither a key with its value nor an item")
		}
	}
	if key == "<<" { // in quotes, too
		return "", "", l.refuseAs(receipt.CodePolicyYAMLInjection, "a merge key")
	}
	if rest != "" && rest[0] != ' ' {
		return "", "", l.refuse("no space after a key's colon")
	}
	if value, err := l.scalar(key); !quoted && (err != nil || value != any(key) || !plainKey.MatchString(key)) {
		return "", "", l.refuse("a key that is not a plain or quoted text")
	}
	return key, strings.TrimLeft(rest, " "), nil
}

// indicator refuses text that begins as something the subset does not have.
func (l yamlLine) indicator(text string) error {
	switch text[0] {
	case '&', '*':
		return l.refuseAs(receipt.CodePolicyYAMLInjection, "an anchor or alias")
	case '!':
		return l.refuseAs(receipt.CodePolicyYAMLInjection, "a tag")
	case '?', ':', ',', ']', '{', '}', '|', '>', '%', '@', '`', '#', '[', '"', '\'':
		return l.refuse("a form of YAML that policies do not have")
	}
	if text == "-" || strings.HasPrefix(text, "- ") {
		return l.refuse("an item within a value")
	}
	return nil
}

// value reads the rest of a line: a scalar or, where a list may stand, a list.
func (l yamlLine) value(text string, mayList bool) (any, error) {
	if text == "" {
		return nil, l.refuse("an item without a value")
	}
	var value any
	var rest string
	var err error
	switch {
	case text[0] == '[' && mayList:
		value, rest, err = l.flow(text[1:])
	case text[0] == '"' || text[0] == '\'':
		value, rest, err = l.quoted(text)
	default:
		if before, _, found := strings.Cut(text, " #"); found {
			text = strings.TrimRight(before, " ")
		}
		return l.plain(text)
	}
	if err != nil {
		return nil, err
	}
	if comment := strings.TrimLeft(rest, " "); comment != "" && (comment[0] != '#' || comment == rest) {
		return nil, l.refuse("something after a value")
	}
	return value, nil
}

// flow reads scalars with commas between up to the bracket that closes them.
func (l yamlLine) flow(text string) (items []any, rest string, err error) {
	items = []any{}
	for {
		text = strings.TrimLeft(text, " ")
		if strings.HasPrefix(text, "]") {
			return items, text[1:], nil
		}
		var item any
		if item, text, err = l.flowItem(text); err != nil {
			return nil, "", err
		}
		items = append(items, item)
		text = strings.TrimLeft(text, " ")
		if after, more := strings.CutPrefix(text, ","); more {
			text = after
		} else if !strings.HasPrefix(text, "]") {
			return nil, "", l.refuse("a list that is not closed on its line")
		}
	}
}

func (l yamlLine) flowItem(text string) (item any, rest string, err error) {
	if text != "" && (text[0] == '"' || text[0] == '\'') {
		return l.quoted(text)
	}
	end := strings.IndexAny(text, ",[]{}")
	if end < 0 || strings.Contains(text[:end], " #") {
		return nil, "", l.refuse("a list that is not closed on its line")
	}
	if end == 0 {
		return nil, "", l.refuse("an item without a value")
	}
	item, err = l.plain(strings.TrimRight(text[:end], " "))
	return item, text[end:], err
}

// surrogate finds the escapes that readers of YAML put together differently.
var surrogate = regexp.MustCompile(`\\u[dD][89a-fA-F]`)

// quoted reads a quoted scalar at the beginning of text. The escapes of double
// quotes are those of JSON.
func (l yamlLine) quoted(text string) (value, rest string, err error) {
	if text[0] == '\'' {
		return l.singleQuoted(text[1:])
	}
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			if surrogate.MatchString(text[:i]) || json.Unmarshal([]byte(text[:i+1]), &value) != nil {
				return "", "", l.refuse("an escape that policies do not have")
			}
			return value, text[i+1:], nil
		}
	}
	return "", "", l.refuse("a quote that is not closed on its line")
}

func (l yamlLine) singleQuoted(text string) (value, rest string, err error) {
	var out strings.Builder
	for {
		before, after, found := strings.Cut(text, "'")
		if !found {
			return "", "", l.refuse("a quote that is not closed on its line")
		}
		out.WriteString(before)
		if !strings.HasPrefix(after, "'") {
			return out.String(), after, nil
		}
		out.WriteByte('\'')
		text = after[1:]
	}
}

// plain reads a scalar without quotes.
func (l yamlLine) plain(text string) (any, error) {
	if err := l.indicator(text); err != nil {
		return nil, err
	}
	if strings.Contains(text, ": ") || strings.HasSuffix(text, ":") {
		return nil, l.refuse("a key within a value")
	}
	return l.scalar(text)
}

// Plain scalars of the core schema (YAML 1.2.2, section 10.3.2).
var (
	yamlNull   = []string{"~", "null", "Null", "NULL"}
	yamlTrue   = []string{"true", "True", "TRUE"}
	yamlFalse  = []string{"false", "False", "FALSE"}
	yamlNumber = regexp.MustCompile(`^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$`)
	// yamlUnfit are numbers that JSON lacks or that readers differ on.
	yamlUnfit = regexp.MustCompile(`^([-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)|[-+]?0[oOxXbB][0-9a-fA-F_]+|[-+]?0[0-9]+)$`)
)

// scalar gives a plain scalar its type.
func (l yamlLine) scalar(text string) (any, error) {
	switch {
	case text == "<<": // some readers merge even where it is a value
		return nil, l.refuseAs(receipt.CodePolicyYAMLInjection, "a merge key")
	case slices.Contains(yamlNull, text):
		return nil, nil
	case slices.Contains(yamlTrue, text):
		return true, nil
	case slices.Contains(yamlFalse, text):
		return false, nil
	case yamlUnfit.MatchString(text):
		return nil, l.refuse("a number that JSON does not have")
	case !yamlNumber.MatchString(text):
		return text, nil
	}
	number, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return nil, l.refuse("a number that is out of range")
	}
	return number, nil
}
