package agreement

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parleykit/parley/protocol/canonical"
)

func TestBundle_goldenOfAReachedRoom(t *testing.T) {
	r := reachedRoom(t, sample(3))
	_, data, err := NewBundle(r, venueKey, nil, start.Add(24*time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	doc, err := Consensus(r)
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "reached.bundle.json", data)
	golden(t, "reached.CONSENSUS.md", doc)
	report, err := Verify(data)
	if err != nil {
		t.Fatal(err)
	}
	if report.ConsensusDigest != canonical.Digest(doc) || report.MarkdownDigest != canonical.Digest([]byte(r.agreement.Markdown())) {
		t.Error("digests are not those of the documents")
	}
}

func TestConsensus_onlyWhenReached(t *testing.T) {
	r := openRoom(t, sample(2))
	_, err := Consensus(r)
	wantCode(t, err, CodeNotPermitted)
	_, _, err = NewBundle(r, venueKey, nil, start)
	wantCode(t, err, CodeNotPermitted)
	mustAct(t, r, 2, ActionAbstain, "", start)
	b, data, err := NewBundle(r, venueKey, nil, start)
	if err != nil || b.Consensus != "" {
		t.Fatalf("%q %v", b.Consensus, err)
	}
	if report, err := Verify(data); err != nil || report.Outcome != OutcomeNoConsensus {
		t.Errorf("%v %v", report, err)
	}
}

func TestNewBundle_onlyByTheVenuesKey(t *testing.T) {
	if _, _, err := NewBundle(reachedRoom(t, sample(2)), newKey("other"), nil, start); !errors.Is(err, ErrVenueKey) {
		t.Error(err)
	}
}

func TestReport_saysHowEachDecisionIsKnown(t *testing.T) {
	a := sample(4)
	a.Participants[1].PubKey, a.Participants[1].AddressCommitment = "", commitment("p2")
	delegate := newKey("delegate")
	a.Participants[2].Delegate = delegate.PublicKey()
	r := openRoom(t, a)
	if _, err := r.Apply(NewCommand(a, "p2", ActionAgree, ""), nil, AssuranceInviteLink, start); err != nil {
		t.Fatal(err)
	}
	sig, _ := Sign(a, r.digest, ActionAgree, "", delegate, start)
	if _, err := r.Apply(NewCommand(a, "p3", ActionAgree, ""), &sig, AssuranceNostrKey, start); err != nil {
		t.Fatal(err)
	}
	mustAct(t, r, 4, ActionAgree, "", start)
	mustAct(t, r, 1, ActionAgree, "", start)
	_, data, err := NewBundle(r, venueKey, nil, start)
	if err != nil {
		t.Fatal(err)
	}
	report, err := Verify(data)
	if err != nil {
		t.Fatal(err)
	}
	var got [][3]string
	for _, d := range append([]Decision{report.Proposal}, report.Decisions...) {
		got = append(got, [3]string{d.ParticipantID, d.Assurance, d.Proof})
	}
	want := [][3]string{
		{"p1", AssuranceNostrKey, ProofParticipant},
		{"p2", AssuranceInviteLink, ProofVenue},
		{"p3", AssuranceNostrKey, ProofDelegate},
		{"p4", AssuranceNostrKey, ProofParticipant},
		{"p1", AssuranceNostrKey, ProofParticipant},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if alone := report.OnVenueWord(); len(alone) != 1 || alone[0].ParticipantID != "p2" || alone[0].Proven() {
		t.Errorf("on the venue's word: %v", alone)
	}
}

func TestReport_listsAWithdrawalAndNothingForAnExpiry(t *testing.T) {
	r := openRoom(t, sample(2))
	mustAct(t, r, 1, ActionWithdraw, "", start)
	gone := openRoom(t, sample(2))
	if _, ok := gone.Expire(gone.agreement.Deadline.Time); !ok {
		t.Fatal("not expired")
	}
	for room, want := range map[*Room]int{r: 1, gone: 0} {
		_, data, err := NewBundle(room, venueKey, nil, start)
		if err != nil {
			t.Fatal(err)
		}
		report, err := Verify(data)
		if err != nil || len(report.Decisions) != want {
			t.Errorf("%v %v", report, err)
		}
	}
}

// TestVerify_refusesAForgedBundle signs and encodes each forgery correctly.
func TestVerify_refusesAForgedBundle(t *testing.T) {
	r := reachedRoom(t, sample(2))
	other := reachedRoom(t, sample(3))
	resign := func(b *Bundle, by key, content, outcome string, at time.Time) {
		tags := signatureTags(r.agreement, r.digest, ActionClose, outcome)
		ev, _ := sign(tags, content, by, at)
		b.Signatures[0] = SignatureOf(ev)
	}
	end := start.Add(24 * time.Hour)
	for name, forge := range map[string]func(*Bundle){
		"markdown":           func(b *Bundle) { b.Markdown += "\n" },
		"consensus":          func(b *Bundle) { b.Consensus = strings.Replace(b.Consensus, "agree", "abstain", 1) },
		"consensus gone":     func(b *Bundle) { b.Consensus = "" },
		"last event gone":    func(b *Bundle) { b.Events = b.Events[:len(b.Events)-1] },
		"other room's event": func(b *Bundle) { b.Events[1] = other.events[1] },
		"closed by another":  func(b *Bundle) { resign(b, newKey("x"), r.head, OutcomeReached, end) },
		"other head":         func(b *Bundle) { resign(b, venueKey, ZeroHash, OutcomeReached, end) },
		"other outcome":      func(b *Bundle) { resign(b, venueKey, r.head, OutcomeDisagreed, end) },
		"closed too early":   func(b *Bundle) { resign(b, venueKey, r.head, OutcomeReached, start) },
		"no closing":         func(b *Bundle) { b.Signatures = nil },
		"two closings":       func(b *Bundle) { b.Signatures = append(b.Signatures, b.Signatures[0]) },
		"receipts":           func(b *Bundle) { b.Receipts = append(b.Receipts, "x") },
		"schema":             func(b *Bundle) { b.Schema = "https://other.example" + schemaBundle },
		"revision blanks":    func(b *Bundle) { b.Revision += " " },
		"revision other":     func(b *Bundle) { b.Revision = strings.Replace(b.Revision, "tide", "time", 1) },
		"events gone":        func(b *Bundle) { b.Events = nil },
	} {
		t.Run(name, func(t *testing.T) {
			b, _, err := NewBundle(r, venueKey, nil, end)
			if err != nil {
				t.Fatal(err)
			}
			forge(b)
			data, err := canonical.Marshal(b)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := Verify(data); !errors.Is(err, ErrBundle) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestBundle_ofTheLargestRoomFits builds the worst room that the rules allow:
// every text at its limit in the character that escapes worst.
func TestBundle_ofTheLargestRoomFits(t *testing.T) {
	for _, worst := range []string{"\U000E0041"} {
		a := sample(MaxParticipants)
		fill := func(n int) string { return "x" + strings.Repeat(worst, n-1) }
		a.Title, a.Objective = fill(MaxTitle), fill(MaxObjective)
		a.Must, a.MustNot = nil, nil
		for range MaxRules {
			a.Must, a.MustNot = append(a.Must, fill(MaxRule)), append(a.MustNot, fill(MaxRule))
		}
		if data, err := a.Canonical(); err != nil || len(data) > MaxAgreementSize {
			t.Fatalf("agreement of %d bytes: %v", len(data), err)
		}
		r := openRoom(t, a)
		for n := 1; n <= MaxParticipants; n++ {
			for err := error(nil); err == nil; {
				_, err = act(r, n, ActionComment, strings.Repeat("\x01", 100)+fill(2600), start)
			}
		}
		for n := 1; n <= MaxParticipants; n++ {
			mustAct(t, r, n, ActionAgree, "", start)
		}
		_, data, err := NewBundle(r, venueKey, nil, start)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%q: bundle of %d bytes, %d events", worst, len(data), len(r.events))
		if _, err := Verify(data); err != nil {
			t.Error(err)
		}
	}
}

func TestWarnings_nameThePlaceAndNeverTheText(t *testing.T) {
	if w := Warnings(sample(3)); len(w) != 0 {
		t.Errorf("plain text warns: %q", w)
	}
	a := sample(3)
	a.Title = "cafe\u0301"
	a.Objective = "é and e\u0301"
	a.Must = []string{"pay\u202Eon", "zero\u200Bwidth", "pаypal" /* Cyrillic а */, "family 👩\u200d👩 ok", "العربية and English"}
	a.Participants[1].Label, a.Participants[2].Label = "Ada  L", "ＡＤＡ l"
	a.Venue = a.Participants[0].PubKey
	want := []string{
		"/title: not in Unicode NFC: the same text typed elsewhere can have another digest",
		"/objective: mixed Unicode normalisation: composed and decomposed characters side by side",
		"/must/0: bidirectional control U+202E at code point 4",
		"/must/1: invisible character U+200B at code point 5",
		"/must/2: a word mixes letters of scripts that look alike",
		"the venue's key is also a key of p1",
		"the labels of p2 and p3 look the same",
	}
	if diff := cmp.Diff(want, Warnings(a)); diff != "" {
		t.Error(diff)
	}
	before := a.Digest()
	_ = Warnings(a)
	if a.Digest() != before || !bytes.Contains([]byte(a.Objective), []byte("e\u0301")) {
		t.Error("text was normalised")
	}
}
