package venue

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/parleykit/parley/protocol/agreement"
)

// settle gives an open room past its deadline its end, before anything else
// looks at it. The row r is brought up to date.
func (v *Venue) settle(ctx context.Context, tx *sql.Tx, r *record) error {
	now := v.now()
	if !r.due(now) {
		return nil
	}
	room, err := v.store.room(ctx, tx, r)
	if err != nil {
		return err
	}
	e, expired := room.Expire(now)
	if !expired {
		return broken("it does not expire at its deadline")
	}
	_, err = v.publish(ctx, tx, r, room, e, "")
	return err
}

// publish stores an event that room has just accepted, tells every member but
// the one whose command it was, and closes the room if the event ended it. It
// returns the event's canonical bytes.
func (v *Venue) publish(ctx context.Context, tx *sql.Tx, r *record, room *agreement.Room, e agreement.Event, by string) ([]byte, error) {
	data, err := e.Canonical()
	if err != nil {
		return nil, fmt.Errorf("encoding event: %w", err)
	}
	if err := v.store.append(ctx, tx, r, room, e, data); err != nil {
		return nil, err
	}
	members, err := v.store.members(ctx, tx, r.agreement)
	if err != nil {
		return nil, err
	}
	for _, to := range members {
		if to == by {
			continue
		}
		if err := v.sendEvent(ctx, tx, r.agreement, to, data, r.outcome); err != nil {
			return nil, err
		}
	}
	if room.Closed() {
		return data, v.conclude(ctx, tx, r, room, members)
	}
	return data, nil
}

// conclude makes the bundle of a closed room, keeps it and sends it to all
// members, whatever the outcome: that nothing was agreed is evidence too.
func (v *Venue) conclude(ctx context.Context, tx *sql.Tx, r *record, room *agreement.Room, members []string) error {
	_, bundle, err := agreement.NewBundle(room, v.opts.Key, v.now())
	if err != nil {
		return fmt.Errorf("making bundle: %w", err)
	}
	if err := v.store.setBundle(ctx, tx, r.agreement, bundle); err != nil {
		return err
	}
	v.metrics.closed.WithLabelValues(room.Outcome()).Inc()
	v.logger.InfoContext(ctx, "room closed", "agreement", r.agreement, "outcome", room.Outcome())
	for i, to := range members {
		sent, err := v.sendArtifact(ctx, tx, r.agreement, to, string(bundle))
		if err != nil {
			return err
		}
		if !sent && i == 0 {
			v.metrics.oversize.Inc()
			v.logger.WarnContext(ctx, "bundle too large for a message", "agreement", r.agreement, "size", len(bundle))
		}
	}
	return nil
}
