package agreement

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestOutcome_followsTheOrderOfDecisions(t *testing.T) {
	const ag, dis, abs = ActionAgree, ActionDisagree, ActionAbstain
	cases := []struct {
		name    string
		actions []string // of p1, p2, p3 in turn
		want    string
		closed  int // index of the first refused action, -1 for none
	}{
		{"nobody decides", nil, OutcomePending, -1},
		{"two of three agree", []string{ag, ag}, OutcomePending, -1},
		{"all agree", []string{ag, ag, ag}, OutcomeReached, -1},
		{"first disagrees", []string{dis, ag, ag}, OutcomeDisagreed, 1},
		{"last disagrees", []string{ag, ag, dis}, OutcomeDisagreed, -1},
		{"first abstains", []string{abs, dis, ag}, OutcomeNoConsensus, 1},
		{"abstains after an agree", []string{ag, abs, ag}, OutcomeNoConsensus, 2},
		{"disagree beats a later abstain", []string{ag, dis, abs}, OutcomeDisagreed, 2},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := openRoom(t, sample(3))
			for i, action := range c.actions {
				_, err := act(r, i+1, action, "", start.Add(time.Minute))
				if c.closed >= 0 && i >= c.closed {
					wantCode(t, err, CodeClosed)
				} else if err != nil {
					t.Fatal(err)
				}
			}
			if r.Outcome() != c.want {
				t.Errorf("outcome %s, want %s", r.Outcome(), c.want)
			}
		})
	}
}

func TestApply_aDecisionIsIrreversible(t *testing.T) {
	r := openRoom(t, sample(2))
	mustAct(t, r, 2, ActionAgree, "", start)
	for _, action := range []string{ActionAgree, ActionDisagree, ActionAbstain} {
		_, err := act(r, 2, action, "", start)
		wantCode(t, err, CodeAlreadyDecided)
	}
	mustAct(t, r, 2, ActionComment, "still here", start)
	if e, ok := r.Decision("p2"); !ok || e.Action != ActionAgree {
		t.Errorf("decision %v", e)
	}
}

func TestApply_theInitiatorDecidesLikeEverybody(t *testing.T) {
	r := openRoom(t, sample(2))
	mustAct(t, r, 2, ActionAgree, "", start)
	if r.Outcome() != OutcomePending {
		t.Fatal("proposing counted as agreeing")
	}
	mustAct(t, r, 1, ActionAgree, "", start)
	if r.Outcome() != OutcomeReached {
		t.Fatal(r.Outcome())
	}
}

func TestDeadline_expiresAtItsInstant(t *testing.T) {
	a := sample(2)
	r := openRoom(t, a)
	before := a.Deadline.Add(-time.Nanosecond)
	if _, ok := r.Expire(before); ok {
		t.Fatal("expired before the deadline")
	}
	mustAct(t, r, 2, ActionAgree, "", before)
	_, err := act(r, 1, ActionAgree, "", a.Deadline.Time)
	wantCode(t, err, CodeExpired)
	if r.Outcome() != OutcomePending {
		t.Error("Apply closed the room without an event")
	}
	e, ok := r.Expire(a.Deadline.Time)
	if !ok || e.ParticipantID != VenueID || e.Action != ActionExpire || r.Outcome() != OutcomeExpired {
		t.Fatalf("%v %v %s", e, ok, r.Outcome())
	}
	if _, ok := r.Expire(a.Deadline.Add(time.Hour)); ok {
		t.Error("expired twice")
	}
	_, err = act(r, 1, ActionAgree, "", before)
	wantCode(t, err, CodeExpired)
}

func TestDeadline_doesNotTouchAClosedRoom(t *testing.T) {
	r := openRoom(t, sample(2))
	mustAct(t, r, 2, ActionDisagree, "", start)
	late := r.agreement.Deadline.Add(time.Hour)
	if _, ok := r.Expire(late); ok {
		t.Error("a closed room expired")
	}
	_, err := act(r, 1, ActionAgree, "", late)
	wantCode(t, err, CodeClosed)
}

