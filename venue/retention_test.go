package venue_test

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parleykit/parley/internal/database"
	"github.com/parleykit/parley/internal/database/databasetest"
	"github.com/parleykit/parley/internal/retention"
	"github.com/parleykit/parley/protocol/agreement"
	"github.com/parleykit/parley/venue"
)

// exported are the lines of an export, by table.
func exported(t *testing.T, db *database.DB, person string) map[string][]string {
	t.Helper()
	lines := make(map[string][]string)
	err := db.View(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
		return retention.Export(ctx, tx, venue.Retention(), person, func(line []byte) error {
			table := strings.Split(string(line), `"`)[3]
			lines[table] = append(lines[table], string(line))
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

// withDB moves the house to another database.
func (h *house) withDB(db *database.DB) *house {
	h.db = db
	h.venue = h.newVenue()
	return h
}

func TestErase_isRefusedInOpenRoomsAndTakesClosedOnesWhole(t *testing.T) {
	databasetest.Each(t, func(t *testing.T, open databasetest.Opener) {
		h := newHouse(t).withDB(open(t))
		shared, other, pending := h.open(h.newParty(2)), h.open(h.newParty(2)), h.newParty(2)
		person := shared.keys["p2"]
		pending.a.Participants[1].PubKey = person.PublicKey()
		pending.keys["p2"] = person
		h.open(pending)
		for _, p := range []*party{shared, other} {
			wantAccepted(t, h.do(p, "p1", agreement.ActionAgree, ""))
			wantAccepted(t, h.do(p, "p2", agreement.ActionAgree, ""))
		}

		lines := exported(t, h.db, person.PublicKey())
		if len(lines["venue_rooms"]) != 2 || len(lines["venue_members"]) != 2 || len(lines["venue_events"]) != 4 || len(lines["idempotency"]) != 1 {
			t.Errorf("exported %d rooms, %d members, %d events, %d keys; want 2, 2, 4, 1", len(lines["venue_rooms"]),
				len(lines["venue_members"]), len(lines["venue_events"]), len(lines["idempotency"]))
		}

		erase := func() (rooms []string, removed map[string]int64, err error) {
			err = h.db.Tx(t.Context(), func(ctx context.Context, tx *sql.Tx) (err error) {
				rooms, removed, err = venue.Erase(ctx, tx, person.PublicKey())
				return err
			})
			return rooms, removed, err
		}
		_, _, err := erase()
		var still *venue.OpenRoomsError
		if !errors.As(err, &still) || len(still.Rooms) != 1 || still.Rooms[0].Agreement != pending.a.AgreementID || !still.Rooms[0].Deadline.Equal(pending.a.Deadline.Time) {
			t.Fatalf("erase beside an open room = %v", err)
		}
		if want := pending.a.AgreementID + " (" + pending.a.Deadline.UTC().Format(time.RFC3339) + ")"; !strings.Contains(err.Error(), want) {
			t.Errorf("the refusal %q does not name %s", err, want)
		}
		if len(exported(t, h.db, person.PublicKey())["venue_rooms"]) != 2 {
			t.Error("a refused erase removed something")
		}

		wantAccepted(t, h.do(pending, "p2", agreement.ActionDisagree, ""))
		rooms, removed, err := erase()
		if err != nil || len(rooms) != 2 || !slices.Contains(rooms, shared.a.AgreementID) || removed["venue_rooms"] != 2 || removed["idempotency"] != 3 {
			t.Errorf("erase = %v, %v, %v", rooms, removed, err)
		}
		for _, key := range []string{person.PublicKey(), shared.keys["p1"].PublicKey()} {
			if left := exported(t, h.db, key); len(left) > 0 {
				t.Errorf("left of the rooms: %v", left)
			}
		}
		if report := h.bundleOf(other.a.AgreementID); report.Outcome != agreement.OutcomeReached {
			t.Errorf("the room of others tells %s", report.Outcome)
		}
	})
}
