package canonical

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Limits of the gate. A document beyond one of them is refused unread.
const (
	MaxSize   = 4 << 20 // bytes of one document
	MaxDepth  = 32      // nested objects and arrays
	MaxTokens = 200_000 // names, values and brackets of one document
)

// maxSafeInteger is the largest integer an IEEE 754 double holds exactly
// (RFC 7493, section 2.2).
const maxSafeInteger = 1<<53 - 1

// firstExponent is the smallest number RFC 8785 spells with an exponent; from
// there on a number no longer reads as an exact integer.
const firstExponent = 1e21

// ErrNotIJSON is wrapped by every refusal of the gate.
var ErrNotIJSON = errors.New("canonical: not I-JSON")

// Check is the I-JSON gate (RFC 7493): one JSON value in valid UTF-8 without
// duplicate names, lone surrogates, noncharacters, numbers a double cannot
// hold or integers beyond ±(2^53−1), within the limits of this package. An
// integer is a number that the canonical form spells as one: 1e20 is refused,
// 1e21 is not. Errors wrap ErrNotIJSON and name the place as a JSON pointer.
func Check(data []byte) error {
	if len(data) > MaxSize {
		return fmt.Errorf("%w: %d bytes, at most %d are read", ErrNotIJSON, len(data), MaxSize)
	}
	if !utf8.Valid(data) {
		return fmt.Errorf("%w: invalid UTF-8", ErrNotIJSON)
	}
	dec := jsontext.NewDecoder(bytes.NewReader(data))
	if err := checkValue(dec); err != nil {
		return err
	}
	if _, err := dec.ReadToken(); err != io.EOF {
		return fmt.Errorf("%w: data after the value", ErrNotIJSON)
	}
	return nil
}

// checkValue reads one complete value, token by token.
func checkValue(dec *jsontext.Decoder) error {
	for tokens := 1; ; tokens++ {
		tok, err := dec.ReadToken()
		if err != nil {
			return syntaxError(err)
		}
		if tokens > MaxTokens {
			return fmt.Errorf("%w: more than %d tokens", ErrNotIJSON, MaxTokens)
		}
		if dec.StackDepth() > MaxDepth {
			return fmt.Errorf("%w: nested deeper than %d", ErrNotIJSON, MaxDepth)
		}
		if err := checkToken(tok); err != nil {
			return fmt.Errorf("%w: %w at %s", ErrNotIJSON, err, place(dec.StackPointer()))
		}
		if dec.StackDepth() == 0 {
			return nil
		}
	}
}

// syntaxError gives a decoder's error a text that is bounded and always the
// same: its own repeats names of the input at any length.
func syntaxError(err error) error {
	syntax, ok := errors.AsType[*jsontext.SyntacticError](err)
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%w: unexpected end", ErrNotIJSON)
	case errors.Is(err, jsontext.ErrDuplicateName) && ok:
		return fmt.Errorf("%w: duplicate name at %s", ErrNotIJSON, place(syntax.JSONPointer))
	case ok:
		return fmt.Errorf("%w: syntax error at byte %d", ErrNotIJSON, syntax.ByteOffset)
	}
	return fmt.Errorf("%w: %w", ErrNotIJSON, err)
}

func checkToken(tok jsontext.Token) error {
	switch tok.Kind() {
	case '"':
		if r, found := noncharacter(tok.String()); found {
			return fmt.Errorf("noncharacter U+%04X", r)
		}
	case '0':
		return checkNumber(tok.String())
	}
	return nil
}

// checkNumber refuses what a double would change silently.
func checkNumber(text string) error {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsInf(f, 0) || f == 0 && hasDigits(text) {
		return errors.New("number out of range")
	}
	if size := math.Abs(f); size > maxSafeInteger && size < firstExponent {
		return errors.New("integer beyond 2^53-1")
	}
	return nil
}

// hasDigits tells 1e-400, which a double rounds to nothing, from 0.0e5.
func hasDigits(number string) bool {
	mantissa, _, _ := strings.Cut(strings.ToLower(number), "e")
	return strings.ContainsAny(mantissa, "123456789")
}

// noncharacter finds a code point that Unicode sets aside for no character
// (The Unicode Standard, section 23.7); RFC 7493, section 2.1 forbids them.
func noncharacter(s string) (rune, bool) {
	for _, r := range s {
		if r >= 0xFDD0 && r <= 0xFDEF || r&0xFFFE == 0xFFFE {
			return r, true
		}
	}
	return 0, false
}

// place quotes a JSON pointer for an error text, cut to a readable length.
func place(pointer jsontext.Pointer) string {
	const longest = 80
	text := string(pointer)
	if len(text) > longest {
		text = text[:longest] + "..."
	}
	return strconv.QuoteToASCII(text)
}
