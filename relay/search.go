package relay

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/nbd-wtf/go-nostr"
	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// searchedKinds are those a search (NIP-50) finds.
var searchedKinds = []int{kindProfile, kindCard}

// Bounds of a search.
const (
	maxSearchBytes = 1 << 10  // of one search
	maxSearchWords = 16       // different words of one search
	maxTextBytes   = 16 << 10 // of the words of one event; later ones are not found
	keyRunes       = 3        // the least of a word that finds it by its beginning
)

// The parts of an event in which words count, by weight.
const (
	partName    = iota // card name, name of a profile or of an A2A Agent Card
	partLabel          // t and l tags
	partAlt            // alt tag
	partContent        // all other text of the content
	parts
)

// partWeight is what a whole word in a part counts; the beginning of one half.
var partWeight = [parts]int{16, 8, 4, 2}

// text holds the folded words of an event, those of a part sorted and each once,
// with a space before and behind. A word is found by bisection: neither long
// texts nor many searches hold up what everybody waits for.
type text [parts]string

// words splits a text into its words: runs of letters, digits and marks,
// compatible forms made one (NFKC) and case folded.
func words(s string) iter.Seq[string] {
	return strings.FieldsFuncSeq(fold(s), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r)
	})
}

func fold(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return r >= utf8.RuneSelf }) {
		return strings.ToLower(s)
	}
	folded := cases.Fold().String(norm.NFKC.String(s))
	return norm.NFKC.String(strings.ToLower(folded)) // Cherokee folds to either case
}

// parseSearch reads a search and returns its words, joined by spaces and each
// once. Pairs of key:value, which NIP-50 keeps for extensions, are left out.
func parseSearch(s string) (string, error) {
	if len(s) > maxSearchBytes {
		return "", fmt.Errorf("search has more than %d bytes", maxSearchBytes)
	}
	var found []string
	for field := range strings.FieldsSeq(s) {
		if key, value, pair := strings.Cut(field, ":"); pair && key != "" && value != "" {
			continue
		}
		for w := range words(field) {
			// The last word may be the beginning of one, so it stays last.
			found = append(slices.DeleteFunc(found, func(f string) bool { return f == w }), w)
		}
	}
	if len(found) > maxSearchWords {
		return "", fmt.Errorf("search has more than %d words", maxSearchWords)
	}
	return strings.Join(found, " "), nil
}

// search is what parseSearch returned, ready to be compared.
type search struct {
	words []string // to be found whole, as " word "
	begin string   // the last one, " word", which may be the beginning of one; or ""
}

func newSearch(parsed string) search {
	all := strings.Fields(parsed)
	s := search{}
	for i, w := range all {
		if i == len(all)-1 && utf8.RuneCountInString(w) >= keyRunes {
			s.begin = " " + w
			break
		}
		s.words = append(s.words, " "+w+" ")
	}
	return s
}

// score is higher the better the search fits the text, and 0 when a word is
// missing. A search without words fits everything alike.
func (s search) score(t *text) int {
	total := 1
	for _, w := range s.words {
		best := bestPart(t, w)
		if best == 0 {
			return 0
		}
		total += best
	}
	if s.begin == "" {
		return total
	}
	best := max(bestPart(t, s.begin+" "), bestPart(t, s.begin)/2)
	if best == 0 {
		return 0
	}
	return total + best
}

func bestPart(t *text, w string) int {
	for i := range t {
		if strings.HasPrefix(wordsFrom(t[i], w), w) {
			return partWeight[i]
		}
	}
	return 0
}

// wordsFrom is what a part holds from the first word on that is not before w,
// which is " word " or its beginning.
func wordsFrom(part, w string) string {
	begin, end := 0, max(0, len(part)-1) // where that word begins, or the last space
	for begin < end {
		at := strings.LastIndexByte(part[:(begin+end)/2+1], ' ')
		if part[at:] < w {
			begin = at + 1 + strings.IndexByte(part[at+1:], ' ')
		} else {
			end = at
		}
	}
	return part[begin:]
}

