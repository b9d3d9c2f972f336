package agreement

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/parleykit/parley/protocol/canonical"
)

func TestDrafts_parseAndRenderToTheirGoldenFiles(t *testing.T) {
	all := drafts(t)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		data, err := all[name].Canonical()
		if err != nil {
			t.Fatal(err)
		}
		a, err := ParseAgreement(data)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		base := strings.TrimSuffix(name, ".yaml")
		if len(data) < 16<<10 {
			golden(t, base+".json", data)
			golden(t, base+".md", []byte(a.Markdown()))
		}
		golden(t, base+".digests", fmt.Appendf(nil, "revision %s\nmarkdown %s\n", a.Digest(), canonical.Digest([]byte(a.Markdown()))))
	}
}

func TestParseAgreement_roundTripsBothProfiles(t *testing.T) {
	full := sample(8)
	full.Supersedes = &Supersedes{"019ad4f5-3c00-7a1b-8c2d-aaaaaaaaaaaa", strings.Repeat("ab", 32)}
	full.Strategy.Threshold = "2/3"
	full.Participants[3].PubKey, full.Participants[3].AddressCommitment = "", commitment("p4")
	full.Participants[3].Delegate = newKey("delegate").PublicKey()
	full.Must, full.MustNot = []string{}, []string{}
	for _, a := range []*Agreement{sample(2), full, consensusSample()} {
		data, err := a.Canonical()
		if err != nil {
			t.Fatal(err)
		}
		got, err := ParseAgreement(data)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(a, got); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
		if got.Digest() != canonical.Digest(data) {
			t.Error("the digest is not that of the canonical bytes")
		}
	}
}

func TestParseAgreement_ignoresOrderAndBlanksOfTheJSON(t *testing.T) {
	data, _ := sample(2).Canonical()
	spaced := bytes.ReplaceAll(data, []byte(`,"`), []byte(" ,\n \""))
	a, err := ParseAgreement(spaced)
	if err != nil {
		t.Fatal(err)
	}
	if a.Digest() != canonical.Digest(data) {
		t.Error("another digest for other blanks")
	}
}

func TestParseAgreement_refusesEveryDeviation(t *testing.T) {
	data, _ := sample(3).Canonical()
	doc := string(data)
	edits := map[string][2]string{
		"unknown member":         {`"revision":1`, `"revision":1,"x":1`},
		"unknown nested member":  {`"kind":"agent"`, `"kind":"agent","x":1`},
		"other case":             {`"title"`, `"Title"`},
		"missing member":         {`"must":["Name the source of every value."],`, ``},
		"null array":             {`["Sell the table."]`, `null`},
		"null rule":              {`"Sell the table."`, `null`},
		"wrong type":             {`"revision":1`, `"revision":"1"`},
		"fraction":               {`"revision":1`, `"revision":1.5`},
		"revision 2":             {`"revision":1`, `"revision":2`},
		"empty optional":         {`"name":"unanimity"`, `"name":"unanimity","threshold":""`},
		"null optional":          {`"name":"unanimity"`, `"name":"unanimity","threshold":null`},
		"null object":            {`"objective"`, `"supersedes":null,"objective"`},
		"duplicate member":       {`"revision":1`, `"revision":1,"revision":1`},
		"deadline with offset":   {`T12:00:00Z`, `T12:00:00+00:00`},
		"deadline fraction":      {`T12:00:00Z`, `T12:00:00.5Z`},
		"schema path":            {`/schemas/agreement/v1`, `/schemas/agreement/v2`},
		"schema with port 443":   {`https://parley.example/`, `https://parley.example:443/`},
		"schema upper case":      {`https://parley.example/`, `https://Parley.example/`},
		"schema with user":       {`https://parley.example/`, `https://a@parley.example/`},
		"schema of another kind": {`https://parley.example/`, `ftp://parley.example/`},
		"trailing data":          {`}` + "\x00", ``},
	}
	for name, edit := range edits {
		t.Run(name, func(t *testing.T) {
			changed := strings.Replace(doc, edit[0], edit[1], 1)
			if name == "trailing data" {
				changed = doc + "{}"
			}
			if changed == doc {
				t.Fatal("the edit changed nothing")
			}
			_, err := ParseAgreement([]byte(changed))
			wantCode(t, err, CodeInvalid)
		})
	}
	padded := append(bytes.Repeat([]byte(" "), MaxAgreementSize-len(data)), data...)
	if _, err := ParseAgreement(padded); err != nil {
		t.Error(err)
	}
	if _, err := ParseAgreement(append(padded, ' ')); err == nil {
		t.Error("an oversized document was read")
	}
}