func TestEventLimit_keepsTheLastEventForADecision(t *testing.T) {
	r := openRoom(t, sample(2))
	for range MaxEvents - 1 {
		mustAct(t, r, 2, ActionComment, "x", start)
	}
	_, err := act(r, 2, ActionComment, "x", start)
	wantCode(t, err, CodeEventLimit)
	mustAct(t, r, 2, ActionAgree, "", start)
	_, err = act(r, 2, ActionComment, "x", start)
	wantCode(t, err, CodeEventLimit)
	for range MaxEvents - 2 { // the proposal is p1's first event
		mustAct(t, r, 1, ActionComment, "x", start)
	}
	_, err = act(r, 1, ActionComment, "x", start)
	wantCode(t, err, CodeEventLimit)
	mustAct(t, r, 1, ActionAgree, "", start)
	if r.Outcome() != OutcomeReached {
		t.Error(r.Outcome())
	}
}

func TestEventLimit_boundsTheTextOfOneParticipantButNoDecision(t *testing.T) {
	r := openRoom(t, sample(2))
	body := strings.Repeat("🌊", MaxBody)
	n := 0
	var err error
	for ; err == nil; n++ {
		_, err = act(r, 2, ActionComment, body, start)
	}
	wantCode(t, err, CodeEventLimit)
	if n < 5 || n > 20 {
		t.Errorf("%d events of 32 KB fit", n)
	}
	mustAct(t, r, 1, ActionComment, body, start)
	mustAct(t, r, 2, ActionAgree, "", start)
}

func TestWithdraw_beforeTheFirstDecisionOnly(t *testing.T) {
	r := openRoom(t, sample(2))
	_, err := act(r, 2, ActionWithdraw, "", start)
	wantCode(t, err, CodeNotPermitted)
	mustAct(t, r, 2, ActionComment, "hm", start)
	e := mustAct(t, r, 1, ActionWithdraw, "", start)
	if e.Action != ActionWithdraw || r.Outcome() != OutcomeNoConsensus {
		t.Errorf("%s %s", e.Action, r.Outcome())
	}
	r = openRoom(t, sample(2))
	mustAct(t, r, 2, ActionAgree, "", start)
	_, err = act(r, 1, ActionWithdraw, "", start)
	wantCode(t, err, CodeNotPermitted)
}

// TestApply_checksInTheDocumentedOrder breaks two rules at a time: the earlier
// one names the refusal.
func TestApply_checksInTheDocumentedOrder(t *testing.T) {
	a := sample(3)
	other := "019ad4f5-3c00-7a1b-8c2d-000000000000"
	late := a.Deadline.Time
	cases := []struct {
		name string
		prep func(*Room)
		edit func(*Command)
		now  time.Time
		want string
	}{
		{"shape before agreement", nil, func(c *Command) { c.Action, c.AgreementID = "approve", other }, start, CodeInvalid},
		{"agreement before participant", nil, func(c *Command) { c.AgreementID, c.ParticipantID = other, "p8" }, start, CodeUnknownAgreement},
		{"participant before deadline", nil, func(c *Command) { c.ParticipantID = "p8" }, late, CodeUnknownParticipant},
		{"deadline before digest", nil, func(c *Command) { c.RevisionDigest = ZeroHash }, late, CodeExpired},
		{"closed before digest", func(r *Room) { mustAct(t, r, 3, ActionDisagree, "", start) }, func(c *Command) { c.RevisionDigest = ZeroHash }, start, CodeClosed},
		{"digest before second decision", func(r *Room) { mustAct(t, r, 2, ActionAgree, "", start) }, func(c *Command) { c.RevisionDigest = ZeroHash }, start, CodeStaleDigest},
		{"revision number", nil, func(c *Command) { c.Revision = 2 }, start, CodeStaleDigest},
		{"second decision before signature", func(r *Room) { mustAct(t, r, 2, ActionAgree, "", start) }, func(*Command) {}, start, CodeAlreadyDecided},
		{"signature last", nil, func(*Command) {}, start, CodeSignatureRequired},
		{"foreign schema origin", nil, func(c *Command) { c.Schema = "https://other.example" + schemaCommand }, start, CodeInvalid},
		{"text on a decision", nil, func(c *Command) { c.Body = "because" }, start, CodeInvalid},
		{"empty comment", nil, func(c *Command) { c.Action = ActionComment }, start, CodeInvalid},
		{"long comment", nil, func(c *Command) { c.Action, c.Body = ActionComment, strings.Repeat("é", MaxBody+1) }, start, CodeInvalid},
		{"propose again", nil, func(c *Command) { c.Action = ActionPropose }, start, CodeInvalid},
		{"expire by a participant", nil, func(c *Command) { c.Action = ActionExpire }, start, CodeInvalid},
		{"in the venue's name", nil, func(c *Command) { c.ParticipantID = VenueID }, start, CodeInvalid},
		{"bad UTF-8", nil, func(c *Command) { c.Action, c.Body = ActionComment, "\xff" }, start, CodeInvalid},
		{"noncharacter", nil, func(c *Command) { c.Action, c.Body = ActionComment, "\uffff" }, start, CodeInvalid},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := openRoom(t, a)
			if c.prep != nil {
				c.prep(r)
			}
			cmd := NewCommand(a, "p2", ActionAgree, "")
			c.edit(&cmd)
			n, head := len(r.events), r.Head()
			_, err := r.Apply(cmd, nil, AssuranceNostrKey, c.now)
			wantCode(t, err, c.want)
			if len(r.events) != n || r.Head() != head {
				t.Error("a refusal changed the room")
			}
		})
	}
}

