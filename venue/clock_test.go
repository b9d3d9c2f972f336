package venue_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/parleykit/parley/protocol/agreement"
)

const twoDays = 48 * time.Hour

// lasting gives a room a deadline a week ahead.
func lasting(terms *agreement.Terms) { terms.Deadline = start.Add(7 * 24 * time.Hour) }

func TestAVenuesWrongClockRefusesWithAReasonThatNamesIt(t *testing.T) {
	h := newHouse(t)
	p := h.newParty(2)
	req := h.proposal(p)
	for by, code := range map[time.Duration]string{-twoDays: agreement.CodeSignatureInvalid, twoDays: agreement.CodeExpired} {
		h.clock.set(start.Add(by))
		result := h.propose(req)
		wantRefusal(t, result, code)
		if result.Refusal != nil && !strings.Contains(result.Refusal.Detail, "the venue's clock") {
			t.Errorf("a clock that is %s off: %q", by, result.Refusal.Detail)
		}
	}
	h.clock.set(start) // nothing is lost: the same proposal opens the room
	wantAccepted(t, h.propose(req))
}

func TestARoomOutlivesAClockThatWasTwoDaysOff(t *testing.T) {
	for _, by := range []time.Duration{twoDays, -twoDays} {
		h := newHouse(t)
		p := h.open(h.newParty(3, lasting))
		before := h.request(p, "p1", agreement.ActionComment, "at the right time")
		wantAccepted(t, h.command(before))
		h.clock.set(start.Add(by))
		if closed, err := h.venue.ExpireDue(t.Context()); err != nil || closed != 0 {
			t.Errorf("a clock that is %s off closed %d rooms (%v)", by, closed, err)
		}
		again := h.command(before) // the same command, which the network repeats
		wantAccepted(t, again)
		if !again.Replayed {
			t.Errorf("a clock that is %s off had a command processed twice", by)
		}
		comment := h.request(p, "p2", agreement.ActionComment, "at the wrong time")
		if by < 0 { // signed before the revision was locked
			wantRefusal(t, h.command(comment), agreement.CodeSignatureInvalid)
		} else {
			wantAccepted(t, h.command(comment))
		}
		h.clock.set(start.Add(time.Hour))
		for _, id := range []string{"p1", "p2", "p3"} {
			wantAccepted(t, h.do(p, id, agreement.ActionAgree, ""))
		}
		if report := h.bundleOf(p.a.AgreementID); report.Outcome != agreement.OutcomeReached {
			t.Errorf("outcome %s", report.Outcome)
		}
		h.stored(p.a.AgreementID)
	}
}

func TestSweepsOfAClockTwoDaysAheadLeaveLiveRoomsAlone(t *testing.T) {
	h := newHouse(t)
	open := h.open(h.newParty(2, lasting))
	closed := h.open(h.newParty(2, lasting))
	for _, id := range []string{"p1", "p2"} {
		wantAccepted(t, h.do(closed, id, agreement.ActionAgree, ""))
	}
	short := h.open(h.newParty(2))
	h.clock.set(start.Add(twoDays))
	h.running(func() { h.wantExpired(short) })
	h.clock.set(start)
	for _, p := range []*party{open, closed} {
		if room := h.stored(p.a.AgreementID); room.Outcome() == agreement.OutcomeExpired {
			t.Error("a room expired before its deadline")
		}
	}
}

// A clock that goes back while Run waits holds up no deadline.
func TestDeadlinesAreKeptAfterAClockWasPutBack(t *testing.T) {
	h := newHouse(t)
	h.clock.set(start.Add(twoDays))
	h.running(func() {
		h.clock.set(start)
		p := h.open(h.newParty(2))
		h.clock.set(p.a.Deadline.Time)
		h.venue.Wake()
		h.wantExpired(p)
	})
}

// wantExpired waits for the end of a room.
func (h *house) wantExpired(p *party) {
	h.t.Helper()
	for deadline := time.Now().Add(time.Minute); h.stored(p.a.AgreementID).Outcome() != agreement.OutcomeExpired; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			h.t.Fatal("the room does not expire")
		}
	}
}

// running runs the venue while fn does.
func (h *house) running(fn func()) {
	h.t.Helper()
	ctx, cancel := context.WithCancel(h.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- h.venue.Run(ctx) }()
	fn()
	cancel()
	if err := <-ended; err != nil {
		h.t.Error(err)
	}
}