// TestCheck_holdsLimitsAndRosterRules breaks one rule at a time.
func TestCheck_holdsLimitsAndRosterRules(t *testing.T) {
	long := func(n int) string { return strings.Repeat("é", n) }
	breaks := map[string]func(*Agreement){
		"title empty":             func(a *Agreement) { a.Title = " \u200b" },
		"title too long":          func(a *Agreement) { a.Title = long(MaxTitle + 1) },
		"title with a line":       func(a *Agreement) { a.Title = "a\nb" },
		"title bad UTF-8":         func(a *Agreement) { a.Title = "a\xff" },
		"objective empty":         func(a *Agreement) { a.Objective = "" },
		"objective too long":      func(a *Agreement) { a.Objective = long(MaxObjective + 1) },
		"objective control":       func(a *Agreement) { a.Objective = "a\rb" },
		"rule empty":              func(a *Agreement) { a.Must[0] = "\n" },
		"rule too long":           func(a *Agreement) { a.MustNot[0] = long(MaxRule + 1) },
		"too many rules":          func(a *Agreement) { a.Must = slices.Repeat([]string{"x"}, MaxRules+1) },
		"venue not a key":         func(a *Agreement) { a.Venue = strings.Repeat("f", 64) },
		"venue an origin":         func(a *Agreement) { a.Venue = "https://parley.example" },
		"profile unknown":         func(a *Agreement) { a.Profile = "parley/2" },
		"id of version 4":         func(a *Agreement) { a.AgreementID = "9b2e3c1e-7a1b-4c2d-8c2d-1234567890ab" },
		"id upper case":           func(a *Agreement) { a.AgreementID = strings.ToUpper(a.AgreementID) },
		"strategy unknown":        func(a *Agreement) { a.Strategy.Name = "majority" },
		"threshold malformed":     func(a *Agreement) { a.Strategy.Threshold = "1e3" },
		"deadline missing":        func(a *Agreement) { a.Deadline = canonical.Time{} },
		"supersedes itself":       func(a *Agreement) { a.Supersedes = &Supersedes{a.AgreementID, a.Digest()} },
		"supersedes bad digest":   func(a *Agreement) { a.Supersedes = &Supersedes{"019ad4f5-3c00-7a1b-8c2d-aaaaaaaaaaaa", "ab"} },
		"one participant":         func(a *Agreement) { a.Participants = a.Participants[:1] },
		"nine participants":       func(a *Agreement) { *a = *sample(9) },
		"ids out of order":        func(a *Agreement) { a.Participants[1].ID = "p3" },
		"two initiators":          func(a *Agreement) { a.Participants[1].Role = RoleInitiator },
		"no initiator":            func(a *Agreement) { a.Participants[0].Role = RoleInvited },
		"kind of other profile":   func(a *Agreement) { a.Participants[1].Kind = KindAgentMail },
		"label empty":             func(a *Agreement) { a.Participants[1].Label = "" },
		"label too long":          func(a *Agreement) { a.Participants[1].Label = long(MaxLabel + 1) },
		"label with a line":       func(a *Agreement) { a.Participants[1].Label = "x\ny" },
		"same key twice":          func(a *Agreement) { a.Participants[2].PubKey = a.Participants[1].PubKey },
		"delegate is participant": func(a *Agreement) { a.Participants[2].Delegate = a.Participants[1].PubKey },
		"delegate is itself":      func(a *Agreement) { a.Participants[2].Delegate = a.Participants[2].PubKey },
		"key and commitment":      func(a *Agreement) { a.Participants[1].AddressCommitment = commitment("x") },
		"neither":                 func(a *Agreement) { a.Participants[1].PubKey = "" },
		"initiator without key": func(a *Agreement) {
			a.Participants[0].PubKey, a.Participants[0].AddressCommitment = "", commitment("x")
		},
		"same commitment twice": func(a *Agreement) {
			for i := 1; i < 3; i++ {
				a.Participants[i].PubKey, a.Participants[i].AddressCommitment = "", commitment("x")
			}
		},
		"commitment padded": func(a *Agreement) {
			a.Participants[1].PubKey, a.Participants[1].AddressCommitment = "", commitment("x")+"="
		},
	}
	for name, edit := range breaks {
		t.Run(name, func(t *testing.T) {
			a := sample(3)
			edit(a)
			wantCode(t, a.Check(), CodeInvalid)
		})
	}
}