func TestApply_timeNeverRunsBackwards(t *testing.T) {
	r := openRoom(t, sample(2))
	first := mustAct(t, r, 2, ActionComment, "x", start.Add(time.Hour))
	sig, _ := Sign(r.agreement, r.digest, ActionComment, "y", participantKey(2), start)
	second, err := r.Apply(NewCommand(r.agreement, "p2", ActionComment, "y"), &sig, AssuranceNostrKey, start)
	if err != nil || second.At != first.At {
		t.Errorf("at %v after %v: %v", second.At, first.At, err)
	}
	if _, err := Replay(r.agreement, r.Events()); err != nil {
		t.Error(err)
	}
}

func TestOpen_refusesALateOrUnprovenProposal(t *testing.T) {
	a := sample(2)
	sig, _ := Sign(a, a.Digest(), ActionPropose, "", participantKey(1), start)
	for name, c := range map[string]struct {
		now  time.Time
		want string
	}{
		"at the deadline":         {a.Deadline.Time, CodeExpired},
		"signed ahead":            {start.Add(-MaxSkew - time.Second), CodeSignatureInvalid},
		"signed long ago":         {a.Deadline.Add(-time.Second), ""},
		"signed 15 minutes ahead": {start.Add(-MaxSkew), ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Open(a, sig, c.now)
			wantCode(t, err, c.want)
		})
	}
	_, err := OpenUnsigned(a, AssuranceLocalOperator, start)
	wantCode(t, err, CodeSignatureRequired)
	invited, _ := Sign(a, a.Digest(), ActionPropose, "", participantKey(2), start)
	_, err = Open(a, invited, start)
	wantCode(t, err, CodeSignatureInvalid)
}

func TestConsensus1_roomNeedsNoSignature(t *testing.T) {
	a := consensusSample()
	r, err := OpenUnsigned(a, AssuranceRecipientEmailProof, start)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"p2", "p1", "p3"} {
		if _, err := r.Apply(NewCommand(a, id, ActionAgree, ""), nil, AssuranceInviteLink, start); err != nil {
			t.Fatal(err)
		}
	}
	doc, err := Consensus(r)
	if err != nil || !strings.Contains(string(doc), "without a signature") {
		t.Errorf("%v\n%s", err, doc)
	}
	_, _, err = NewBundle(r, venueKey, nil, start)
	wantCode(t, err, CodeNotPermitted)
	_, err = r.Apply(NewCommand(a, "p1", ActionWithdraw, ""), nil, AssuranceInviteLink, start)
	wantCode(t, err, CodeInvalid)
}

func TestApply_neverInflatesAssurance(t *testing.T) {
	a := consensusSample()
	r, _ := OpenUnsigned(a, AssuranceLocalOperator, start)
	for _, assurance := range []string{AssuranceNostrKey, "verified", ""} {
		_, err := r.Apply(NewCommand(a, "p2", ActionAgree, ""), nil, assurance, start)
		wantCode(t, err, CodeInvalid)
	}
}

