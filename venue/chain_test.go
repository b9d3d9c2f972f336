package venue_test

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/parleykit/parley/internal/database"
	"github.com/parleykit/parley/protocol/agreement"
	"github.com/parleykit/parley/venue"
)

// Every participant decides at once, through whatever transaction the database
// gives it. Whoever comes first, the stored chain is one that the rules give,
// and what each was told agrees with it.
func TestCommand_allAtOnceKeepsTheChainValid(t *testing.T) {
	h := newHouse(t)
	for round := range 6 {
		p := h.open(h.newParty(5))
		actions := []string{agreement.ActionAgree, agreement.ActionAgree, agreement.ActionAgree, agreement.ActionAgree, agreement.ActionAgree}
		if round%2 == 1 {
			actions[round%5], actions[(round+2)%5] = agreement.ActionDisagree, agreement.ActionAbstain
		}
		var reqs []venue.CommandRequest
		for i, action := range actions {
			id := fmt.Sprintf("p%d", i+1)
			reqs = append(reqs, h.request(p, id, agreement.ActionComment, "now"), h.request(p, id, action, ""))
		}
		results := h.atOnce(reqs)
		room := h.stored(p.a.AgreementID)
		accepted := 1
		for _, result := range results {
			if result.Refusal == nil {
				accepted++
			} else if code := result.Refusal.Code; code != agreement.CodeClosed {
				t.Errorf("round %d: refused with %s", round, code)
			}
		}
		if n := len(room.Events()); n != accepted {
			t.Errorf("round %d: %d events stored, %d accepted", round, n, accepted)
		}
		if report := h.bundleOf(p.a.AgreementID); report.Outcome != room.Outcome() {
			t.Errorf("round %d: bundle tells %s, events %s", round, report.Outcome, room.Outcome())
		}
	}
}

// atOnce runs every request twice from goroutines of its own, half of them in
// batched transactions, and requires that both get one answer.
func (h *house) atOnce(reqs []venue.CommandRequest) []*venue.Result {
	h.t.Helper()
	first := make([]*venue.Result, len(reqs))
	second := make([]*venue.Result, len(reqs))
	var group sync.WaitGroup
	run := func(i int, req venue.CommandRequest, into []*venue.Result, tx func(context.Context, database.Func) error) {
		err := tx(h.t.Context(), func(ctx context.Context, tx *sql.Tx) (err error) {
			into[i], err = h.venue.Command(ctx, tx, req)
			return err
		})
		if err != nil {
			h.t.Errorf("command %d: %v", i, err)
		}
	}
	for i, req := range reqs {
		group.Go(func() { run(i, req, first, h.db.Tx) })
		group.Go(func() { run(i, req, second, h.db.Write) })
	}
	group.Wait()
	for i := range reqs {
		if a, b := first[i], second[i]; (a.Refusal == nil) != (b.Refusal == nil) || string(a.Event) != string(b.Event) ||
			a.Refusal == nil && a.Replayed == b.Replayed {
			h.t.Errorf("command %d was answered %+v and %+v", i, a, b)
		}
	}
	return first
}

// Whatever a few participants do, whenever the venue restarts and the clock
// moves, the stored events replay under the rules of a room to the outcome in
// its row, and a closed room has a bundle that verifies.
func TestVenue_storedRoomsAlwaysReplay(t *testing.T) {
	h := newHouse(t)
	actions := []string{
		agreement.ActionComment, agreement.ActionComment, agreement.ActionQuestion, agreement.ActionAgree,
		agreement.ActionAgree, agreement.ActionAgree, agreement.ActionDisagree, agreement.ActionAbstain, agreement.ActionWithdraw,
	}
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(2, 4).Draw(rt, "participants")
		p := h.open(h.newParty(n))
		var past []venue.CommandRequest
		for range rapid.IntRange(1, 12).Draw(rt, "steps") {
			switch rapid.IntRange(0, 9).Draw(rt, "what") {
			case 0:
				h.venue = h.newVenue()
			case 1:
				h.clock.advance(time.Duration(rapid.IntRange(0, 12).Draw(rt, "hours")) * time.Hour)
			case 2:
				if len(past) > 0 {
					h.command(past[rapid.IntRange(0, len(past)-1).Draw(rt, "again")])
				}
			default:
				action := rapid.SampledFrom(actions).Draw(rt, "action")
				body := ""
				if agreement.IsAdvisory(action) {
					body = rapid.StringN(1, 40, 200).Draw(rt, "body")
				}
				req := h.request(p, fmt.Sprintf("p%d", rapid.IntRange(1, n).Draw(rt, "who")), action, body)
				past = append(past, req)
				h.command(req)
			}
			h.checkStored(rt, p.a.AgreementID)
		}
	})
}

// checkStored compares a room's row with its events and its bundle.
func (h *house) checkStored(rt *rapid.T, id string) {
	room, err := storedRoom(h.t.Context(), h.db, id)
	if err != nil {
		rt.Fatalf("stored room: %v", err)
	}
	var outcome, head string
	var finalized sql.NullInt64
	var bundle sql.NullString
	err = h.db.View(h.t.Context(), func(ctx context.Context, tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, "SELECT outcome, head, finalized_at, bundle FROM venue_rooms WHERE agreement = $1", id).
			Scan(&outcome, &head, &finalized, &bundle)
	})
	if err != nil {
		rt.Fatal(err)
	}
	if outcome != room.Outcome() || head != room.Head() || finalized.Valid != room.Closed() || bundle.Valid != room.Closed() {
		rt.Fatalf("row tells %s %s (closed %v, bundle %v), events tell %s %s",
			outcome, head, finalized.Valid, bundle.Valid, room.Outcome(), room.Head())
	}
	if bundle.Valid {
		if report, err := agreement.Verify([]byte(bundle.String)); err != nil || report.Outcome != outcome {
			rt.Fatalf("bundle: %v, %v", report, err)
		}
	}
}
