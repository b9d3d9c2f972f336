package venue_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parleykit/parley/protocol/agreement"
	"github.com/parleykit/parley/protocol/message"
	"github.com/parleykit/parley/venue"
)

func TestRoom_reachesEveryOutcomeAndItsBundleVerifies(t *testing.T) {
	type step struct{ id, action, body string }
	for want, steps := range map[string][]step{
		agreement.OutcomeReached: {
			{"p3", agreement.ActionQuestion, "Which branch?"},
			{"p1", agreement.ActionComment, "main"},
			{"p2", agreement.ActionAgree, ""},
			{"p1", agreement.ActionAgree, ""},
			{"p3", agreement.ActionAgree, ""},
		},
		agreement.OutcomeDisagreed:   {{"p1", agreement.ActionAgree, ""}, {"p2", agreement.ActionDisagree, ""}},
		agreement.OutcomeNoConsensus: {{"p1", agreement.ActionAgree, ""}, {"p2", agreement.ActionAbstain, ""}},
		agreement.OutcomeExpired:     {{"p1", agreement.ActionAgree, ""}},
	} {
		t.Run(want, func(t *testing.T) {
			h := newHouse(t)
			p := h.open(h.newParty(3))
			for _, s := range steps {
				wantAccepted(t, h.do(p, s.id, s.action, s.body))
			}
			if want == agreement.OutcomeExpired {
				h.clock.set(p.a.Deadline.Time)
				if n, err := h.venue.ExpireDue(t.Context()); n != 1 || err != nil {
					t.Fatalf("ExpireDue = %d, %v; want one room", n, err)
				}
			}
			report := h.bundleOf(p.a.AgreementID)
			if report.Outcome != want || report.Digest != p.a.Digest() {
				t.Errorf("bundle tells %s of %s, want %s of %s", report.Outcome, report.Digest, want, p.a.Digest())
			}
			if (report.ConsensusDigest != "") != (want == agreement.OutcomeReached) {
				t.Errorf("CONSENSUS.md digest %q with outcome %s", report.ConsensusDigest, want)
			}
			if word := report.OnVenueWord(); len(word) != 0 {
				t.Errorf("signed decisions rest on the venue's word: %v", word)
			}
			artifacts := map[string]int{}
			for _, m := range h.outbox.drain() {
				if m.Type == message.TypeAgreementArtifact {
					artifacts[p.names()[m.To]]++
				}
			}
			if diff := cmp.Diff(map[string]int{"p1": 1, "p2": 1, "p3": 1}, artifacts); diff != "" {
				t.Errorf("artifacts (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCommand_tellsTheOthersAndNotTheCaller(t *testing.T) {
	h := newHouse(t)
	p := h.open(h.newParty(3))
	h.outbox.drain()
	wantAccepted(t, h.do(p, "p2", agreement.ActionComment, "hello"))
	got := tally(h.outbox.drain(), p.names())
	if diff := cmp.Diff(map[string]int{"agreement.event p1": 1, "agreement.event p3": 1}, got); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
}

func TestCommand_withdrawalEndsWithoutConsensus(t *testing.T) {
	h := newHouse(t)
	p := h.open(h.newParty(2))
	wantRefusal(t, h.do(p, "p2", agreement.ActionWithdraw, ""), agreement.CodeNotPermitted)
	wantAccepted(t, h.do(p, "p1", agreement.ActionWithdraw, ""))
	if report := h.bundleOf(p.a.AgreementID); report.Outcome != agreement.OutcomeNoConsensus {
		t.Errorf("outcome %s", report.Outcome)
	}
}

func TestCommand_fromTheDeadlineOnIsExpiredAndTheRoomCloses(t *testing.T) {
	h := newHouse(t)
	p := h.open(h.newParty(2))
	wantAccepted(t, h.do(p, "p1", agreement.ActionAgree, ""))
	h.clock.set(p.a.Deadline.Time)
	h.outbox.drain()
	result := h.do(p, "p2", agreement.ActionAgree, "")
	wantRefusal(t, result, agreement.CodeExpired)
	if got := h.stored(p.a.AgreementID).Outcome(); got != agreement.OutcomeExpired {
		t.Errorf("a late decision left the room %s", got)
	}
	want := map[string]int{
		"agreement.event p1": 1, "agreement.event p2": 1, "agreement.artifact p1": 1, "agreement.artifact p2": 1,
	}
	if diff := cmp.Diff(want, tally(h.outbox.drain(), p.names())); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
	h.bundleOf(p.a.AgreementID)
}

func TestCommand_justBeforeTheDeadlineCounts(t *testing.T) {
	h := newHouse(t)
	p := h.open(h.newParty(2))
	h.clock.set(p.a.Deadline.Add(-time.Nanosecond))
	wantAccepted(t, h.do(p, "p1", agreement.ActionAgree, ""))
}

func TestCommand_firstClosingDecisionFixesTheOutcome(t *testing.T) {
	h := newHouse(t)
	p := h.open(h.newParty(3))
	wantAccepted(t, h.do(p, "p1", agreement.ActionDisagree, ""))
	wantRefusal(t, h.do(p, "p2", agreement.ActionAgree, ""), agreement.CodeClosed)
	wantRefusal(t, h.do(p, "p3", agreement.ActionComment, "but"), agreement.CodeClosed)
	if got := h.stored(p.a.AgreementID).Outcome(); got != agreement.OutcomeDisagreed {
		t.Errorf("outcome %s", got)
	}
}

func TestCommand_secondDecisionIsRefused(t *testing.T) {
	h := newHouse(t)
	p := h.open(h.newParty(3))
	wantAccepted(t, h.do(p, "p1", agreement.ActionAgree, ""))
	wantRefusal(t, h.do(p, "p1", agreement.ActionDisagree, ""), agreement.CodeAlreadyDecided)
	wantRefusal(t, h.do(p, "p1", agreement.ActionAgree, ""), agreement.CodeAlreadyDecided)
	wantAccepted(t, h.do(p, "p1", agreement.ActionComment, "and one word more"))
}

// altered changes the command inside a request.
func altered(t *testing.T, req venue.CommandRequest, change func(*agreement.Command)) venue.CommandRequest {
	t.Helper()
	cmd, err := agreement.ParseCommand(req.Command)
	if err != nil {
		t.Fatal(err)
	}
	change(cmd)
	if req.Command, err = cmd.Canonical(); err != nil {
		t.Fatal(err)
	}
	return req
}

func TestCommand_refusals(t *testing.T) {
	h := newHouse(t)
	p := h.open(h.newParty(2))
	agree := func() venue.CommandRequest { return h.request(p, "p1", agreement.ActionAgree, "") }
	for name, c := range map[string]struct {
		req  venue.CommandRequest
		code string
	}{
		"stale digest": {altered(t, agree(), func(c *agreement.Command) {
			c.RevisionDigest = strings.Repeat("0", 64)
		}), agreement.CodeStaleDigest},
		"stale revision": {altered(t, agree(), func(c *agreement.Command) { c.Revision = 2 }), agreement.CodeStaleDigest},
		"no signature": {func() venue.CommandRequest {
			req := agree()
			req.Signature = nil
			return req
		}(), agreement.CodeSignatureRequired},
		"signature of another": {func() venue.CommandRequest {
			req := agree()
			sig := h.sign(p, "p2", agreement.ActionAgree, "")
			req.Signature = &sig
			return req
		}(), agreement.CodeSignatureInvalid},
		"signature of another action": {func() venue.CommandRequest {
			req := agree()
			sig := h.sign(p, "p1", agreement.ActionDisagree, "")
			req.Signature = &sig
			return req
		}(), agreement.CodeSignatureInvalid},
		"other schema origin": {altered(t, agree(), func(c *agreement.Command) {
			c.Schema = "https://other.example/schemas/room-command/v1"
		}), agreement.CodeInvalid},
		"unknown action":     {altered(t, agree(), func(c *agreement.Command) { c.Action = "expire" }), agreement.CodeInvalid},
		"decision with text": {altered(t, agree(), func(c *agreement.Command) { c.Body = "yes" }), agreement.CodeInvalid},
		"short key": {func() venue.CommandRequest {
			req := agree()
			req.Key = "short"
			return req
		}(), agreement.CodeInvalid},
		"key with a space": {func() venue.CommandRequest {
			req := agree()
			req.Key = "with a space"
			return req
		}(), agreement.CodeInvalid},
		"not JSON": {func() venue.CommandRequest {
			req := agree()
			req.AgreementID, req.Command = p.a.AgreementID, []byte("agree")
			return req
		}(), agreement.CodeInvalid},
		"too large": {func() venue.CommandRequest {
			req := agree()
			req.AgreementID, req.Command = p.a.AgreementID, []byte(`"`+strings.Repeat("a", agreement.MaxCommandSize)+`"`)
			return req
		}(), agreement.CodeInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			wantRefusal(t, h.command(c.req), c.code)
			if n := len(h.stored(p.a.AgreementID).Events()); n != 1 {
				t.Errorf("room has %d events after a refusal", n)
			}
		})
	}
	wantAccepted(t, h.command(agree())) // none of them used anything up
}

func TestCommand_tellsAnOutsiderNothing(t *testing.T) {
	h := newHouse(t)
	p, other := h.open(h.newParty(2)), h.open(h.newParty(2))
	missing := h.newParty(2)
	outsider := func(req venue.CommandRequest) venue.CommandRequest {
		req.Caller.PubKey = other.keys["p1"].PublicKey()
		return req
	}
	reqs := map[string]venue.CommandRequest{
		"room of others":         outsider(h.request(p, "p1", agreement.ActionAgree, "")),
		"no such room":           outsider(h.request(missing, "p1", agreement.ActionAgree, "")),
		"place of another":       altered(t, h.request(p, "p1", agreement.ActionComment, "x"), func(c *agreement.Command) { c.ParticipantID = "p2" }),
		"place that is not":      altered(t, h.request(p, "p1", agreement.ActionComment, "x"), func(c *agreement.Command) { c.ParticipantID = "p8" }),
		"no id at all":           {Caller: venue.Caller{PubKey: other.keys["p1"].PublicKey()}, Key: "key-00001", Command: []byte(`{}`)},
		"room of others, no key": outsider(venue.CommandRequest{AgreementID: p.a.AgreementID, Command: []byte("?")}),
		"no such room, no key":   outsider(venue.CommandRequest{AgreementID: missing.a.AgreementID, Command: []byte("?")}),
		"another room meant": func() venue.CommandRequest {
			r := h.request(p, "p1", agreement.ActionComment, "x")
			r.AgreementID = other.a.AgreementID
			r.Caller.PubKey = other.keys["p1"].PublicKey()
			return r
		}(),
		"credential of no place": {AgreementID: p.a.AgreementID, Key: "key-00001", Command: []byte(`{}`)},
	}
	var want *agreement.Refusal
	for name, req := range reqs {
		result := h.command(req)
		wantRefusal(t, result, agreement.CodeUnknownAgreement)
		if want == nil {
			want = result.Refusal
		}
		if diff := cmp.Diff(want, result.Refusal); diff != "" || result.Outcome != "" {
			t.Errorf("%s: another answer (outcome %q):\n%s", name, result.Outcome, diff)
		}
	}
}

func TestCommand_repeatedGivesTheSameEventAndSendsNothing(t *testing.T) {
	h := newHouse(t)
	p := h.open(h.newParty(2))
	req := h.request(p, "p1", agreement.ActionAgree, "")
	first := h.command(req)
	wantAccepted(t, first)
	h.outbox.drain()
	for _, when := range []string{"at once", "after a restart", "after the room closed"} {
		switch when {
		case "after a restart":
			h.venue = h.newVenue()
		case "after the room closed":
			wantAccepted(t, h.do(p, "p2", agreement.ActionDisagree, ""))
			h.outbox.drain()
		}
		sig := h.sign(p, "p1", agreement.ActionAgree, "") // another signature of the same act
		req.Signature = &sig
		again := h.command(req)
		wantAccepted(t, again)
		if !again.Replayed || string(again.Event) != string(first.Event) {
			t.Errorf("%s: replayed %v, event %s, want %s", when, again.Replayed, again.Event, first.Event)
		}
		if sent := h.outbox.drain(); len(sent) != 0 {
			t.Errorf("%s: a replay sent %d messages", when, len(sent))
		}
	}
}

func TestCommand_keyBelongsToOneCommandAlsoAfterClosing(t *testing.T) {
	h := newHouse(t)
	p := h.open(h.newParty(2))
	req := h.request(p, "p1", agreement.ActionComment, "one")
	wantAccepted(t, h.command(req))
	other := h.request(p, "p1", agreement.ActionComment, "two")
	other.Key = req.Key
	wantRefusal(t, h.command(other), agreement.CodeKeyConflict)
	wantAccepted(t, h.do(p, "p2", agreement.ActionDisagree, ""))
	wantRefusal(t, h.command(other), agreement.CodeKeyConflict)
	h.clock.set(p.a.Deadline.Add(time.Hour))
	wantRefusal(t, h.command(other), agreement.CodeKeyConflict)
}

func TestCommand_keysOfParticipantsAndRoomsAreApart(t *testing.T) {
	h := newHouse(t)
	p, q := h.open(h.newParty(2)), h.open(h.newParty(2))
	for _, req := range []venue.CommandRequest{
		h.request(p, "p1", agreement.ActionComment, "a"), h.request(p, "p2", agreement.ActionComment, "b"),
		h.request(q, "p1", agreement.ActionComment, "c"),
	} {
		req.Key = "the-same-key"
		wantAccepted(t, h.command(req))
	}
}

func TestCommand_refusedDoesNotBindItsKey(t *testing.T) {
	h := newHouse(t)
	p := h.open(h.newParty(2))
	stale := altered(t, h.request(p, "p1", agreement.ActionAgree, ""), func(c *agreement.Command) { c.Revision = 2 })
	wantRefusal(t, h.command(stale), agreement.CodeStaleDigest)
	right := h.request(p, "p1", agreement.ActionAgree, "")
	right.Key = stale.Key
	wantAccepted(t, h.command(right))
}

func TestCommand_eventLimitKeepsTheLastSlotForADecision(t *testing.T) {
	h := newHouse(t)
	p := h.open(h.newParty(2))
	for range agreement.MaxEvents - 1 {
		req := h.request(p, "p2", agreement.ActionComment, "more")
		req.Signature = nil
		wantAccepted(t, h.command(req))
	}
	wantRefusal(t, h.do(p, "p2", agreement.ActionComment, "too much"), agreement.CodeEventLimit)
	wantAccepted(t, h.do(p, "p2", agreement.ActionAgree, ""))
	wantRefusal(t, h.do(p, "p2", agreement.ActionComment, "still too much"), agreement.CodeEventLimit)
	wantAccepted(t, h.do(p, "p1", agreement.ActionAgree, ""))
	if report := h.bundleOf(p.a.AgreementID); report.Outcome != agreement.OutcomeReached {
		t.Errorf("outcome %s", report.Outcome)
	}
}

func TestCommand_delegateActsForItsParticipant(t *testing.T) {
	h := newHouse(t)
	delegate := newKey(t)
	p := h.open(h.newParty(2, func(terms *agreement.Terms) { terms.Participants[1].Delegate = delegate.PublicKey() }))
	if n := tally(h.outbox.drain(), map[string]string{delegate.PublicKey(): "delegate"})["agreement.invite delegate"]; n != 1 {
		t.Errorf("delegate got %d invites, want 1", n)
	}
	p.keys["delegate"] = delegate
	req := h.request(p, "p2", agreement.ActionAgree, "")
	sig := h.sign(p, "delegate", agreement.ActionAgree, "")
	req.Caller.PubKey, req.Signature = delegate.PublicKey(), &sig
	wantAccepted(t, h.command(req))
	wantAccepted(t, h.do(p, "p1", agreement.ActionAgree, ""))
	report := h.bundleOf(p.a.AgreementID)
	if report.Outcome != agreement.OutcomeReached || report.Decisions[0].Proof != agreement.ProofDelegate {
		t.Errorf("outcome %s, proof %s", report.Outcome, report.Decisions[0].Proof)
	}
}

func TestCommand_callerByCredentialIsRecordedAsSuch(t *testing.T) {
	h := newHouse(t)
	p := h.open(h.newParty(2))
	req := h.request(p, "p2", agreement.ActionComment, "by link")
	req.Caller = venue.Caller{ParticipantID: "p2", Assurance: agreement.AssuranceInviteLink}
	req.AgreementID, req.Signature = p.a.AgreementID, nil
	wantAccepted(t, h.command(req))
	events := h.stored(p.a.AgreementID).Events()
	if got := events[1].Assurance; got != agreement.AssuranceInviteLink {
		t.Errorf("assurance %s", got)
	}
}

func TestCommand_rolledBackLeavesNoTrace(t *testing.T) {
	h := newHouse(t)
	p := h.open(h.newParty(2))
	undo := errors.New("undo")
	req := h.request(p, "p1", agreement.ActionAgree, "")
	err := h.db.Tx(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
		if _, err := h.venue.Command(ctx, tx, req); err != nil {
			return err
		}
		return undo
	})
	if !errors.Is(err, undo) {
		t.Fatal(err)
	}
	again := h.command(req)
	wantAccepted(t, again)
	if again.Replayed || len(h.stored(p.a.AgreementID).Events()) != 2 {
		t.Error("a command rolled back was taken for done")
	}
}

func TestCommand_thatCannotBeToldIsNotAccepted(t *testing.T) {
	h := newHouse(t)
	p := h.open(h.newParty(2))
	h.outbox.fail = errors.New("outbox full")
	req := h.request(p, "p1", agreement.ActionAgree, "")
	err := h.db.Tx(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
		_, err := h.venue.Command(ctx, tx, req)
		return err
	})
	if !errors.Is(err, h.outbox.fail) || len(h.stored(p.a.AgreementID).Events()) != 1 {
		t.Errorf("err %v, %d events", err, len(h.stored(p.a.AgreementID).Events()))
	}
	h.outbox.fail = nil
	wantAccepted(t, h.command(req))
}