func TestReplay_refusesEveryChangedEvent(t *testing.T) {
	r := reachedRoom(t, sample(3))
	edits := map[string]func([]Event) []Event{
		"none left":         func([]Event) []Event { return nil },
		"first missing":     func(e []Event) []Event { return e[1:] },
		"middle missing":    func(e []Event) []Event { return append(e[:2:2], e[3:]...) },
		"swapped":           func(e []Event) []Event { e[1], e[2] = e[2], e[1]; return e },
		"repeated":          func(e []Event) []Event { return append(e, e[len(e)-1]) },
		"seq":               func(e []Event) []Event { e[1].Seq = 7; return e },
		"prev":              func(e []Event) []Event { e[1].Prev = ZeroHash; return e },
		"time backwards":    func(e []Event) []Event { e[2].At = e[0].At; return e },
		"time forwards":     func(e []Event) []Event { e[2].At.Time = e[2].At.Add(time.Second); return e },
		"text":              func(e []Event) []Event { e[1].Body += "!"; return e },
		"action":            func(e []Event) []Event { e[3].Action = ActionAbstain; return e },
		"participant":       func(e []Event) []Event { e[1].ParticipantID = "p3"; return e },
		"digest":            func(e []Event) []Event { e[1].RevisionDigest = ZeroHash; return e },
		"revision":          func(e []Event) []Event { e[1].Revision = 2; return e },
		"assurance unknown": func(e []Event) []Event { e[1].Assurance = "certain"; return e },
		"assurance":         func(e []Event) []Event { e[1].Assurance = AssuranceLocalOperator; return e },
		"signature gone":    func(e []Event) []Event { e[3].Signature = nil; return e },
		"schema":            func(e []Event) []Event { e[1].Schema = "https://other.example" + schemaEvent; return e },
		"bad receipt":       func(e []Event) []Event { e[5].ReceiptRef = "x"; return e },
		"receipt":           func(e []Event) []Event { e[1].ReceiptRef = ZeroHash; return e },
		"venue's comment":   func(e []Event) []Event { e[1].ParticipantID = VenueID; return e },
	}
	for name, edit := range edits {
		t.Run(name, func(t *testing.T) {
			if _, err := Replay(r.agreement, edit(r.Events())); err == nil {
				t.Error("accepted")
			}
		})
	}
}

func TestReplay_keepsAReceiptReferenceInTheChain(t *testing.T) {
	r := openRoom(t, sample(2))
	e := r.Events()
	e[0].ReceiptRef = strings.Repeat("ab", 32)
	again, err := Replay(r.agreement, e[:1])
	if err != nil {
		t.Fatal(err)
	}
	next := mustAct(t, again, 2, ActionComment, "x", start)
	if next.Prev != e[0].Hash() {
		t.Error("the chain does not cover the receipt reference")
	}
}

func TestDocuments_roundTripStrictly(t *testing.T) {
	r := reachedRoom(t, sample(2))
	for _, e := range r.Events() {
		data, err := e.Canonical()
		if err != nil {
			t.Fatal(err)
		}
		got, err := ParseEvent(data)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(&e, got); diff != "" {
			t.Error(diff)
		}
		for _, bad := range []string{`"seq":0`, `"seq":1.0`, `"seq":null`, `"Seq":1`} {
			if _, err := ParseEvent([]byte(strings.Replace(string(data), `"seq":1`, bad, 1))); e.Seq == 1 && err == nil {
				t.Errorf("%s was read", bad)
			}
		}
	}
	cmd := NewCommand(r.agreement, "p2", ActionQuestion, "a\r\n\x00b")
	data, err := cmd.Canonical()
	if err != nil {
		t.Fatal(err)
	}
	got, err := ParseCommand(data)
	if err != nil || *got != cmd {
		t.Errorf("%v %v", got, err)
	}
	_, err = ParseCommand([]byte(strings.Replace(string(data), `"revision_digest":"`, `"revision_digest":"sha256:`, 1)))
	wantCode(t, err, CodeInvalid)
}