func TestCheck_holdsTheRulesOfConsensus1(t *testing.T) {
	if err := consensusSample().Check(); err != nil {
		t.Fatal(err)
	}
	breaks := map[string]func(*Agreement){
		"agent initiates": func(a *Agreement) { a.Participants[0].Kind = KindAgentMail },
		"pubkey": func(a *Agreement) {
			a.Participants[1].AddressCommitment, a.Participants[1].PubKey = "", participantKey(2).PublicKey()
		},
		"agent":            func(a *Agreement) { a.Participants[1].Kind = KindAgent },
		"delegate":         func(a *Agreement) { a.Participants[1].Delegate = participantKey(2).PublicKey() },
		"venue elsewhere":  func(a *Agreement) { a.Venue = "https://other.example" },
		"venue plain http": func(a *Agreement) { a.Venue, a.Schema = "http://x.example", "http://x.example"+schemaAgreement },
		"supersedes": func(a *Agreement) {
			a.Supersedes = &Supersedes{"019ad4f5-3c00-7a1b-8c2d-aaaaaaaaaaaa", strings.Repeat("a", 64)}
		},
		"threshold": func(a *Agreement) { a.Strategy.Threshold = "1" },
	}
	for name, edit := range breaks {
		t.Run(name, func(t *testing.T) {
			a := consensusSample()
			edit(a)
			wantCode(t, a.Check(), CodeInvalid)
		})
	}
}

func TestCheck_countsCodePoints(t *testing.T) {
	a := sample(2)
	a.Title, a.Objective = strings.Repeat("🌊", MaxTitle), strings.Repeat("語", MaxObjective)
	if err := a.Check(); err != nil {
		t.Fatal(err)
	}
}

// mutations change one field of an agreement each.
var mutations = map[string]func(a *Agreement, n int){
	"schema":     func(a *Agreement, n int) { a.Schema = fmt.Sprintf("https://h%d.example%s", n, schemaAgreement) },
	"id":         func(a *Agreement, n int) { a.AgreementID = fmt.Sprintf("019ad4f5-3c00-7a1b-8c2d-%012x", n) },
	"venue":      func(a *Agreement, n int) { a.Venue = newKey(fmt.Sprint("v", n)).PublicKey() },
	"title":      func(a *Agreement, n int) { a.Title += strings.Repeat("x", 1+n%9) },
	"objective":  func(a *Agreement, n int) { a.Objective += strings.Repeat(" ", 1+n%9) },
	"must":       func(a *Agreement, n int) { a.Must = append(a.Must, fmt.Sprint(n)) },
	"rule moves": func(a *Agreement, _ int) { a.Must, a.MustNot = a.MustNot, a.Must },
	"must_not":   func(a *Agreement, n int) { a.MustNot[0] += fmt.Sprint(n) },
	"label":      func(a *Agreement, n int) { a.Participants[n%3].Label += "\u0301" },
	"kind":       func(a *Agreement, n int) { a.Participants[n%3].Kind = KindHuman },
	"pubkey":     func(a *Agreement, n int) { a.Participants[n%3].PubKey = newKey(fmt.Sprint("k", n)).PublicKey() },
	"delegate":   func(a *Agreement, n int) { a.Participants[n%3].Delegate = newKey(fmt.Sprint("d", n)).PublicKey() },
	"roster":     func(a *Agreement, n int) { *a = *sample(4 + n%4) },
	"threshold":  func(a *Agreement, n int) { a.Strategy.Threshold = fmt.Sprint(n) },
	"deadline":   func(a *Agreement, n int) { a.Deadline = canonical.At(a.Deadline.Add(time.Duration(1+n) * time.Second)) },
	"supersedes": func(a *Agreement, n int) {
		a.Supersedes = &Supersedes{fmt.Sprintf("019ad4f5-0000-7a1b-8c2d-%012x", n), strings.Repeat("0", 64)}
	},
}

