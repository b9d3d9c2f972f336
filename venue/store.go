package venue

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/parleykit/parley/protocol/agreement"
)

// store keeps rooms in the database; every method runs in the caller's
// transaction.
type store struct {
	cache *roomCache
}

// record is the row of one room without its revision and bundle.
type record struct {
	agreement string
	digest    string
	initiator string
	deadline  time.Time
	head      string
	outcome   string
}

// due tells whether the room is open past its deadline.
func (r *record) due(now time.Time) bool {
	return r.outcome == agreement.OutcomePending && !now.Before(r.deadline)
}

// record reads a room's row; nil when there is no such room.
func (store) record(ctx context.Context, tx *sql.Tx, id string) (*record, error) {
	r := record{agreement: id}
	var deadline int64
	row := tx.QueryRowContext(ctx,
		`SELECT digest, initiator, deadline, head, outcome FROM venue_rooms WHERE agreement = $1`, id)
	switch err := row.Scan(&r.digest, &r.initiator, &deadline, &r.head, &r.outcome); {
	case errors.Is(err, sql.ErrNoRows):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading room: %w", err)
	}
	r.deadline = time.Unix(deadline, 0)
	return &r, nil
}

// create stores a room that has only its first event, given in canonical bytes
// like the revision, and its members.
func (s store) create(ctx context.Context, tx *sql.Tx, room *agreement.Room, revision, first []byte) error {
	a := room.Agreement()
	_, err := tx.ExecContext(ctx, `INSERT INTO venue_rooms
		(agreement, revision, digest, initiator, locked_at, deadline, head, outcome) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
		a.AgreementID, string(revision), room.Digest(), a.Participants[0].PubKey, room.LockedAt().Unix(),
		a.Deadline.Unix(), room.Head(), room.Outcome())
	if err != nil {
		return fmt.Errorf("storing room: %w", err)
	}
	if err := insertEvent(ctx, tx, a.AgreementID, 1, first); err != nil {
		return err
	}
	for _, m := range membersOf(a) {
		_, err := tx.ExecContext(ctx, `INSERT INTO venue_members (pubkey, agreement, participant) VALUES ($1, $2, $3)`,
			m.pubkey, a.AgreementID, m.participant)
		if err != nil {
			return fmt.Errorf("storing member: %w", err)
		}
	}
	s.cache.put(room)
	return nil
}

// append stores the event that room has just accepted on top of r, with its
// canonical bytes, and the outcome it left. ErrConflict when the stored chain has grown meanwhile.
func (s store) append(ctx context.Context, tx *sql.Tx, r *record, room *agreement.Room, e agreement.Event, data []byte) error {
	if err := insertEvent(ctx, tx, r.agreement, e.Seq, data); err != nil {
		return err
	}
	var finalized *int64
	if room.Closed() {
		at := e.At.Unix()
		finalized = &at
	}
	done, err := tx.ExecContext(ctx, `UPDATE venue_rooms SET head = $1, outcome = $2, finalized_at = $3
		WHERE agreement = $4 AND head = $5`, room.Head(), room.Outcome(), finalized, r.agreement, r.head)
	if err != nil {
		return fmt.Errorf("storing room: %w", err)
	}
	if n, err := done.RowsAffected(); err != nil || n != 1 {
		return errors.Join(ErrConflict, err)
	}
	r.head, r.outcome = room.Head(), room.Outcome()
	s.cache.put(room)
	return nil
}

func insertEvent(ctx context.Context, tx *sql.Tx, id string, seq int64, event []byte) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO venue_events (agreement, seq, event) VALUES ($1, $2, $3)`, id, seq, string(event))
	if err != nil {
		return fmt.Errorf("storing event: %w", err)
	}
	return nil
}

// room is the state of a stored room, from the cache when that has the same
// head, else replayed from its events. It is the caller's until append.
func (s store) room(ctx context.Context, tx *sql.Tx, r *record) (*agreement.Room, error) {
	if room := s.cache.take(r.agreement, r.head); room != nil {
		return room, nil
	}
	revision, err := s.revision(ctx, tx, r.agreement)
	if err != nil {
		return nil, err
	}
	a, err := agreement.ParseAgreement([]byte(revision))
	if err != nil {
		return nil, broken("revision: %v", err)
	}
	stored, err := s.events(ctx, tx, r.agreement, 1, maxRoomEvents)
	if err != nil {
		return nil, err
	}
	events := make([]agreement.Event, len(stored))
	for i, data := range stored {
		e, err := agreement.ParseEvent(data)
		if err != nil {
			return nil, broken("event %d: %v", i+1, err)
		}
		events[i] = *e
	}
	room, err := agreement.Replay(a, events)
	switch {
	case err != nil:
		return nil, broken("%v", err)
	case room.Digest() != r.digest || room.Head() != r.head || room.Outcome() != r.outcome:
		return nil, broken("its row tells another digest, head or outcome")
	}
	return room, nil
}

