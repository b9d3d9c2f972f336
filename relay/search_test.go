package relay

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nbd-wtf/go-nostr"
	"pgregory.net/rapid"
)

func TestWordsAreFoldedRunsOfLettersAndDigits(t *testing.T) {
	for text, want := range map[string][]string{
		"":                           nil,
		"Alice's calendar-bot, v2.0": {"alice", "s", "calendar", "bot", "v2", "0"},
		"GRÜN grün gru\u0308n":       {"grün", "grün", "grün"},
		"Straße STRASSE":             {"strasse", "strasse"},
		"ﬁle ＡＢＣ ①":                  {"file", "abc", "1"},
		"ΣΊΣΥΦΟΣ σίσυφος":            {"σίσυφοσ", "σίσυφοσ"},
		"日本語 مرحبا":                  {"日本語", "مرحبا"},
		"Ꭰ ꭰ":                        {"ꭰ", "ꭰ"},
		"\x00\xff%_'\"":              nil,
	} {
		if got := slices.Collect(words(text)); !slices.Equal(got, want) {
			t.Errorf("%q gives %q, want %q", text, got, want)
		}
	}
}

func TestSearchLeavesOutExtensionsAndRepeatedWords(t *testing.T) {
	for text, want := range map[string]string{
		"tax calendar":                        "tax calendar",
		"tax language:en  Calendar tax":       "calendar tax",
		"include:spam":                        "",
		"note: this":                          "note this",
		":half":                               "half",
		strings.Repeat("x ", 400):             "x",
		"https://example.org/a nip05:a@b.org": "",
	} {
		got, err := parseSearch(text)
		if err != nil || got != want {
			t.Errorf("%q gives %q, %v, want %q", text, got, err, want)
		}
	}
}

func TestSearchIsBounded(t *testing.T) {
	var many []string
	for i := range maxSearchWords + 1 {
		many = append(many, strings.Repeat("a", i+1))
	}
	if _, err := parseSearch(strings.Join(many, " ")); err == nil {
		t.Errorf("%d words are taken", len(many))
	}
	if _, err := parseSearch(strings.Join(many[1:], " ")); err != nil {
		t.Error(err)
	}
	if _, err := parseSearch(strings.Repeat("a", maxSearchBytes+1)); err == nil {
		t.Error("too long a search is taken")
	}
	text := textOf(&nostr.Event{Kind: kindProfile, Content: strings.Repeat("abcd ", maxTextBytes)})
	total := 0
	for _, part := range text {
		total += len(part)
	}
	if total > maxTextBytes+parts {
		t.Errorf("the words of one event take %d bytes", total)
	}
}

func described(kind int, content string, tags ...nostr.Tag) *text {
	return textOf(&nostr.Event{Kind: kind, Tags: tags, Content: content})
}

func TestSearchLooksIntoEveryPartOfACardAndProfile(t *testing.T) {
	card := described(kindCard, `{"name":"Bookkeeper","description":"keeps ledgers","skills":[{"name":"audit"}],"url":"https://a.example"}`,
		nostr.Tag{"d", "office.bot"}, nostr.Tag{"alt", "Contact card of Ada"}, nostr.Tag{"t", "Tax"},
		nostr.Tag{"l", "parley/1", "parley.protocol"}, nostr.Tag{"p", "secret"}, nostr.Tag{"carrier", "nostr", "wss://hidden.example", "1"})
	profile := described(kindProfile, `{"name":"ada","about":"Likes GRÜN.","nip05":"ada@example.org"}`)
	plain := described(kindProfile, `no JSON here {`)
	for _, tc := range []struct {
		text  *text
		asked string
		found bool
	}{
		{card, "bookkeeper", true},
		{card, "LEDGERS", true},
		{card, "audit", true},
		{card, "office", true},
		{card, "ada", true},
		{card, "tax", true},
		{card, "parley", true},
		{card, "tax ada ledgers", true},
		{card, "description", false},
		{card, "skills", false},
		{card, "secret", false},
		{card, "hidden", false},
		{card, "tax absent", false},
		{card, "ledg", true},
		{card, "ledg ada", false},
		{card, "le", false},
		{profile, "ada", true},
		{profile, "grün", true},
		{profile, "about", false},
		{profile, "example", true},
		{plain, "json", true},
		{plain, "nothing", false},
		{described(kindRelayList, "tax"), "tax", false},
		{described(kindWrap, "tax"), "tax", false},
	} {
		parsed, err := parseSearch(tc.asked)
		if err != nil {
			t.Fatal(err)
		}
		if got := newSearch(parsed).score(tc.text) > 0; got != tc.found {
			t.Errorf("%q in %q: found %v, want %v", tc.asked, tc.text, got, tc.found)
		}
	}
}

