package venue_test

import (
	"context"
	"database/sql"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/protocol/agreement"
	"github.com/parleykit/parley/protocol/message"
	"github.com/parleykit/parley/venue"
)

func TestQuery_givesTheInviteAndEveryEventOrThoseFromASeq(t *testing.T) {
	h := newHouse(t)
	p := h.newParty(2)
	req := h.proposal(p)
	wantAccepted(t, h.propose(req))
	for _, text := range []string{"one", "two", "three"} {
		wantAccepted(t, h.do(p, "p1", agreement.ActionComment, text))
	}
	whole := h.query(p.keys["p2"], p.a.AgreementID, 0)
	if whole.Revision != string(req.Revision) || whole.Signature.ID != req.Signature.ID || len(whole.Events) != 4 {
		t.Errorf("revision %d bytes, signature %v, %d events", len(whole.Revision), whole.Signature, len(whole.Events))
	}
	if string(whole.Head) != string(whole.Events[3]) || whole.Bundle != "" || whole.Outcome != agreement.OutcomePending {
		t.Errorf("head %s, bundle %q, outcome %s", whole.Head, whole.Bundle, whole.Outcome)
	}
	from := h.query(p.keys["p2"], p.a.AgreementID, 3)
	if diff := cmp.Diff(whole.Events[2:], from.Events); diff != "" || from.Revision != "" {
		t.Errorf("from 3, revision %q:\n%s", from.Revision, diff)
	}
	if beyond := h.query(p.keys["p2"], p.a.AgreementID, 99); len(beyond.Events) != 0 || string(beyond.Head) != string(whole.Head) {
		t.Errorf("beyond the end: %d events", len(beyond.Events))
	}
}

func TestQuery_ofAClosedRoomHasTheBundle(t *testing.T) {
	h := newHouse(t)
	p := h.open(h.newParty(2))
	wantAccepted(t, h.do(p, "p1", agreement.ActionAbstain, ""))
	page := h.query(p.keys["p1"], p.a.AgreementID, 0)
	if report, err := agreement.Verify([]byte(page.Bundle)); err != nil || report.Outcome != agreement.OutcomeNoConsensus {
		t.Errorf("bundle: %+v, %v", report, err)
	}
}

func TestQuery_pagesUntilTheHead(t *testing.T) {
	h := newHouse(t)
	p := h.open(h.newParty(2))
	for i := range 130 {
		id := []string{"p1", "p2"}[i%2]
		req := h.request(p, id, agreement.ActionComment, "word")
		req.Signature = nil
		wantAccepted(t, h.command(req))
	}
	wantAccepted(t, h.do(p, "p1", agreement.ActionDisagree, ""))
	first := h.query(p.keys["p1"], p.a.AgreementID, 0)
	if len(first.Events) != venue.PageEvents || first.Bundle != "" {
		t.Fatalf("first page has %d events, bundle %v", len(first.Events), first.Bundle != "")
	}
	second := h.query(p.keys["p1"], p.a.AgreementID, venue.PageEvents+1)
	if n := len(second.Events); n != 132-venue.PageEvents || string(second.Events[n-1]) != string(second.Head) || second.Bundle == "" {
		t.Errorf("second page has %d events, bundle %v", n, second.Bundle != "")
	}
}

func TestQuery_tellsAnOutsiderNothing(t *testing.T) {
	h := newHouse(t)
	p, other := h.open(h.newParty(2)), h.open(h.newParty(2))
	theirs := h.query(other.keys["p1"], p.a.AgreementID, 0)
	missing := h.query(other.keys["p1"], h.newParty(2).a.AgreementID, 0)
	theirs.AgreementID, missing.AgreementID = "", ""
	if diff := cmp.Diff(missing, theirs); diff != "" || theirs.Refusal == nil {
		t.Errorf("a room of others and no room differ:\n%s", diff)
	}
}

func TestQuery_afterTheDeadlineFindsTheRoomExpired(t *testing.T) {
	h := newHouse(t)
	p := h.open(h.newParty(2))
	h.clock.set(p.a.Deadline.Time)
	if page := h.query(p.keys["p1"], p.a.AgreementID, 0); page.Outcome != agreement.OutcomeExpired || page.Bundle == "" {
		t.Errorf("outcome %s, bundle %v", page.Outcome, page.Bundle != "")
	}
}

func TestQuery_isRationedPerParticipant(t *testing.T) {
	h := newHouse(t)
	p := h.open(h.newParty(2))
	ask := func(id string) *venue.Page { return h.query(p.keys[id], p.a.AgreementID, 0) }
	answered := 0
	for ; ask("p1").Refusal == nil; answered++ {
		if answered > 2000 {
			t.Fatal("no ration")
		}
	}
	if answered < 100 {
		t.Errorf("only %d small queries were answered", answered)
	}
	if page := ask("p1"); page.Refusal == nil || page.Refusal.Code != agreement.CodeCap || len(page.Events) != 0 {
		t.Errorf("over the ration: %+v", page)
	}
	if page := ask("p2"); page.Refusal != nil {
		t.Errorf("another participant is refused too: %v", page.Refusal)
	}
	wantAccepted(t, h.do(p, "p1", agreement.ActionAgree, "")) // a decision needs no ration
	h.clock.advance(time.Minute)
	if page := ask("p1"); page.Refusal != nil {
		t.Errorf("after a minute: %v", page.Refusal)
	}
}

// incoming is a stored message of a participant to the venue.
func (h *house) incoming(from string, body message.Body) *carrier.Incoming {
	h.t.Helper()
	m, err := message.New(body.Type(), from, h.key.PublicKey(), body, h.clock.now(), time.Hour)
	if err != nil {
		h.t.Fatal(err)
	}
	return &carrier.Incoming{Seq: 1, Sender: from, Scheme: "nostr", ReceivedAt: h.clock.now(), Message: m}
}

