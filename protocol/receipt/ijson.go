package receipt

import (
	"strconv"
	"unicode/utf8"
)

// reader reads one JSON text in a single pass: it is the I-JSON gate (RFC 7493),
// the structural limits and the parser in one, so no two of them can see
// different values in the same bytes. What a general parser reports as one
// kind of error has three codes here.
type reader struct {
	data  []byte
	at    int
	depth int
	nodes int
	sizes map[string]int // bytes of each value of the outermost object
}

// readObject reads a text that is one object. sizes tells how many bytes each
// of its members takes in the text. The first fault ends the reading; one
// beyond a structural limit has CodeConstraint.
func readObject(data []byte) (members map[string]any, sizes map[string]int, err *Error) {
	r := &reader{data: data, sizes: make(map[string]int)}
	r.space()
	if r.peek() != '{' {
		return nil, nil, refuse(CodeInvalidFormat, "", "not a JSON object")
	}
	value, err := r.value()
	if err != nil {
		return nil, nil, err
	}
	r.space()
	if r.at < len(r.data) {
		return nil, nil, r.unexpected()
	}
	return value.(map[string]any), r.sizes, nil
}

// value reads one value; white space before it is already skipped.
func (r *reader) value() (any, *Error) {
	if r.nodes++; r.nodes > MaxNodes {
		return nil, refuse(CodeConstraint, "", "more than %d values", MaxNodes)
	}
	switch c := r.peek(); {
	case c == '{':
		return r.nested(r.object)
	case c == '[':
		return r.nested(r.array)
	case c == '"':
		return r.text()
	case c == '-' || isDigit(c):
		return r.number()
	case c == 't':
		return true, r.word("true")
	case c == 'f':
		return false, r.word("false")
	case c == 'n':
		return nil, r.word("null")
	}
	return nil, r.unexpected()
}

// nested reads an object or array one level down.
func (r *reader) nested(read func() (any, *Error)) (any, *Error) {
	if r.depth++; r.depth > MaxDepth {
		return nil, refuse(CodeConstraint, "", "nested deeper than %d", MaxDepth)
	}
	r.at++
	value, err := read()
	r.depth--
	return value, err
}

func (r *reader) object() (any, *Error) {
	members := make(map[string]any)
	for first := true; ; first = false {
		r.space()
		if first && r.peek() == '}' {
			r.at++
			return members, nil
		}
		if r.peek() != '"' {
			return nil, r.unexpected()
		}
		name, err := r.text()
		if err != nil {
			return nil, err
		}
		if _, twice := members[name]; twice {
			return nil, refuse(CodeIJSONDuplicateName, below("", name), "the name stands there twice")
		}
		if len(members) == MaxKeys {
			return nil, refuse(CodeConstraint, "", "an object of more than %d keys", MaxKeys)
		}
		value, err := r.member(name)
		if err != nil {
			return nil, under(name, err)
		}
		members[name] = value
		if more, err := r.more('}'); err != nil || !more {
			return members, err
		}
	}
}

// member reads what follows a name and notes its size.
func (r *reader) member(name string) (any, *Error) {
	r.space()
	if r.peek() != ':' {
		return nil, r.unexpected()
	}
	r.at++
	r.space()
	start := r.at
	value, err := r.value()
	if r.depth == 1 {
		r.sizes[name] = r.at - start
	}
	return value, err
}

func (r *reader) array() (any, *Error) {
	items := []any{}
	for {
		r.space()
		if len(items) == 0 && r.peek() == ']' {
			r.at++
			return items, nil
		}
		if len(items) == MaxItems {
			return nil, refuse(CodeConstraint, "", "an array of more than %d items", MaxItems)
		}
		value, err := r.value()
		if err != nil {
			return nil, under(strconv.Itoa(len(items)), err)
		}
		items = append(items, value)
		if more, err := r.more(']'); err != nil || !more {
			return items, err
		}
	}
}

// more reads what stands after a member or item: a comma, or the end.
func (r *reader) more(end byte) (bool, *Error) {
	r.space()
	switch r.peek() {
	case ',':
		r.at++
		return true, nil
	case end:
		r.at++
		return false, nil
	}
	return false, r.unexpected()
}

func (r *reader) word(word string) *Error {
	if len(r.data)-r.at < len(word) || string(r.data[r.at:r.at+len(word)]) != word {
		return r.unexpected()
	}
	r.at += len(word)
	return nil
}

// peek is the next byte, 0 at the end: no JSON has a zero byte outside strings.
func (r *reader) peek() byte {
	if r.at < len(r.data) {
		return r.data[r.at]
	}
	return 0
}

func (r *reader) space() {
	for r.at < len(r.data) {
		switch r.data[r.at] {
		case ' ', '\t', '\n', '\r':
			r.at++
		default:
			return
		}
	}
}

// unexpected is the refusal of the next byte.
func (r *reader) unexpected() *Error {
	if r.at >= len(r.data) {
		return refuse(CodeInvalidFormat, "", "unexpected end of the JSON")
	}
	if c, size := utf8.DecodeRune(r.data[r.at:]); c == utf8.RuneError && size == 1 {
		return refuse(CodeIJSONString, "", "invalid UTF-8 at byte %d", r.at)
	}
	return refuse(CodeInvalidFormat, "", "unexpected character at byte %d of the JSON", r.at)
}

// under moves a refusal below a name.
func under(name string, err *Error) *Error {
	err.Pointer = below("", name) + err.Pointer
	return err
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
