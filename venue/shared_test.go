package venue_test

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/parleykit/parley/internal/database"
	"github.com/parleykit/parley/internal/database/databasetest"
	"github.com/parleykit/parley/protocol/agreement"
	"github.com/parleykit/parley/protocol/message"
	"github.com/parleykit/parley/venue"
)

// sharedHouses are two processes of one venue on one PostgreSQL.
func sharedHouses(t *testing.T, adjust ...func(*venue.Options)) (houses [2]*house) {
	t.Helper()
	address := databasetest.NewPostgres(t)
	for i := range houses {
		h := &house{t: t, db: databasetest.OpenURL(t, address, database.Options{}), key: newKey(t), clock: newClock(), outbox: new(outbox)}
		if i > 0 {
			h.key, h.clock = houses[0].key, houses[0].clock
		}
		h.venue = h.newVenue(adjust...)
		houses[i] = h
	}
	return houses
}

// Each process sees what the other did to a room that both have in memory.
func TestShared_roomsInMemoryFollowTheDatabase(t *testing.T) {
	houses := sharedHouses(t)
	p := houses[0].open(houses[0].newParty(3))
	for round := range 4 {
		for i, h := range houses {
			id := fmt.Sprintf("p%d", i+1)
			wantAccepted(t, h.do(p, id, agreement.ActionComment, fmt.Sprint("round ", round)))
			again := houses[1-i].request(p, id, agreement.ActionComment, fmt.Sprint("again ", round))
			first, second := h.command(again), houses[1-i].command(again)
			if wantAccepted(t, first); !second.Replayed || string(second.Event) != string(first.Event) {
				t.Errorf("round %d: the other process answers %+v", round, second)
			}
		}
	}
	for i, id := range []string{"p1", "p2", "p3"} {
		wantAccepted(t, houses[i%2].do(p, id, agreement.ActionAgree, ""))
	}
	for _, h := range houses {
		page := h.query(p.keys["p3"], p.a.AgreementID, 0)
		if page.Outcome != agreement.OutcomeReached || page.Bundle == "" || len(page.Events) != 1+16+3 {
			t.Errorf("a query tells %s, %d events", page.Outcome, len(page.Events))
		}
		wantRefusal(t, h.do(p, "p1", agreement.ActionComment, "late"), agreement.CodeClosed)
	}
}

func TestShared_dailyCapHoldsForBothTogether(t *testing.T) {
	const limit = 4
	houses := sharedHouses(t, func(o *venue.Options) { o.DailyCap = limit })
	initiator := newKey(t)
	var group sync.WaitGroup
	var mu sync.Mutex
	results := make(map[string]int)
	for i := range 3 * limit {
		h := houses[i%2]
		p := h.newParty(2, func(terms *agreement.Terms) { terms.Participants[0].PubKey = initiator.PublicKey() })
		p.keys["p1"] = initiator
		proposal := h.proposal(p)
		group.Go(func() {
			var result *venue.Result
			err := h.db.Tx(context.Background(), func(ctx context.Context, tx *sql.Tx) (err error) {
				result, err = h.venue.Propose(ctx, tx, proposal)
				return err
			})
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				t.Errorf("proposing: %v", err)
			case result.Refusal != nil:
				results[result.Refusal.Code]++
			default:
				results["accepted"]++
			}
		})
	}
	group.Wait()
	if results["accepted"] != limit || results[agreement.CodeCap] != 2*limit {
		t.Errorf("results %v, want %d accepted and the others over the cap", results, limit)
	}
}

// rows is an outbox that tells only of transactions that were committed.
type rows struct{}

func (rows) SendTx(ctx context.Context, tx *sql.Tx, m *message.Message) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO sent (message) VALUES ($1)", m.Type+" "+m.Thread+" "+m.To)
	return err
}

func (rows) Wake() {}

// Rooms that both processes close at their deadline end once, with one bundle,
// and nobody is told twice.
func TestShared_deadlineClosesARoomOnce(t *testing.T) {
	houses := sharedHouses(t, func(o *venue.Options) { o.Outbox = rows{} })
	houses[0].tx(func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "CREATE TABLE sent (message TEXT NOT NULL)")
		return err
	})
	const rooms = 8
	var parties []*party
	for i := range rooms {
		parties = append(parties, houses[i%2].open(houses[0].newParty(2)))
	}
	houses[0].clock.advance(25 * time.Hour)
	var closed [2]int
	var group sync.WaitGroup
	for i, h := range houses {
		group.Go(func() {
			var err error
			if closed[i], err = h.venue.ExpireDue(context.Background()); err != nil {
				t.Errorf("ExpireDue: %v", err)
			}
		})
	}
	group.Wait()
	if closed[0]+closed[1] != rooms {
		t.Errorf("the processes closed %d and %d rooms, want %d together", closed[0], closed[1], rooms)
	}
	for _, p := range parties {
		if report := houses[0].bundleOf(p.a.AgreementID); report.Outcome != agreement.OutcomeExpired || report.Events != 2 {
			t.Errorf("a bundle tells %s after %d events", report.Outcome, report.Events)
		}
	}
	var all, different int
	houses[0].tx(func(ctx context.Context, tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, `SELECT count(*), count(DISTINCT message) FROM sent
			WHERE message LIKE 'agreement.artifact %'`).Scan(&all, &different)
	})
	if all != 2*rooms || different != all {
		t.Errorf("%d bundles were sent, %d of them different; want one to each of %d members", all, different, 2*rooms)
	}
}