// broken is an ErrBroken. What the replay said is part of its text only: it is
// no refusal of whatever the caller asked.
func broken(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrBroken, fmt.Sprintf(format, args...))
}

// maxRoomEvents bounds what one room can hold, and one more to see too many.
const maxRoomEvents = agreement.MaxParticipants*agreement.MaxEvents + 2

// revision reads the canonical bytes of a room's agreement.
func (store) revision(ctx context.Context, tx *sql.Tx, id string) (revision string, err error) {
	row := tx.QueryRowContext(ctx, `SELECT revision FROM venue_rooms WHERE agreement = $1`, id)
	if err := row.Scan(&revision); err != nil {
		return "", fmt.Errorf("reading revision: %w", err)
	}
	return revision, nil
}

// events reads at most limit events from seq on, as canonical bytes.
func (store) events(ctx context.Context, tx *sql.Tx, id string, from int64, limit int) (events [][]byte, err error) {
	rows, err := tx.QueryContext(ctx,
		`SELECT event FROM venue_events WHERE agreement = $1 AND seq >= $2 ORDER BY seq LIMIT $3`, id, from, limit)
	if err != nil {
		return nil, fmt.Errorf("reading events: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var event string
		if err := rows.Scan(&event); err != nil {
			return nil, fmt.Errorf("reading events: %w", err)
		}
		events = append(events, []byte(event))
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("reading events: %w", err)
	}
	return events, nil
}

// event reads one event, as canonical bytes.
func (s store) event(ctx context.Context, tx *sql.Tx, id string, seq int64) ([]byte, error) {
	events, err := s.events(ctx, tx, id, seq, 1)
	switch {
	case err != nil:
		return nil, err
	case len(events) == 0:
		return nil, broken("event %d is missing", seq)
	}
	return events[0], nil
}

// lastEvent reads the newest event of a room, as canonical bytes.
func (store) lastEvent(ctx context.Context, tx *sql.Tx, id string) (event []byte, seq int64, err error) {
	var text string
	row := tx.QueryRowContext(ctx,
		`SELECT event, seq FROM venue_events WHERE agreement = $1 ORDER BY seq DESC LIMIT 1`, id)
	if err := row.Scan(&text, &seq); err != nil {
		return nil, 0, fmt.Errorf("reading events: %w", err)
	}
	return []byte(text), seq, nil
}

// setBundle keeps the bundle of a closed room.
func (store) setBundle(ctx context.Context, tx *sql.Tx, id string, bundle []byte) error {
	if _, err := tx.ExecContext(ctx, `UPDATE venue_rooms SET bundle = $1 WHERE agreement = $2`, string(bundle), id); err != nil {
		return fmt.Errorf("storing bundle: %w", err)
	}
	return nil
}

// bundle reads the bundle of a closed room; empty while it is pending.
func (store) bundle(ctx context.Context, tx *sql.Tx, id string) (string, error) {
	var bundle sql.NullString
	row := tx.QueryRowContext(ctx, `SELECT bundle FROM venue_rooms WHERE agreement = $1`, id)
	if err := row.Scan(&bundle); err != nil {
		return "", fmt.Errorf("reading bundle: %w", err)
	}
	return bundle.String, nil
}

// opened counts the rooms an initiator opened after the given time.
func (store) opened(ctx context.Context, tx *sql.Tx, initiator string, after time.Time) (n int, err error) {
	row := tx.QueryRowContext(ctx,
		`SELECT count(*) FROM venue_rooms WHERE initiator = $1 AND locked_at > $2`, initiator, after.Unix())
	if err := row.Scan(&n); err != nil {
		return 0, fmt.Errorf("counting rooms: %w", err)
	}
	return n, nil
}

// outcomes counts all rooms by outcome.
func (store) outcomes(ctx context.Context, tx *sql.Tx) (map[string]int64, error) {
	rows, err := tx.QueryContext(ctx, `SELECT outcome, count(*) FROM venue_rooms GROUP BY outcome`)
	if err != nil {
		return nil, fmt.Errorf("counting rooms: %w", err)
	}
	defer rows.Close()
	counts := make(map[string]int64)
	for rows.Next() {
		var outcome string
		var n int64
		if err := rows.Scan(&outcome, &n); err != nil {
			return nil, fmt.Errorf("counting rooms: %w", err)
		}
		counts[outcome] = n
	}
	return counts, rows.Err()
}

// removeClosed deletes at most limit rooms that closed before a time, with
// their events and members.
func (store) removeClosed(ctx context.Context, tx *sql.Tx, before time.Time, limit int) (int64, error) {
	done, err := tx.ExecContext(ctx, `DELETE FROM venue_rooms WHERE agreement IN (
		SELECT agreement FROM venue_rooms WHERE finalized_at < $1 LIMIT $2)`, before.Unix(), limit)
	if err != nil {
		return 0, fmt.Errorf("removing closed rooms: %w", err)
	}
	return done.RowsAffected()
}
