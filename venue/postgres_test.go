package venue_test

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"testing"

	"github.com/parleykit/parley/internal/database"
	"github.com/parleykit/parley/internal/database/databasetest"
	"github.com/parleykit/parley/protocol/agreement"
	"github.com/parleykit/parley/relay"
	"github.com/parleykit/parley/relay/relaytest"
	"github.com/parleykit/parley/venue"
	"github.com/parleykit/parley/venue/venuetest"
)

// TestPostgres_twoProcessesOnOneDatabaseKeepTheChainValid lets every
// participant act at once, each command at both of two venues that share a
// database. Both give it the same answer.
func TestPostgres_twoProcessesOnOneDatabaseKeepTheChainValid(t *testing.T) {
	address := databasetest.NewPostgres(t)
	var houses []*house
	for range 2 {
		h := &house{t: t, db: databasetest.OpenURL(t, address, database.Options{}), key: newKey(t), clock: newClock(), outbox: new(outbox)}
		if len(houses) > 0 {
			h.key, h.clock = houses[0].key, houses[0].clock
		}
		h.venue = h.newVenue()
		houses = append(houses, h)
	}
	first := houses[0]
	for round := range 3 {
		p := first.open(first.newParty(4))
		var reqs []venue.CommandRequest
		for i := range 4 {
			id := fmt.Sprintf("p%d", i+1)
			reqs = append(reqs, first.request(p, id, agreement.ActionComment, "now"), first.request(p, id, agreement.ActionAgree, ""))
		}
		answers := make([][2]*venue.Result, len(reqs))
		var group sync.WaitGroup
		for i, req := range reqs {
			for j, h := range houses {
				group.Go(func() {
					err := h.db.Tx(context.Background(), func(ctx context.Context, tx *sql.Tx) (err error) {
						answers[i][j], err = h.venue.Command(ctx, tx, req)
						return err
					})
					if err != nil {
						t.Errorf("round %d: command %d at venue %d: %v", round, i, j, err)
					}
				})
			}
		}
		group.Wait()
		if t.Failed() {
			return
		}
		accepted := 1 // the proposal
		for i, both := range answers {
			if (both[0].Refusal == nil) != (both[1].Refusal == nil) || string(both[0].Event) != string(both[1].Event) {
				t.Errorf("round %d: command %d was answered %+v and %+v", round, i, both[0], both[1])
			}
			if both[0].Refusal == nil {
				accepted++
			}
		}
		if n := len(first.stored(p.a.AgreementID).Events()); n != accepted {
			t.Errorf("round %d: %d events stored, %d accepted", round, n, accepted)
		}
		if report := first.bundleOf(p.a.AgreementID); report.Outcome != agreement.OutcomeReached {
			t.Errorf("round %d: bundle tells %s", round, report.Outcome)
		}
	}
}

// TestPostgres_aVenueOverARelayReachesAnAgreement runs the venue and its
// delivery engine on PostgreSQL, the agents as always.
func TestPostgres_aVenueOverARelayReachesAnAgreement(t *testing.T) {
	s := &stage{t: t, clock: new(ahead)}
	s.relay = relaytest.Start(t, relay.Options{Now: s.clock.now})
	s.venue = venuetest.Start(t, s.relay.URL, venue.Options{Now: s.clock.now, DB: databasetest.OpenPostgres(t)})
	agents := []*agent{s.newAgent("p1"), s.newAgent("p2")}
	a := s.propose(agents...)
	for _, member := range agents {
		if result := member.command(a, agreement.ActionAgree, "", "key-"+a.AgreementID); result.Refusal != nil {
			t.Fatalf("refused: %+v", result.Refusal)
		}
	}
	for _, member := range agents {
		if report := member.artifact(a); report.Outcome != agreement.OutcomeReached || report.Digest != a.Digest() {
			t.Errorf("%s holds a bundle of %s", member.id, report.Outcome)
		}
	}
}
