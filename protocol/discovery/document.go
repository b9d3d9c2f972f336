package discovery

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/parleykit/parley/protocol/canonical"
	"github.com/parleykit/parley/protocol/receipt"
)

// limits are what a kind of document may be, and how more is refused.
type limits struct {
	bytes, depth, items, text int
	tooLarge, invalid         receipt.Code
}

// decodeJSON reads one JSON object within the limits.
func (l limits) decodeJSON(data []byte) (*object, error) {
	if len(data) > l.bytes {
		return nil, refuse(l.tooLarge, "", "%d bytes, at most %d", len(data), l.bytes)
	}
	var value any
	if err := canonical.Check(data); err != nil {
		return nil, refuse(l.invalid, "", "not valid JSON: %v", err)
	}
	if err := json.Unmarshal(data, &value); err != nil {
		return nil, refuse(l.invalid, "", "not valid JSON")
	}
	return l.object(value)
}

// object checks a decoded value against the limits and opens it.
func (l limits) object(value any) (*object, error) {
	members, ok := value.(map[string]any)
	if !ok {
		return nil, refuse(l.invalid, "", "not an object")
	}
	if at, fault := l.check(value, 1); fault != "" {
		return nil, refuse(l.invalid, at, "%s", fault)
	}
	return &object{code: l.invalid, members: members}, nil
}

// check finds what is beyond a limit, "" for nothing, and where. The pointer is
// made on the way back: made for every value, it would repeat a long name for
// each of them.
func (l limits) check(value any, depth int) (at, fault string) {
	switch v := value.(type) {
	case string:
		if len(v) > l.text {
			return "", fmt.Sprintf("a text of more than %d bytes", l.text)
		}
	case map[string]any:
		if depth > l.depth {
			return "", fmt.Sprintf("nested deeper than %d", l.depth)
		}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if at, fault := l.check(v[name], depth+1); fault != "" {
				return below("", name) + at, fault
			}
		}
	case []any:
		if depth > l.depth || len(v) > l.items {
			return "", fmt.Sprintf("nested deeper than %d or more than %d items", l.depth, l.items)
		}
		for i, item := range v {
			if at, fault := l.check(item, depth+1); fault != "" {
				return below("", strconv.Itoa(i)) + at, fault
			}
		}
	}
	return "", ""
}

var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")

// below is the pointer to a member of what at points to (RFC 6901).
func below(at, name string) string { return at + "/" + pointerEscapes.Replace(name) }

// An object reads members by their names and keeps the first thing that is
// wrong. Members nobody asks for are passed over: later versions may have them.
type object struct {
	code    receipt.Code
	at      string
	members map[string]any
	err     error
}

func (o *object) fail(name, format string, args ...any) {
	if o.err == nil {
		o.err = refuse(o.code, below(o.at, name), format, args...)
	}
}

// text is a string that holds something, "" where it is missing.
func (o *object) text(name string) string {
	value, present := o.members[name]
	text, ok := value.(string)
	if present && (!ok || text == "") {
		o.fail(name, "not a text")
	}
	return text
}

// required is a text that must be there.
func (o *object) required(name string) string {
	if _, present := o.members[name]; !present {
		o.fail(name, "missing")
	}
	return o.text(name)
}

// word is a text out of a set.
func (o *object) word(name string, set ...string) string {
	word := o.text(name)
	if word != "" && !slices.Contains(set, word) {
		o.fail(name, "none of %s", strings.Join(set, ", "))
	}
	return word
}

// link is an https URL.
func (o *object) link(name string) string {
	link := o.text(name)
	if link != "" && !receipt.IsHTTPS(link) {
		o.fail(name, "not an https URL without user of at most %d bytes", receipt.MaxReceiptURL)
	}
	return link
}

// texts is a list of texts, nil where it is missing: an empty one says that
// there is none.
func (o *object) texts(name string) []string {
	items := o.list(name)
	if items == nil {
		return nil
	}
	texts := make([]string, 0, len(items))
	for i, item := range items {
		text, ok := item.(string)
		if !ok || text == "" {
			o.fail(name, "item %d is not a text", i)
			return nil
		}
		texts = append(texts, text)
	}
	return texts
}

func (o *object) list(name string) []any {
	value, present := o.members[name]
	items, ok := value.([]any)
	if present && !ok {
		o.fail(name, "not a list")
	}
	return items
}

// number is a number from 0 up, nil where it is missing.
func (o *object) number(name string) *float64 {
	value, present := o.members[name]
	if !present {
		return nil
	}
	number, ok := value.(float64)
	if !ok || number < 0 {
		o.fail(name, "not a number from 0 up")
		return nil
	}
	return &number
}

// objects is a list of objects of at most high, each opened.
func (o *object) objects(name string, high int) []*object {
	items := o.list(name)
	if len(items) > high {
		o.fail(name, "%d items, at most %d", len(items), high)
		return nil
	}
	opened := make([]*object, 0, len(items))
	for i, item := range items {
		members, ok := item.(map[string]any)
		if !ok {
			o.fail(name, "item %d is not an object", i)
			return nil
		}
		opened = append(opened, &object{code: o.code, at: below(below(o.at, name), strconv.Itoa(i)), members: members})
	}
	return opened
}

// supported reports whether version is name + "/0." and digits: another major
// version may mean anything, a later minor one only more.
func supported(version, name string) bool {
	minor, found := strings.CutPrefix(version, name+"/0.")
	_, err := strconv.ParseUint(minor, 10, 16)
	return found && err == nil
}
