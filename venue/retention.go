package venue

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/parleykit/parley/internal/database"
	"github.com/parleykit/parley/internal/idempotency"
	"github.com/parleykit/parley/internal/retention"
	"github.com/parleykit/parley/protocol/agreement"
)

// Migrate adds the venue's tables to a database, or brings them up to date, as
// New does.
func Migrate(ctx context.Context, db *database.DB) error {
	return errors.Join(idempotency.Migrate(ctx, db), db.Migrate(ctx, "venue", migrations))
}

// ofRoom finds the rows of the rooms that a person is a member of.
const ofRoom = "agreement IN (SELECT agreement FROM venue_members WHERE pubkey = $1)"

// Retention declares what the venue stores about the members of rooms. Members
// are found by venue_members, so that is the last.
func Retention() []retention.Table {
	return []retention.Table{
		{Name: "venue_key", Holds: "the public key of the venue itself", Lifetime: "for good; one row"},
		{
			Name: "idempotency", Holds: "keys of accepted commands, with the hash of the command and the number of its event",
			Lifetime: "31 days after the deadline of the room",
			Person: `EXISTS (SELECT 1 FROM venue_members m WHERE m.pubkey = $1
				AND scope = 'venue/' || m.agreement || '/' || m.participant)`,
			Erase: `EXISTS (SELECT 1 FROM venue_members m WHERE m.pubkey = $1
				AND scope LIKE 'venue/' || m.agreement || '/%')`,
		},
		{
			Name: "venue_events", Holds: "what each member of a room did and said, signed",
			Lifetime: "as long as the room", Person: ofRoom,
		},
		{
			Name: "venue_receipts", Holds: "the receipt of each event: what was done, in which room, at what time",
			Lifetime: "as long as the room", Person: ofRoom,
		},
		{
			Name: "venue_rooms", Holds: "the agreement with keys and labels of its members, and the bundle of a closed room",
			Lifetime: "`venue.keep_days` after the room closed, 365 days by default", Person: ofRoom,
		},
		{
			Name: "venue_members", Holds: "which key acts for whom in a room",
			Lifetime: "as long as the room", Person: "pubkey = $1", Erase: ofRoom,
		},
	}
}

// OpenRoom is a room that has no outcome yet.
type OpenRoom struct {
	Agreement string    // agreement id
	Deadline  time.Time // when a running venue closes it; Close does it from then on
}

// OpenRoomsError says that a person cannot be erased yet.
type OpenRoomsError struct {
	Rooms []OpenRoom // at least one, by deadline
}

// Error names every room with its deadline.
func (e *OpenRoomsError) Error() string {
	var text strings.Builder
	text.WriteString("venue: takes part in open rooms, which end at their deadline:")
	for i, room := range e.Rooms {
		if i > 0 {
			text.WriteByte(',')
		}
		fmt.Fprintf(&text, " %s (%s)", room.Agreement, room.Deadline.UTC().Format(time.RFC3339))
	}
	return text.String()
}

// Erase removes whole every room that a person, named by its public key in 64
// lowercase hex digits, is a member of: a chain of events without one member's
// would prove nothing. The other members have the bundle. It returns the
// agreement ids and the rows that went of each table. While one of the rooms
// is open nothing is removed: *OpenRoomsError.
func Erase(ctx context.Context, tx *sql.Tx, person string) (rooms []string, removed map[string]int64, err error) {
	open, rooms, err := roomsOf(ctx, tx, person)
	if err != nil {
		return nil, nil, fmt.Errorf("reading rooms: %w", err)
	}
	if len(open) > 0 {
		return nil, nil, &OpenRoomsError{Rooms: open}
	}
	removed, err = retention.Erase(ctx, tx, Retention(), person)
	return rooms, removed, err
}

// roomsOf lists the open rooms of a person and the ids of the closed ones.
func roomsOf(ctx context.Context, tx *sql.Tx, person string) (open []OpenRoom, closed []string, err error) {
	rows, err := tx.QueryContext(ctx, `SELECT agreement, deadline, outcome FROM venue_rooms
		WHERE `+ofRoom+` ORDER BY deadline, agreement`, person)
	if err != nil {
		return nil, nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var id, outcome string
		var deadline int64
		if err := rows.Scan(&id, &deadline, &outcome); err != nil {
			return nil, nil, err
		}
		if outcome == agreement.OutcomePending {
			open = append(open, OpenRoom{Agreement: id, Deadline: time.Unix(deadline, 0)})
		} else {
			closed = append(closed, id)
		}
	}
	return open, closed, rows.Err()
}
