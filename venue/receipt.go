package venue

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/parleykit/parley/internal/database"
	"github.com/parleykit/parley/protocol/agreement"
	"github.com/parleykit/parley/protocol/receipt"
)

// Receipts makes the evidence of what a venue accepts.
type Receipts interface {
	// Issue signs a receipt with these claims, which its issuer completes, and
	// gives its reference to the log, in the caller's transaction; "" for none.
	Issue(ctx context.Context, tx *sql.Tx, claims *receipt.Claims) (jws string, err error)
	// Evidence proves receipts that were issued, in their order; nil while the
	// log has not come to all of them.
	Evidence(ctx context.Context, receipts []string) (*agreement.Evidence, error)
	// Wake makes the log take what was committed.
	Wake()
}

const (
	closedChannel  = "venue_closed"         // tells of rooms that wait for their evidence
	unprovenPeriod = 100 * time.Millisecond // between two looks at them
)

// acknowledge gives the event that room has just accepted its receipt, and
// returns the event as it stands then. The receipt is stored with the event.
func (v *Venue) acknowledge(ctx context.Context, tx *sql.Tx, room *agreement.Room, e agreement.Event) (agreement.Event, string, error) {
	if v.opts.Receipts == nil {
		return e, "", nil
	}
	claims, err := agreement.ReceiptClaims(room.Agreement(), e)
	if err != nil {
		return e, "", err
	}
	jws, err := v.opts.Receipts.Issue(ctx, tx, claims)
	if err != nil {
		return e, "", fmt.Errorf("issuing a receipt: %w", err)
	}
	if jws == "" {
		return e, "", nil
	}
	return room.Acknowledge(jws), jws, nil
}

// conclude makes the bundle of a closed room and sends it, at once where it has
// no receipts, and else as soon as the log proves them.
func (v *Venue) conclude(ctx context.Context, tx *sql.Tx, r *record, room *agreement.Room) error {
	v.metrics.closed.WithLabelValues(room.Outcome()).Inc()
	v.logger.InfoContext(ctx, "room closed", "agreement", r.agreement, "outcome", room.Outcome())
	receipts, err := v.store.receipts(ctx, tx, r.agreement)
	switch {
	case err != nil:
		return err
	case len(receipts) > 0:
		return v.opts.DB.Notify(ctx, tx, closedChannel, r.agreement)
	}
	return v.bundle(ctx, tx, r, room, nil)
}

// listen tells Run of rooms that have closed, by this process or another.
func (v *Venue) listen(ctx context.Context) error {
	if v.opts.Receipts == nil {
		return nil
	}
	return v.opts.DB.Listen(ctx, closedChannel, func(database.Notice) {
		v.opts.Receipts.Wake()
		v.alarm.ring()
	})
}

// Prove makes the bundles of closed rooms whose receipts the log proves now,
// each in a transaction of its own, and returns how many rooms wait for it still.
// A room that fails is logged, counted and left for the next call.
func (v *Venue) Prove(ctx context.Context) (waiting int, err error) {
	if v.opts.Receipts == nil {
		return 0, nil
	}
	proven := 0
	defer func() {
		if proven > 0 {
			v.opts.Outbox.Wake()
		}
	}()
	var after closedRoom
	for {
		var rooms []closedRoom
		err = v.opts.DB.View(ctx, func(ctx context.Context, tx *sql.Tx) error {
			rooms, err = v.store.unproven(ctx, tx, after, batch)
			return err
		})
		if err != nil || len(rooms) == 0 {
			return waiting, err
		}
		for _, room := range rooms {
			switch done, err := v.prove(ctx, room.agreement); {
			case ctx.Err() != nil:
				return waiting, ctx.Err()
			case err != nil:
				v.metrics.failures.Inc()
				v.logger.ErrorContext(ctx, "bundle not made", "agreement", room.agreement, "err", err)
			case done:
				proven++
			default:
				waiting++
			}
		}
		after = rooms[len(rooms)-1]
	}
}

// closedRoom is a room that waits for its bundle.
type closedRoom struct {
	at        int64
	agreement string
}

// prove makes the bundle of one room, unless another process did; false while
// its receipts are not proven.
func (v *Venue) prove(ctx context.Context, id string) (bool, error) {
	var receipts []string
	err := v.opts.DB.View(ctx, func(ctx context.Context, tx *sql.Tx) (err error) {
		receipts, err = v.store.receipts(ctx, tx, id)
		return err
	})
	if err != nil {
		return false, err
	}
	evidence, err := v.opts.Receipts.Evidence(ctx, receipts)
	if err != nil || evidence == nil {
		return false, err
	}
	return true, v.opts.DB.Tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		r, err := v.store.record(ctx, tx, id)
		if err != nil || r == nil {
			return err
		}
		if made, err := v.store.bundle(ctx, tx, id); err != nil || made != "" {
			return err
		}
		room, err := v.store.room(ctx, tx, r)
		if err != nil {
			return err
		}
		return v.bundle(ctx, tx, r, room, evidence)
	})
}

// addReceipt stores the receipt of an event.
func (store) addReceipt(ctx context.Context, tx *sql.Tx, id string, seq int64, jws string) error {
	if jws == "" {
		return nil
	}
	_, err := tx.ExecContext(ctx, `INSERT INTO venue_receipts (agreement, seq, receipt) VALUES ($1, $2, $3)`, id, seq, jws)
	if err != nil {
		return fmt.Errorf("storing receipt: %w", err)
	}
	return nil
}

// receipts reads those of a room in the order of its events.
func (store) receipts(ctx context.Context, tx *sql.Tx, id string) (list []string, err error) {
	rows, err := tx.QueryContext(ctx, `SELECT receipt FROM venue_receipts WHERE agreement = $1 ORDER BY seq LIMIT $2`, id, maxRoomEvents)
	if err != nil {
		return nil, fmt.Errorf("reading receipts: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var jws string
		if err := rows.Scan(&jws); err != nil {
			return nil, fmt.Errorf("reading receipts: %w", err)
		}
		list = append(list, jws)
	}
	return list, rows.Err()
}

// unproven lists closed rooms without a bundle that follow another one, the
// oldest first.
func (store) unproven(ctx context.Context, tx *sql.Tx, after closedRoom, limit int) (list []closedRoom, err error) {
	rows, err := tx.QueryContext(ctx, `SELECT finalized_at, agreement FROM venue_rooms
		WHERE bundle IS NULL AND finalized_at IS NOT NULL AND (finalized_at, agreement) > ($1, $2)
		ORDER BY finalized_at, agreement LIMIT $3`, after.at, after.agreement, limit)
	if err != nil {
		return nil, fmt.Errorf("reading closed rooms: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var room closedRoom
		if err := rows.Scan(&room.at, &room.agreement); err != nil {
			return nil, fmt.Errorf("reading closed rooms: %w", err)
		}
		list = append(list, room)
	}
	return list, rows.Err()
}
