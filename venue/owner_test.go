package venue_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/parleykit/parley/internal/database/databasetest"
	"github.com/parleykit/parley/venue"
)

func TestADatabaseHasOneVenueForGood(t *testing.T) {
	databasetest.Each(t, func(t *testing.T, open databasetest.Opener) {
		h := newHouse(t).withDB(open(t))
		h.newVenue() // a restart, or another process of the same venue
		other := newKey(t)
		_, err := venue.New(t.Context(), venue.Options{DB: h.db, Outbox: h.outbox, Key: other, Origin: origin})
		if !errors.Is(err, venue.ErrOtherVenue) || !strings.Contains(err.Error(), h.key.NPub()) || !strings.Contains(err.Error(), other.NPub()) {
			t.Errorf("a venue with another key on the same database: %v", err)
		}
		h.newVenue()
	})
}
