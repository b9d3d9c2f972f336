package venue_test

import (
	"context"
	"database/sql"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parleykit/parley/protocol/agreement"
	"github.com/parleykit/parley/protocol/message"
	"github.com/parleykit/parley/venue"
)

func TestPropose_locksTheExactBytesAndInvitesTheOthers(t *testing.T) {
	h := newHouse(t)
	p := h.newParty(3)
	req := h.proposal(p)
	result := h.propose(req)
	wantAccepted(t, result)
	first, err := agreement.ParseEvent(result.Event)
	if err != nil || first.Seq != 1 || first.Action != agreement.ActionPropose || result.Outcome != agreement.OutcomePending {
		t.Errorf("first event %+v, outcome %s, err %v", first, result.Outcome, err)
	}
	sent := h.outbox.drain()
	want := map[string]int{
		"agreement.invite p2": 1, "agreement.invite p3": 1, "agreement.event p2": 1, "agreement.event p3": 1,
	}
	if diff := cmp.Diff(want, tally(sent, p.names())); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
	for _, m := range sent {
		if m.Type != message.TypeAgreementInvite {
			continue
		}
		var invite message.AgreementInvite
		if err := message.DecodeBody(m, &invite); err != nil {
			t.Fatal(err)
		}
		if invite.Revision != string(req.Revision) {
			t.Error("invite does not carry the proposed bytes")
		}
		a, err := agreement.ParseAgreement([]byte(invite.Revision))
		if err != nil {
			t.Fatal(err)
		}
		if err := agreement.VerifySignature(invite.Signature, a, a.Digest(), agreement.ActionPropose, "", req.Initiator, h.clock.now()); err != nil {
			t.Errorf("signature in the invite: %v", err)
		}
		if !m.ExpiresAt.Equal(p.a.Deadline.Time) || m.Thread != p.a.AgreementID {
			t.Errorf("invite expires %s in thread %s, want the deadline %s and the agreement's id", m.ExpiresAt, m.Thread, p.a.Deadline)
		}
	}
}

func TestPropose_isNotAgreeing(t *testing.T) {
	h := newHouse(t)
	p := h.open(h.newParty(2))
	wantAccepted(t, h.do(p, "p2", agreement.ActionAgree, ""))
	if got := h.stored(p.a.AgreementID).Outcome(); got != agreement.OutcomePending {
		t.Errorf("outcome %s before the initiator decided", got)
	}
}

func TestPropose_repeatedGivesTheSameResultAndInvitesNobody(t *testing.T) {
	h := newHouse(t)
	p := h.newParty(2)
	first := h.propose(h.proposal(p))
	h.outbox.drain()
	h.clock.advance(time.Minute)
	again := h.propose(h.proposal(p)) // signed anew
	if !again.Replayed || string(again.Event) != string(first.Event) {
		t.Errorf("replayed %v, event %s", again.Replayed, again.Event)
	}
	if sent := h.outbox.drain(); len(sent) != 0 {
		t.Errorf("a repeated proposal sent %d messages", len(sent))
	}
	h.clock.set(p.a.Deadline.Time)
	if late := h.propose(h.proposal(p)); !late.Replayed || late.Outcome != agreement.OutcomeExpired {
		t.Errorf("after the deadline: %+v", late)
	}
}

func TestPropose_otherBytesUnderAUsedIDAreAConflict(t *testing.T) {
	h := newHouse(t)
	p := h.open(h.newParty(2))
	p.a.Title = "Another title"
	wantRefusal(t, h.propose(h.proposal(p)), agreement.CodeKeyConflict)
}