// keys are those of wordKeys under which every event is filed that the search
// fits; each holds all of them.
func (s search) keys() []string {
	keys := slices.Clone(s.words)
	if s.begin != "" {
		begins := beginnings(s.begin[1:])
		keys = append(keys, begins[len(begins)-1])
	}
	return keys
}

// beginnings are the beginnings of a word by which events are filed, so that a
// search for the beginning of a word finds it too; the longest comes last.
func beginnings(w string) (keys []string) {
	n := 0
	for i := range w {
		if n == keyRunes || n == 2*keyRunes {
			keys = append(keys, w[:i])
		}
		n++
	}
	if n == keyRunes || n == 2*keyRunes {
		keys = append(keys, w)
	}
	return keys
}

// wordKeys are the keys of all words of a text, each once: " word " and its
// beginnings.
func (t *text) wordKeys() []string {
	var keys []string
	for _, part := range t {
		for rest := part; len(rest) > 1; {
			end := 1 + strings.IndexByte(rest[1:], ' ')
			keys = append(keys, rest[:end+1]) // shares the memory of the text
			keys = append(keys, beginnings(rest[1:end])...)
			rest = rest[end:]
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// textOf gathers the words of a card or profile; of other kinds it has none.
func textOf(ev *nostr.Event) *text {
	var found [parts][]string
	left := maxTextBytes
	add := func(part int, s string) {
		for w := range words(s) {
			if left -= len(w) + 1; left < 0 {
				return
			}
			found[part] = append(found[part], w)
		}
	}
	if slices.Contains(searchedKinds, ev.Kind) {
		for _, tag := range ev.Tags {
			if part, searched := tagParts[tag[0]]; searched && len(tag) >= 2 {
				add(part, tag[1])
			}
		}
		readContent(ev.Content, add)
	}
	var t text
	for i, all := range found {
		slices.Sort(all)
		if all = slices.Compact(all); len(all) > 0 {
			t[i] = " " + strings.Join(all, " ") + " "
		}
	}
	return &t
}

// tagParts are the tags whose values are searched.
var tagParts = map[string]int{"d": partName, "t": partLabel, "l": partLabel, "alt": partAlt}

// nameMembers are the members of a content whose values are names.
var nameMembers = []string{"name", "display_name", "displayName"}

// readContent passes on the strings of a JSON content, not the names of its
// members, or a content of another form as it is.
func readContent(content string, add func(part int, s string)) {
	type value struct {
		part int
		s    string
	}
	var values []value
	dec := jsontext.NewDecoder(strings.NewReader(content), jsontext.AllowDuplicateNames(true))
	for {
		token, err := dec.ReadToken()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			add(partContent, content)
			return
		}
		if token.Kind() != '"' || isName(dec) {
			continue
		}
		part := partContent
		if dec.StackDepth() == 1 && slices.Contains(nameMembers, string(dec.StackPointer().LastToken())) {
			part = partName
		}
		values = append(values, value{part, token.String()})
	}
	for _, v := range values {
		add(v.part, v.s)
	}
}

// isName reports whether the string just read is the name of a member.
func isName(dec *jsontext.Decoder) bool {
	kind, length := dec.StackIndex(dec.StackDepth())
	return kind == '{' && length%2 == 1
}

// rank orders what a search found, which is in the order of answers, by score,
// the best first; those of one score stay in that order.
func rank(found []*heldCard, s search) {
	byScore := map[int][]*heldCard{} // there are few different scores
	for _, it := range found {
		score := s.score(it.text)
		byScore[score] = append(byScore[score], it)
	}
	found = found[:0]
	for _, score := range slices.Backward(slices.Sorted(maps.Keys(byScore))) {
		found = append(found, byScore[score]...)
	}
}