func TestDigest_changesWithEveryField(t *testing.T) {
	names := slices.Sorted(maps.Keys(mutations))
	before := sample(3)
	digest, markdown := before.Digest(), before.Markdown()
	rapid.Check(t, func(t *rapid.T) {
		a := sample(3)
		name := rapid.SampledFrom(names).Draw(t, "field")
		mutations[name](a, rapid.IntRange(0, 1<<30).Draw(t, "n"))
		if err := a.Check(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if a.Digest() == digest {
			t.Errorf("%s: the digest is the same", name)
		}
		if a.Markdown() == markdown {
			t.Errorf("%s: the Markdown is the same", name)
		}
	})
}

func TestNew_fillsWhatTheInitiatorDoesNotChoose(t *testing.T) {
	want := sample(2)
	terms := Terms{
		Origin: "https://parley.example", Venue: want.Venue, Title: want.Title, Objective: want.Objective,
		Participants: []Participant{
			{Kind: KindAgent, PubKey: want.Participants[0].PubKey},
			{Kind: KindHuman, PubKey: want.Participants[1].PubKey, Label: "Ada"},
		},
		Deadline: start.Add(time.Hour + time.Millisecond),
	}
	a, err := New(terms, start)
	if err != nil {
		t.Fatal(err)
	}
	if got := []string{a.Participants[0].Label, a.Participants[0].Role, a.Participants[1].Role, a.Strategy.Name, a.Profile}; !slices.Equal(got, []string{"p1", RoleInitiator, RoleInvited, Unanimity, ProfileParley}) {
		t.Errorf("filled in %q", got)
	}
	if !strings.HasPrefix(a.AgreementID, fmt.Sprintf("%08x", start.UnixMilli()>>16)) {
		t.Errorf("id %s does not carry the time", a.AgreementID)
	}
	if b, _ := New(terms, start); b.AgreementID == a.AgreementID {
		t.Error("the same id twice")
	}
	if terms.Participants[0].ID != "" {
		t.Error("the caller's roster was changed")
	}
	terms.Deadline = start
	_, err = New(terms, start)
	wantCode(t, err, CodeInvalid)
}

func TestRefusal_comparesByCode(t *testing.T) {
	err := fmt.Errorf("room: %w", refuse(CodeClosed, "the outcome is reached"))
	if !errors.Is(err, &Refusal{Code: CodeClosed}) || errors.Is(err, &Refusal{Code: CodeExpired}) {
		t.Error("errors.Is does not compare codes")
	}
}

func TestParticipantByKey_findsKeysAndDelegates(t *testing.T) {
	a := sample(3)
	a.Participants[1].Delegate = newKey("d").PublicKey()
	for key, want := range map[string]string{
		a.Participants[2].PubKey: "p3", a.Participants[1].Delegate: "p2", venueKey.PublicKey(): "", "": "",
	} {
		if p, _ := a.ParticipantByKey(key); p.ID != want {
			t.Errorf("%.8s: %q, want %q", key, p.ID, want)
		}
	}
}