func TestWholeWordsInNamesComeFirst(t *testing.T) {
	search := newSearch("tax")
	last := 1 << 30
	for _, text := range []*text{
		described(kindProfile, `{"name":"Tax"}`),
		described(kindCard, "", nostr.Tag{"t", "tax"}),
		described(kindProfile, `{"name":"taxes"}`, nostr.Tag{"alt", "tax"}),
		described(kindCard, "", nostr.Tag{"t", "taxes"}),
		described(kindProfile, `{"about":"tax"}`),
		described(kindProfile, `{"about":"taxes"}`),
	} {
		score := search.score(text)
		if score == 0 || score > last {
			t.Errorf("%q scores %d after %d", text, score, last)
		}
		last = score
	}
}

func TestRankedAnswersAreTheBestNewestFirst(t *testing.T) {
	s := hold(memoryStore(t), holdAll)
	put := func(n int, at nostr.Timestamp, content string) string {
		ev := &nostr.Event{ID: strings.Repeat(string(rune('a'+n)), 64), PubKey: strings.Repeat(string(rune('a'+n)), 64), CreatedAt: at, Tags: nostr.Tags{}, Content: content, Sig: strings.Repeat("0", 128)}
		commit(t, s, &Record{Event: ev, JSON: appendEvent(nil, ev)})
		return ev.ID
	}
	old, fresh := put(0, 10, `{"name":"tax"}`), put(1, 20, `{"name":"tax"}`)
	about, begins := put(2, 30, `{"about":"tax"}`), put(3, 40, `{"about":"taxes"}`)
	put(4, 50, `{"about":"nothing"}`)
	for _, tc := range []struct {
		limit int
		want  []string
	}{{0, []string{fresh, old, about, begins}}, {2, []string{fresh, old}}} {
		for _, held := range []*cardStore{s, hold(s.Store, -1)} {
			var got []string
			for rec, err := range held.Query(t.Context(), nostr.Filter{Kinds: searchedKinds, Search: "tax", Limit: tc.limit}, time.Unix(0, 0), 100) {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, rec.Event.ID)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("limit %d (-want +got):\n%s", tc.limit, diff)
			}
		}
	}
}

// Any text is searched for in any other without a panic, and a text contains
// each of its own words.
func TestEveryTextIsFoundByItsOwnWords(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		content := "x " + rapid.String().Draw(t, "content") // no JSON
		own := described(kindProfile, content)
		for w := range words(content) {
			parsed, err := parseSearch(w)
			if err != nil || len(own[partContent])+len(own[partName]) > maxTextBytes-2*len(w) {
				continue
			}
			search := newSearch(parsed)
			if search.score(own) == 0 {
				t.Fatalf("%q is not found in %q", w, own)
			}
			for _, key := range search.keys() {
				if !slices.Contains(own.wordKeys(), key) {
					t.Fatalf("%q is not filed under %q", w, key)
				}
			}
		}
		if parsed, err := parseSearch(content); err == nil {
			newSearch(parsed).score(own)
		}
	})
}
