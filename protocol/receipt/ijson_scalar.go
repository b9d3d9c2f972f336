package receipt

import (
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// text reads a string; the next byte is its opening quote.
func (r *reader) text() (string, *Error) {
	r.at++
	start := r.at
	for r.at < len(r.data) && isPlain(r.data[r.at]) {
		r.at++
	}
	if r.peek() == '"' {
		r.at++
		return bounded(string(r.data[start : r.at-1]))
	}
	decoded := append([]byte(nil), r.data[start:r.at]...)
	for r.at < len(r.data) {
		switch c := r.data[r.at]; {
		case c == '"':
			r.at++
			return bounded(string(decoded))
		case c == '\\':
			char, err := r.escape()
			if err != nil {
				return "", err
			}
			decoded = utf8.AppendRune(decoded, char)
		case c < ' ':
			return "", refuse(CodeIJSONString, "", "a control character at byte %d", r.at)
		default:
			char, size := utf8.DecodeRune(r.data[r.at:])
			if char == utf8.RuneError && size == 1 {
				return "", refuse(CodeIJSONString, "", "invalid UTF-8 at byte %d", r.at)
			}
			if isNoncharacter(char) {
				return "", refuse(CodeIJSONString, "", "the noncharacter U+%04X", char)
			}
			decoded = append(decoded, r.data[r.at:r.at+size]...)
			r.at += size
		}
	}
	return "", refuse(CodeIJSONString, "", "a string without an end")
}

// isPlain tells the characters that stand for themselves in one byte.
func isPlain(c byte) bool { return ' ' <= c && c < utf8.RuneSelf && c != '"' && c != '\\' }

// bounded refuses a string that is too long. UTF-8 never takes fewer bytes
// than UTF-16 takes units, so most strings are not counted.
func bounded(s string) (string, *Error) {
	if len(s) > MaxString && utf16Length(s) > MaxString {
		return "", refuse(CodeConstraint, "", "a string of more than %d UTF-16 code units", MaxString)
	}
	return s, nil
}

var shortEscapes = map[byte]rune{
	'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t',
}

// escape reads an escape sequence; the next byte is its backslash.
func (r *reader) escape() (rune, *Error) {
	start := r.at
	if r.at+1 >= len(r.data) {
		return 0, refuse(CodeIJSONString, "", "a string without an end")
	}
	kind := r.data[r.at+1]
	if char, short := shortEscapes[kind]; short {
		r.at += 2
		return char, nil
	}
	char, ok := r.codeUnit()
	if ok && utf16.IsSurrogate(char) {
		var low rune
		low, ok = r.codeUnit()
		char = utf16.DecodeRune(char, low)
		ok = ok && char != utf8.RuneError
	}
	switch {
	case !ok:
		return 0, refuse(CodeIJSONString, "", "a bad escape or a lone surrogate at byte %d", start)
	case isNoncharacter(char):
		return 0, refuse(CodeIJSONString, "", "the noncharacter U+%04X", char)
	}
	return char, nil
}

// codeUnit reads a backslash, u and four hex digits.
func (r *reader) codeUnit() (rune, bool) {
	const length = len(`\u0000`)
	if len(r.data)-r.at < length || r.data[r.at] != '\\' || r.data[r.at+1] != 'u' {
		return 0, false
	}
	unit := rune(0)
	for _, c := range r.data[r.at+2 : r.at+length] {
		digit := strings.IndexByte("0123456789abcdef", c|0x20)
		if digit < 0 || c < '0' {
			return 0, false
		}
		unit = unit<<4 | rune(digit)
	}
	r.at += length
	return unit, true
}

// isNoncharacter tells the code points that Unicode sets aside for no
// character (The Unicode Standard, section 23.7).
func isNoncharacter(char rune) bool {
	return char >= 0xFDD0 && char <= 0xFDEF || char&0xFFFE == 0xFFFE
}

// number reads a number of the JSON grammar that is at most 2^53-1 either way.
func (r *reader) number() (any, *Error) {
	start := r.at
	if r.peek() == '-' {
		r.at++
	}
	whole := r.digits()
	if whole == 0 || whole > 1 && r.data[r.at-whole] == '0' {
		return nil, refuse(CodeInvalidFormat, "", "not a number at byte %d", start)
	}
	exact := whole <= 15 // digits alone, and below 2^53-1 whatever they are
	if r.peek() == '.' {
		r.at++
		if exact = false; r.digits() == 0 {
			return nil, r.unexpected()
		}
	}
	if r.peek()|0x20 == 'e' {
		r.at++
		if c := r.peek(); c == '+' || c == '-' {
			r.at++
		}
		if exact = false; r.digits() == 0 {
			return nil, r.unexpected()
		}
	}
	text := string(r.data[start:r.at])
	if !exact && beyondSafe(text) {
		return nil, refuse(CodeIJSONNumber, "", "a number beyond 2^53-1")
	}
	value, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return nil, refuse(CodeIJSONNumber, "", "a number out of range")
	}
	return value, nil
}

// digits skips digits and says how many there were.
func (r *reader) digits() int {
	start := r.at
	for isDigit(r.peek()) {
		r.at++
	}
	return r.at - start
}

// beyondSafe compares the number as it is written, not as a double would
// round it, with 2^53-1.
func beyondSafe(text string) bool {
	largest := strconv.FormatInt(maxSafeInteger, 10)
	mantissa, exponent, _ := strings.Cut(strings.ToLower(strings.TrimPrefix(text, "-")), "e")
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	if digits == "" {
		return false
	}
	// The number is 0.digits times ten to the power of point.
	point := len(digits) - len(fraction)
	if exponent != "" {
		power, err := strconv.Atoi(exponent)
		if err != nil { // beyond any length of digits
			return !strings.HasPrefix(exponent, "-")
		}
		if power > MaxJWS || power < -MaxJWS { // no length of digits makes up for it
			return power > 0
		}
		point += power
	}
	if point != len(largest) {
		return point > len(largest)
	}
	if pad := len(largest) - len(digits); pad > 0 {
		digits += strings.Repeat("0", pad)
	}
	if digits[:len(largest)] != largest {
		return digits[:len(largest)] > largest
	}
	return strings.Trim(digits[len(largest):], "0") != ""
}

// utf16Length is the length of s in UTF-16 code units.
func utf16Length(s string) int {
	n := 0
	for _, char := range s {
		n += utf16.RuneLen(char)
	}
	return n
}
