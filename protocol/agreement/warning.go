package agreement

import (
	"fmt"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// Warnings tells what a reader of the agreement could misread: text outside
// Unicode NFC, bidirectional controls, characters that show nothing, words
// that mix scripts of look-alike letters, labels that look the same, and a
// venue that is itself a participant. Nothing is normalised: the digest covers
// the text as it is. A warning names a place, never the text.
func Warnings(a *Agreement) []string {
	w := []string{}
	each(a, func(path, text string) {
		for _, find := range []func(string) string{denormal, bidirectional, invisible, mixedScript} {
			if what := find(text); what != "" {
				w = append(w, path+": "+what)
			}
		}
	})
	return append(w, rosterWarnings(a)...)
}

// each visits every text of the parties with its JSON pointer.
func each(a *Agreement, visit func(path, text string)) {
	visit("/title", a.Title)
	visit("/objective", a.Objective)
	for i, rule := range a.Must {
		visit(fmt.Sprintf("/must/%d", i), rule)
	}
	for i, rule := range a.MustNot {
		visit(fmt.Sprintf("/must_not/%d", i), rule)
	}
	for i, p := range a.Participants {
		visit(fmt.Sprintf("/participants/%d/label", i), p.Label)
	}
}

func denormal(s string) string {
	switch {
	case norm.NFC.IsNormalString(s):
		return ""
	case norm.NFD.IsNormalString(s):
		return "not in Unicode NFC: the same text typed elsewhere can have another digest"
	}
	return "mixed Unicode normalisation: composed and decomposed characters side by side"
}

// isBidi covers the explicit directional marks of UAX #9, section 2.
func isBidi(r rune) bool {
	return r == 0x061C || r == 0x200E || r == 0x200F || r >= 0x202A && r <= 0x202E || r >= 0x2066 && r <= 0x2069
}

func bidirectional(s string) string {
	return firstOf(s, isBidi, "bidirectional control")
}

func invisible(s string) string {
	return firstOf(s, func(r rune) bool { return hidden(r) && !isBidi(r) }, "invisible character")
}

func firstOf(s string, match func(rune) bool, what string) string {
	n := 0
	for _, r := range s {
		n++
		if match(r) {
			return fmt.Sprintf("%s U+%04X at code point %d", what, r, n)
		}
	}
	return ""
}

// mixedScript finds a word with letters of two of the scripts whose letters
// look alike (a small part of UTS #39).
func mixedScript(s string) string {
	scripts := []*unicode.RangeTable{unicode.Latin, unicode.Cyrillic, unicode.Greek, unicode.Cherokee, unicode.Armenian}
	for word := range strings.FieldsFuncSeq(s, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsMark(r) }) {
		n := 0
		for _, script := range scripts {
			if strings.ContainsFunc(word, func(r rune) bool { return unicode.Is(script, r) }) {
				n++
			}
		}
		if n > 1 {
			return "a word mixes letters of scripts that look alike"
		}
	}
	return ""
}

func rosterWarnings(a *Agreement) []string {
	var w []string
	seen := make(map[string]string)
	for _, p := range a.Participants {
		look := strings.ToLower(strings.Join(strings.Fields(norm.NFKC.String(p.Label)), " "))
		if other, ok := seen[look]; ok {
			w = append(w, fmt.Sprintf("the labels of %s and %s look the same", other, p.ID))
		}
		seen[look] = p.ID
		if a.Venue == p.PubKey || p.Delegate != "" && a.Venue == p.Delegate {
			w = append(w, fmt.Sprintf("the venue's key is also a key of %s", p.ID))
		}
	}
	return w
}