func (h *house) handle(in *carrier.Incoming) []*message.Message {
	h.t.Helper()
	h.outbox.drain()
	h.tx(func(ctx context.Context, tx *sql.Tx) error { return h.venue.Handle(ctx, tx, in) })
	return h.outbox.drain()
}

func TestHandle_queryIsAnsweredByMessagesThatEndWithTheHead(t *testing.T) {
	h := newHouse(t)
	p := h.open(h.newParty(2))
	wantAccepted(t, h.do(p, "p1", agreement.ActionAgree, ""))
	wantAccepted(t, h.do(p, "p2", agreement.ActionDisagree, ""))
	in := h.incoming(p.keys["p2"].PublicKey(), message.AgreementQuery{AgreementID: p.a.AgreementID})
	sent := h.handle(in)
	var types []string
	for _, m := range sent {
		types = append(types, m.Type)
	}
	want := []string{
		message.TypeAgreementInvite, message.TypeAgreementEvent, message.TypeAgreementEvent,
		message.TypeAgreementEvent, message.TypeAgreementArtifact, message.TypeAgreementResult,
	}
	if diff := cmp.Diff(want, types); diff != "" {
		t.Fatalf("answers (-want +got):\n%s", diff)
	}
	for i, want := range []string{agreement.OutcomePending, agreement.OutcomePending, agreement.OutcomeDisagreed} {
		var event message.AgreementEvent
		if err := message.DecodeBody(sent[1+i], &event); err != nil || event.Outcome != want {
			t.Errorf("outcome %q after event %d, want %q (%v)", event.Outcome, i+1, want, err)
		}
	}
	var result message.AgreementResult
	if err := message.DecodeBody(sent[5], &result); err != nil {
		t.Fatal(err)
	}
	if e, err := agreement.ParseEvent(result.Event); err != nil || e.Seq != 3 || result.InReplyTo != in.Message.ID {
		t.Errorf("result %+v, err %v", result, err)
	}
}

func TestHandle_refusalGoesBackInReplyToTheMessage(t *testing.T) {
	h := newHouse(t)
	p := h.open(h.newParty(2))
	outsider := newKey(t)
	cmd := h.request(p, "p1", agreement.ActionAgree, "")
	in := h.incoming(outsider.PublicKey(), message.AgreementCommand{Command: cmd.Command, Key: cmd.Key, Signature: cmd.Signature})
	sent := h.handle(in)
	if len(sent) != 1 || sent[0].To != outsider.PublicKey() {
		t.Fatalf("%d messages", len(sent))
	}
	var result message.AgreementResult
	if err := message.DecodeBody(sent[0], &result); err != nil {
		t.Fatal(err)
	}
	if result.InReplyTo != in.Message.ID || result.Refusal == nil || result.Refusal.Code != agreement.CodeUnknownAgreement {
		t.Errorf("result %+v", result)
	}
}

func TestHandle_commandWithoutAnAgreementIDIsStillAnswered(t *testing.T) {
	h := newHouse(t)
	sent := h.handle(h.incoming(newKey(t).PublicKey(), message.AgreementCommand{Command: []byte(`{"agreement_id":"?"}`), Key: "key-00001"}))
	var result message.AgreementResult
	if len(sent) != 1 || message.DecodeBody(sent[0], &result) != nil || result.Refusal == nil || result.AgreementID != "" {
		t.Errorf("%d messages, result %+v", len(sent), result)
	}
}

func TestStranger_takesOnlyProposalsOfHosts(t *testing.T) {
	h := newHouse(t)
	host := newKey(t).PublicKey()
	v := h.newVenue(func(o *venue.Options) { o.Hosts = func(_ context.Context, key string) bool { return key == host } })
	for _, c := range []struct {
		key, typ string
		want     bool
	}{
		{host, message.TypeAgreementPropose, true},
		{host, message.TypeText, false},
		{newKey(t).PublicKey(), message.TypeAgreementPropose, false},
	} {
		in := &carrier.Incoming{Sender: c.key, Message: &message.Message{Type: c.typ}}
		if got := v.Stranger(t.Context(), in); got != c.want {
			t.Errorf("Stranger(%.8s, %s) = %v", c.key, c.typ, got)
		}
	}
}

func TestArtifact_tooLargeForAMessageIsKeptAndSaidSo(t *testing.T) {
	h := newHouse(t)
	p := h.open(h.newParty(8))
	body := strings.Repeat("漢", agreement.MaxBody) // 12 kB each
	for id := range p.keys {
		for range 7 {
			wantAccepted(t, h.do(p, id, agreement.ActionComment, body))
		}
	}
	h.outbox.drain()
	wantAccepted(t, h.do(p, "p1", agreement.ActionDisagree, ""))
	counts := tally(h.outbox.drain(), p.names())
	if counts["agreement.artifact p2"] != 0 || counts["agreement.event p2"] != 1 {
		t.Errorf("messages %v", counts)
	}
	h.bundleOf(p.a.AgreementID)
	sent := h.handle(h.incoming(p.keys["p2"].PublicKey(), message.AgreementQuery{AgreementID: p.a.AgreementID, From: 50}))
	var result message.AgreementResult
	if err := message.DecodeBody(sent[len(sent)-1], &result); err != nil {
		t.Fatal(err)
	}
	if result.Refusal == nil || result.Refusal.Code != agreement.CodeCap || !strings.Contains(result.Refusal.Detail, "HTTPS") {
		t.Errorf("result %+v", result)
	}
}
