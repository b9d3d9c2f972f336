package venue

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/parleykit/parley/internal/idempotency"
	"github.com/parleykit/parley/protocol/agreement"
)

// ErrRunning means a second Run.
var ErrRunning = errors.New("venue: already running")

const (
	// maxWait bounds how long Run trusts a timer, since the clock may be set
	// and the machine may sleep.
	maxWait    = time.Minute
	sweepEvery = time.Hour
	batch      = 100 // rows of one read or one sweep
)

// Run closes rooms at their deadlines, makes the bundles of closed rooms once
// their receipts are proven, and removes what has outlived its time,
// until ctx ends; it returns nil then. A deadline that passed while the venue
// was down is caught up with at once.
func (v *Venue) Run(ctx context.Context) error {
	if !v.running.TryLock() {
		return ErrRunning
	}
	defer v.running.Unlock()
	if err := v.listen(ctx); err != nil {
		return fmt.Errorf("venue: listening for closed rooms: %w", err)
	}
	var swept time.Time
	for ctx.Err() == nil {
		now := v.now()
		v.alarm.passed(now)
		if _, err := v.ExpireDue(ctx); err != nil && ctx.Err() == nil {
			v.logger.ErrorContext(ctx, "rooms not expired", "err", err)
		}
		unproven, err := v.Prove(ctx)
		if err != nil && ctx.Err() == nil {
			v.logger.ErrorContext(ctx, "closed rooms not read", "err", err)
		}
		if now.Sub(swept) >= sweepEvery || now.Before(swept) {
			swept = now
			if err := v.sweep(ctx, now); err != nil && ctx.Err() == nil {
				v.logger.ErrorContext(ctx, "old rooms not removed", "err", err)
			}
		}
		next, err := v.nextDeadline(ctx, now)
		if err != nil && ctx.Err() == nil {
			v.logger.ErrorContext(ctx, "next deadline not read", "err", err)
		}
		if again := now.Add(unprovenPeriod); unproven > 0 && (next.IsZero() || next.After(again)) {
			next = again
		}
		v.alarm.wait(ctx, v.now, next)
	}
	return nil
}

// Wake makes Run look at the clock now. Call it after setting an injected
// clock; nothing else needs it.
func (v *Venue) Wake() { v.alarm.ring() }

// ExpireDue closes every room whose deadline has come, each in a transaction
// of its own, and returns how many. A room that cannot be closed is logged,
// counted and left for the next call; the others are closed all the same.
func (v *Venue) ExpireDue(ctx context.Context) (closed int, err error) {
	defer func() {
		if closed > 0 {
			v.opts.Outbox.Wake()
		}
	}()
	var after dueRoom
	for {
		rooms, err := v.dueAfter(ctx, after, v.now())
		if err != nil || len(rooms) == 0 {
			return closed, err
		}
		for _, room := range rooms {
			switch expired, err := v.expire(ctx, room.agreement); {
			case ctx.Err() != nil:
				return closed, ctx.Err()
			case err != nil:
				v.metrics.failures.Inc()
				v.logger.ErrorContext(ctx, "room not expired", "agreement", room.agreement, "err", err)
			case expired:
				closed++
			}
		}
		after = rooms[len(rooms)-1]
	}
}

// expire closes a room at its deadline, unless a command or another process did.
func (v *Venue) expire(ctx context.Context, id string) (expired bool, err error) {
	err = v.opts.DB.Tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		r, err := v.store.record(ctx, tx, id)
		if expired = r != nil && r.due(v.now()); err != nil || !expired {
			return err
		}
		return v.settle(ctx, tx, r)
	})
	return expired, err
}

// dueRoom is an open room past its deadline.
type dueRoom struct {
	deadline  int64
	agreement string
}

// dueAfter lists open rooms past their deadline that follow another one.
func (v *Venue) dueAfter(ctx context.Context, after dueRoom, now time.Time) (due []dueRoom, err error) {
	err = v.opts.DB.View(ctx, func(ctx context.Context, tx *sql.Tx) error {
		rows, err := tx.QueryContext(ctx, `SELECT deadline, agreement FROM venue_rooms
			WHERE outcome = $1 AND deadline <= $2 AND (deadline, agreement) > ($3, $4)
			ORDER BY deadline, agreement LIMIT $5`, agreement.OutcomePending, now.Unix(), after.deadline, after.agreement, batch)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var room dueRoom
			if err := rows.Scan(&room.deadline, &room.agreement); err != nil {
				return err
			}
			due = append(due, room)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("reading due rooms: %w", err)
	}
	return due, nil
}

// nextDeadline is the earliest deadline after now of an open room; zero when
// there is none.
func (v *Venue) nextDeadline(ctx context.Context, now time.Time) (time.Time, error) {
	var next sql.NullInt64
	err := v.opts.DB.View(ctx, func(ctx context.Context, tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, `SELECT min(deadline) FROM venue_rooms WHERE outcome = $1 AND deadline > $2`,
			agreement.OutcomePending, now.Unix()).Scan(&next)
	})
	if err != nil || !next.Valid {
		return time.Time{}, err
	}
	return time.Unix(next.Int64, 0), nil
}

// sweep removes closed rooms that Options.Keep is over for, and idempotency
// keys past their lifetime, in small transactions.
func (v *Venue) sweep(ctx context.Context, now time.Time) error {
	for _, remove := range []func(context.Context, *sql.Tx) (int64, error){
		func(ctx context.Context, tx *sql.Tx) (int64, error) {
			return v.store.removeClosed(ctx, tx, now.Add(-v.opts.Keep), batch)
		},
		func(ctx context.Context, tx *sql.Tx) (int64, error) {
			return idempotency.Sweep(ctx, tx, keyOwner, now, batch)
		},
	} {
		for removed := int64(batch); removed == batch; {
			err := v.opts.DB.Tx(ctx, func(ctx context.Context, tx *sql.Tx) (err error) {
				removed, err = remove(ctx, tx)
				return err
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// alarm is what wakes Run: a timer for the next deadline, or someone who knows
// of an earlier one. A deadline is noted before its room is committed, so Run
// cannot rely on the database alone.
type alarm struct {
	mu    sync.Mutex
	noted time.Time // the earliest deadline noted; zero is none
	bell  chan struct{}
}

func newAlarm() alarm { return alarm{bell: make(chan struct{}, 1)} }

func (a *alarm) ring() {
	select {
	case a.bell <- struct{}{}:
	default:
	}
}

// note tells of a deadline; Run waits no longer than until then.
func (a *alarm) note(deadline time.Time) {
	a.mu.Lock()
	earlier := a.noted.IsZero() || deadline.Before(a.noted)
	if earlier {
		a.noted = deadline
	}
	a.mu.Unlock()
	if earlier {
		a.ring()
	}
}

// passed forgets a deadline that has come.
func (a *alarm) passed(now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.noted.After(now) {
		a.noted = time.Time{}
	}
}

// wait blocks until next or an earlier noted deadline, at most maxWait, or
// until the bell rings or ctx ends.
func (a *alarm) wait(ctx context.Context, now func() time.Time, next time.Time) {
	a.mu.Lock()
	at := a.noted
	a.mu.Unlock()
	if at.IsZero() || !next.IsZero() && next.Before(at) {
		at = next
	}
	pause := maxWait
	if !at.IsZero() {
		pause = min(pause, max(0, at.Sub(now())))
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-a.bell:
	case <-timer.C:
	}
}
