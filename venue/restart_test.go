package venue_test

import (
	"testing"
	"time"

	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/protocol/agreement"
	"github.com/parleykit/parley/protocol/message"
	"github.com/parleykit/parley/venue"
	"github.com/parleykit/parley/venue/venuetest"
)

func TestVenue_startedAgainAnswersWhatCameMeanwhile(t *testing.T) {
	s := newStage(t)
	p1, p2 := s.newAgent("p1"), s.newAgent("p2")
	a := s.propose(p1, p2)
	first := p1.command(a, agreement.ActionAgree, "", "decision-p1")
	s.venue.Stop()

	data, err := agreement.NewCommand(a, "p2", agreement.ActionAgree, "").Canonical()
	if err != nil {
		t.Fatal(err)
	}
	sig, err := agreement.Sign(a, a.Digest(), agreement.ActionAgree, "", p2.key, s.clock.now())
	if err != nil {
		t.Fatal(err)
	}
	m, err := message.New(message.TypeAgreementCommand, p2.key.PublicKey(), s.venue.PublicKey(),
		message.AgreementCommand{Command: data, Key: "decision-p2", Signature: &sig}, s.clock.now(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if err := p2.engine.Send(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	s.venue = venuetest.Start(t, s.relay.URL, venue.Options{Now: s.clock.now, DB: s.venue.DB, Key: s.venue.Key})
	for _, member := range []*agent{p1, p2} {
		if report := member.artifact(a); report.Outcome != agreement.OutcomeReached {
			t.Errorf("%s holds a bundle of %s", member.id, report.Outcome)
		}
	}
	again := p1.command(a, agreement.ActionAgree, "", "decision-p1")
	if again.Refusal != nil || string(again.Event) != string(first.Event) {
		t.Errorf("a retry after the restart gave %s %+v, want the event of before", again.Event, again.Refusal)
	}
	conflict := p1.command(a, agreement.ActionDisagree, "", "decision-p1")
	if conflict.Refusal == nil || conflict.Refusal.Code != agreement.CodeKeyConflict {
		t.Errorf("the key for another command gave %+v", conflict)
	}
}

func TestVenue_memberOfAnotherRoomGetsOneRefusal(t *testing.T) {
	s := newStage(t)
	p1, p2, outsider := s.newAgent("p1"), s.newAgent("p2"), s.newAgent("p1")
	a := s.propose(p1, p2)
	other := s.propose(outsider, p2)
	missing := *a
	missing.AgreementID = "01935f00-0000-7000-8000-000000000000"
	theirs := outsider.command(a, agreement.ActionComment, "hello", "a-key-of-mine")
	nowhere := outsider.command(&missing, agreement.ActionComment, "hello", "a-key-of-mine")
	for _, result := range []message.AgreementResult{theirs, nowhere} {
		if result.Refusal == nil || *result.Refusal != *theirs.Refusal || result.Refusal.Code != agreement.CodeUnknownAgreement {
			t.Errorf("result %+v", result)
		}
	}
	if result := outsider.command(other, agreement.ActionComment, "hello", "a-key-of-mine"); result.Refusal != nil {
		t.Errorf("in its own room: %+v", result.Refusal)
	}
}

func TestVenue_strangersCommandIsNeverAnswered(t *testing.T) {
	s := newStage(t)
	p1, p2, stranger := s.newAgent("p1"), s.newAgent("p2"), s.newAgent("p1")
	a := s.propose(p1, p2)
	changes := s.venue.Engine.Subscribe(t.Context())
	data, err := agreement.NewCommand(a, "p1", agreement.ActionAgree, "").Canonical()
	if err != nil {
		t.Fatal(err)
	}
	m, err := message.New(message.TypeAgreementCommand, stranger.key.PublicKey(), s.venue.PublicKey(),
		message.AgreementCommand{Command: data, Key: "a-key-of-mine"}, s.clock.now(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if err := stranger.engine.Send(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	for change := range changes {
		if change.MessageID != m.ID {
			continue
		}
		if change.State != carrier.StateRequest {
			t.Errorf("a stranger's command is %s, want it in the request box", change.State)
		}
		break
	}
	sent, err := s.venue.Engine.Outbox(t.Context(), carrier.OutboxFilter{Recipient: stranger.key.PublicKey()})
	if err != nil || len(sent) != 0 {
		t.Errorf("%d messages to a stranger, %v", len(sent), err)
	}
}