func TestPropose_refusals(t *testing.T) {
	h := newHouse(t)
	stranger := newKey(t)
	terms := func(change func(*agreement.Terms)) venue.ProposeRequest { return h.proposal(h.newParty(2, change)) }
	for name, c := range map[string]struct {
		req  venue.ProposeRequest
		code string
	}{
		"not an agreement": {func() venue.ProposeRequest {
			req := h.proposal(h.newParty(2))
			req.Revision = []byte(`{"schema":"x"}`)
			return req
		}(), agreement.CodeInvalid},
		"not canonical": {func() venue.ProposeRequest {
			req := h.proposal(h.newParty(2))
			req.Revision = append([]byte(" "), req.Revision...)
			return req
		}(), agreement.CodeInvalid},
		"unknown member": {func() venue.ProposeRequest {
			req := h.proposal(h.newParty(2))
			req.Revision = []byte(strings.Replace(string(req.Revision), `{"agreement_id"`, `{"a":1,"agreement_id"`, 1))
			return req
		}(), agreement.CodeInvalid},
		"another venue":  {terms(func(x *agreement.Terms) { x.Venue = stranger.PublicKey() }), agreement.CodeInvalid},
		"another origin": {terms(func(x *agreement.Terms) { x.Origin = "https://other.example" }), agreement.CodeInvalid},
		"deadline beyond a message's life": {terms(func(x *agreement.Terms) {
			x.Deadline = h.clock.now().Add(message.MaxLifetime + time.Second)
		}), agreement.CodeInvalid},
		"deadline passed": {func() venue.ProposeRequest {
			p := h.newParty(2)
			p.a.Deadline.Time = h.clock.now()
			return h.proposal(p)
		}(), agreement.CodeExpired},
		"somebody without a key": {terms(func(x *agreement.Terms) {
			x.Participants[1] = agreement.Participant{Kind: agreement.KindHuman, AddressCommitment: strings.Repeat("A", 43)}
		}), agreement.CodeInvalid},
		"not by the initiator": {func() venue.ProposeRequest {
			req := h.proposal(h.newParty(2))
			req.Initiator = stranger.PublicKey()
			return req
		}(), agreement.CodeNotPermitted},
		"signed by another": {func() venue.ProposeRequest {
			p := h.newParty(2)
			req := h.proposal(p)
			req.Signature = h.sign(p, "p2", agreement.ActionPropose, "")
			return req
		}(), agreement.CodeSignatureInvalid},
		"signed for another act": {func() venue.ProposeRequest {
			p := h.newParty(2)
			req := h.proposal(p)
			req.Signature = h.sign(p, "p1", agreement.ActionAgree, "")
			return req
		}(), agreement.CodeSignatureInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			wantRefusal(t, h.propose(c.req), c.code)
			if sent := h.outbox.drain(); len(sent) != 0 {
				t.Errorf("a refused proposal sent %d messages", len(sent))
			}
		})
	}
}

func TestPropose_theLongestDeadlineIsAMessagesLife(t *testing.T) {
	h := newHouse(t)
	h.clock.advance(999 * time.Millisecond)
	p := h.newParty(2, func(x *agreement.Terms) { x.Deadline = h.clock.now().Add(message.MaxLifetime) })
	wantAccepted(t, h.propose(h.proposal(p)))
}

func TestPropose_onlyHostsOpenRooms(t *testing.T) {
	h := newHouse(t)
	p := h.newParty(2)
	h.venue = h.newVenue(func(o *venue.Options) {
		o.Hosts = func(_ context.Context, key string) bool { return key == p.keys["p1"].PublicKey() }
	})
	wantRefusal(t, h.propose(h.proposal(h.newParty(2))), agreement.CodeNotPermitted)
	wantAccepted(t, h.propose(h.proposal(p)))
	h.venue = h.newVenue(func(o *venue.Options) { o.Hosts = nil })
	wantRefusal(t, h.propose(h.proposal(h.newParty(2))), agreement.CodeNotPermitted)
}

func TestPropose_dailyCapIsPerInitiatorAndPassesWithADay(t *testing.T) {
	h := newHouse(t, func(o *venue.Options) { o.DailyCap = 2 })
	key := newKey(t)
	propose := func() *venue.Result {
		p := h.newParty(2, func(x *agreement.Terms) { x.Participants[0].PubKey = key.PublicKey() })
		p.keys["p1"] = key
		return h.propose(h.proposal(p))
	}
	wantAccepted(t, propose())
	h.clock.advance(time.Hour)
	wantAccepted(t, propose())
	wantRefusal(t, propose(), agreement.CodeCap)
	h.open(h.newParty(2)) // somebody else's
	h.clock.advance(23 * time.Hour)
	wantAccepted(t, propose())
	wantRefusal(t, propose(), agreement.CodeCap)
}

func TestIsMember_onlyForCommandsAndQueriesOfMembers(t *testing.T) {
	h := newHouse(t)
	p := h.open(h.newParty(2))
	stranger := newKey(t)
	h.tx(func(ctx context.Context, tx *sql.Tx) error {
		for _, c := range []struct {
			key, typ string
			want     bool
		}{
			{p.keys["p2"].PublicKey(), message.TypeAgreementCommand, true},
			{p.keys["p2"].PublicKey(), message.TypeAgreementQuery, true},
			{p.keys["p2"].PublicKey(), message.TypeText, false},
			{p.keys["p2"].PublicKey(), message.TypeAgreementPropose, false},
			{stranger.PublicKey(), message.TypeAgreementCommand, false},
		} {
			if got := h.venue.IsMember(ctx, tx, c.key, &message.Message{Type: c.typ}); got != c.want {
				t.Errorf("IsMember(%.8s, %s) = %v", c.key, c.typ, got)
			}
		}
		return nil
	})
}
