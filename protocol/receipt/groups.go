package receipt

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// checkGroup judges the value of one extension group found at the pointer
// base. The value is decoded JSON: map[string]any, []any, string, float64, bool
// or nil. A key that names no registered group is not known and judged by
// nobody (WIRE-0.2, sections 12 and 13).
func checkGroup(key string, value any, base string) (known bool, err *Error) {
	judge, known := groups[key]
	if !known {
		return false, nil
	}
	return true, judge(value, base)
}

// A rule judges one value found at the pointer at. Groups are written as
// rules made of rules, so that what a group may hold is data and reads as such.
type rule func(value any, at string) *Error

// A field is one member of an object.
type field struct {
	name     string
	required bool
	judge    rule
}

func need(name string, judge rule) field { return field{name: name, required: true, judge: judge} }

func may(name string, judge rule) field { return field{name: name, judge: judge} }

// object is an object of these members and no others.
func object(fields ...field) rule {
	named := make(map[string]bool, len(fields))
	for _, f := range fields {
		named[f.name] = true
	}
	open := openObject(fields...)
	return func(value any, at string) *Error {
		if err := open(value, at); err != nil {
			return err
		}
		for _, name := range slices.Sorted(maps.Keys(value.(map[string]any))) {
			if !named[name] {
				return refuse(CodeInvalidFormat, below(at, name), "unknown member")
			}
		}
		return nil
	}
}

// openObject is an object with at least these members; others are not judged.
func openObject(fields ...field) rule {
	return func(value any, at string) *Error {
		members, ok := value.(map[string]any)
		if !ok {
			return refuse(CodeInvalidFormat, at, "not an object")
		}
		for _, f := range fields {
			member, present := members[f.name]
			if !present {
				if f.required {
					return refuse(CodeInvalidFormat, below(at, f.name), "missing")
				}
				continue
			}
			if err := f.judge(member, below(at, f.name)); err != nil {
				return err
			}
		}
		return nil
	}
}

// list is an array of low to high items.
func list(low, high int, item rule) rule {
	return func(value any, at string) *Error {
		items, ok := value.([]any)
		if !ok {
			return refuse(CodeInvalidFormat, at, "not an array")
		}
		if len(items) < low || len(items) > high {
			return refuse(CodeInvalidFormat, at, "not %d to %d items", low, high)
		}
		for i, v := range items {
			if err := item(v, belowItem(at, i)); err != nil {
				return err
			}
		}
		return nil
	}
}

// distinct is an array of different strings of low to high items.
func distinct(low, high int, item rule) rule {
	plain := list(low, high, item)
	return func(value any, at string) *Error {
		if err := plain(value, at); err != nil {
			return err
		}
		seen := make(map[any]bool)
		for i, v := range value.([]any) {
			if seen[v] {
				return refuse(CodeInvalidFormat, belowItem(at, i), "named twice")
			}
			seen[v] = true
		}
		return nil
	}
}

// text is a string of low to high characters, counted as code points.
func text(low, high int) rule {
	return func(value any, at string) *Error {
		s, ok := value.(string)
		if !ok {
			return refuse(CodeInvalidFormat, at, "not a string")
		}
		if n := utf8.RuneCountInString(s); n < low || n > high {
			return refuse(CodeInvalidFormat, at, "not %d to %d characters", low, high)
		}
		return nil
	}
}

// form is a text of at most high characters that holds to a grammar; name
// says which in a refusal.
func form(high int, name string, holds func(string) bool) rule {
	plain := text(1, high)
	return func(value any, at string) *Error {
		if err := plain(value, at); err != nil {
			return err
		}
		if !holds(value.(string)) {
			return refuse(CodeInvalidFormat, at, "not %s", name)
		}
		return nil
	}
}

// oneOf is one of these words.
func oneOf(words ...string) rule {
	return func(value any, at string) *Error {
		if s, ok := value.(string); !ok || !slices.Contains(words, s) {
			return refuse(CodeInvalidFormat, at, "none of %s", strings.Join(words, ", "))
		}
		return nil
	}
}

// integer is a whole number from low to high.
func integer(low, high float64) rule {
	return func(value any, at string) *Error {
		n, ok := value.(float64)
		if !ok || n != math.Trunc(n) || n < low || n > high {
			return refuse(CodeInvalidFormat, at, "not a whole number from %v to %v", low, high)
		}
		return nil
	}
}

// flag is true or false.
func flag(value any, at string) *Error {
	if _, ok := value.(bool); !ok {
		return refuse(CodeInvalidFormat, at, "neither true nor false")
	}
	return nil
}

// below is the pointer to a member of what at points to (RFC 6901).
func below(at, name string) string { return at + "/" + pointerEscapes.Replace(name) }

func belowItem(at string, i int) string { return at + "/" + strconv.Itoa(i) }

var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")
