package venue_test

import (
	"fmt"
	"testing"

	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/protocol/agreement"
)

// A member whose share of the outbox is full: its messages are left out, and
// the room goes on.
func TestAMemberThatCannotBeReachedHoldsUpNobody(t *testing.T) {
	h := newHouse(t)
	p := h.open(h.newParty(2))
	h.outbox.fail = fmt.Errorf("queueing: %w", carrier.ErrPeerFull)
	wantAccepted(t, h.do(p, "p1", agreement.ActionAgree, ""))
	wantAccepted(t, h.do(p, "p2", agreement.ActionAgree, ""))
	if got := h.bundleOf(p.a.AgreementID).Outcome; got != agreement.OutcomeReached {
		t.Errorf("outcome %s, want reached", got)
	}
}
