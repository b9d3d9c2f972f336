package venue

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

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

// ErrNoRoom means that no room has the id.
var ErrNoRoom = errors.New("venue: no such room")

// ErrNotDue means that a room cannot be closed before its deadline: nothing but
// a member's decision ends it then.
var ErrNotDue = errors.New("venue: the deadline has not come")

// Close gives an open room past its deadline its outcome at once, as Run does,
// and tells the members. It returns the outcome, also of a room that had one.
// ErrNoRoom, ErrNotDue and ErrBroken say why a room stays as it is.
func (v *Venue) Close(ctx context.Context, id string) (outcome string, err error) {
	err = v.opts.DB.Tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		r, err := v.store.record(ctx, tx, id)
		if err != nil {
			return err
		}
		if r == nil {
			return ErrNoRoom
		}
		if err := v.settle(ctx, tx, r); err != nil {
			return err
		}
		if outcome = r.outcome; outcome == agreement.OutcomePending {
			return fmt.Errorf("%w: it is %s", ErrNotDue, r.deadline.UTC().Format(time.RFC3339))
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	v.opts.Outbox.Wake()
	return outcome, nil
}

// publish stores an event that room has just accepted, with its receipt, tells
// every member but the one whose command it was, and closes the room if the
// event ended it. It returns the event's canonical bytes.
func (v *Venue) publish(ctx context.Context, tx *sql.Tx, r *record, room *agreement.Room, e agreement.Event, by string) ([]byte, error) {
	e, jws, err := v.acknowledge(ctx, tx, room, e)
	if err != nil {
		return nil, err
	}
	data, err := e.Canonical()
	if err != nil {
		return nil, fmt.Errorf("encoding event: %w", err)
	}
	if err := v.store.append(ctx, tx, r, room, e, data); err != nil {
		return nil, err
	}
	if err := v.store.addReceipt(ctx, tx, r.agreement, e.Seq, jws); err != nil {
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
		return data, v.conclude(ctx, tx, r, room)
	}
	return data, nil
}

// bundle makes the bundle of a closed room, keeps it and sends it to all
// members, whatever the outcome: that nothing was agreed is evidence too.
func (v *Venue) bundle(ctx context.Context, tx *sql.Tx, r *record, room *agreement.Room, evidence *agreement.Evidence) error {
	_, bundle, err := agreement.NewBundle(room, v.opts.Key, evidence, v.now())
	if err != nil {
		return fmt.Errorf("making bundle: %w", err)
	}
	if err := v.store.setBundle(ctx, tx, r.agreement, bundle); err != nil {
		return err
	}
	members, err := v.store.members(ctx, tx, r.agreement)
	if err != nil {
		return err
	}
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
