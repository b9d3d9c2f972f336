package carrier

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/parleykit/parley/internal/database"
)

// processLoop gives stored messages to the application.
func (e *Engine) processLoop(ctx context.Context) {
	for ctx.Err() == nil {
		next, err := e.process(ctx)
		if err != nil && ctx.Err() == nil {
			e.logger.WarnContext(ctx, "processing the inbox", "err", err)
			next = e.now().Add(storagePause)
			wake(e.wakeOut) // what Handle sent may be stored although its commit was not answered
		}
		e.waitFor(ctx, e.wakeIn, next)
	}
}

// process handles every message that is due, in the order of arrival and within
// a thread of seq, and returns when the next one is; zero when none waits.
func (e *Engine) process(ctx context.Context) (next time.Time, err error) {
	for {
		seq, tries, next, err := e.nextPending(ctx)
		if err != nil || seq == 0 {
			return next, err
		}
		if err := e.handle(ctx, seq, tries); err != nil {
			return time.Time{}, err
		}
	}
}

// nextPending finds the message that arrived first of those that are due, with
// the number of its tries so far, or else the time when one will be. seq is 0
// when none is due.
func (e *Engine) nextPending(ctx context.Context) (seq int64, tries int, next time.Time, err error) {
	now := e.now().UnixMilli()
	err = e.db.View(ctx, func(ctx context.Context, tx *sql.Tx) error {
		err := tx.QueryRowContext(ctx, `SELECT seq FROM carrier_inbox WHERE state = 'pending' AND due_ms <= $1
			ORDER BY seq LIMIT 1`, now).Scan(&seq)
		if err == nil {
			seq, err = before(ctx, tx, seq)
		}
		if err == nil {
			return tx.QueryRowContext(ctx, "SELECT attempts FROM carrier_inbox WHERE seq = $1", seq).Scan(&tries)
		}
		if !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		var ms sql.NullInt64
		err = tx.QueryRowContext(ctx, "SELECT min(due_ms) FROM carrier_inbox WHERE state = 'pending'").Scan(&ms)
		next = milliTime(ms.Int64)
		return err
	})
	return seq, tries, next, err
}

// errRefused carries an error of Handle through the transaction it undoes.
type errRefused struct{ err error }

func (e *errRefused) Error() string { return e.err.Error() }
func (e *errRefused) Unwrap() error { return e.err }

// handle runs Handle and marks the row, in one transaction. Whoever comes
// second waits at the row and finds it marked.
func (e *Engine) handle(ctx context.Context, seq int64, tries int) error {
	var in *Incoming
	var state State
	err := e.db.Tx(ctx, func(ctx context.Context, tx *sql.Tx) (err error) {
		if in, err = e.pendingRow(ctx, tx, seq); in == nil || err != nil {
			return err
		}
		if !e.now().Before(in.Message.ExpiresAt.Time) {
			state = StateFailed
			return errors.Join(setInbox(ctx, tx, seq, StateFailed, expiredUnprocessed), releaseNext(ctx, tx, in))
		}
		if e.opts.Handle != nil {
			if err := e.opts.Handle(ctx, tx, in); err != nil {
				return &errRefused{err}
			}
		}
		state = StateDone
		return errors.Join(setInbox(ctx, tx, seq, StateDone, ""), releaseNext(ctx, tx, in))
	})
	var refused *errRefused
	switch {
	case errors.As(err, &refused) && ctx.Err() == nil && !isStorage(err):
		return e.refuse(ctx, in, tries, refused.err)
	case err != nil:
		if in != nil && errors.Is(err, database.ErrPanic) {
			e.logger.ErrorContext(ctx, "handler panicked", "message_id", in.Message.ID, "err", err)
			return e.refuse(ctx, in, tries, fmt.Errorf("%w: the handler panicked", ErrPermanent))
		}
		return err
	case in == nil:
		return nil
	}
	e.settled(in, state)
	return nil
}

// isStorage reports trouble of the database, which is not the message's fault.
func isStorage(err error) bool {
	return errors.Is(err, database.ErrBusy) || errors.Is(err, database.ErrTransient) || errors.Is(err, database.ErrClosed)
}

// refuse notes an error of Handle: the end of the message, or another try. When
// another process was faster, its word stands.
func (e *Engine) refuse(ctx context.Context, in *Incoming, tries int, cause error) error {
	state := StatePending
	if errors.Is(cause, ErrPermanent) {
		state = StateFailed
	}
	due := earlier(e.now().Add(e.opts.Retry.Delay(tries)), in.Message.ExpiresAt.Time)
	var noted bool
	err := e.db.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		result, err := tx.ExecContext(ctx, `UPDATE carrier_inbox SET state = $1, reason = $2, attempts = attempts + 1, due_ms = $3
			WHERE seq = $4 AND state = 'pending' AND attempts = $5`, state, shorten(cause.Error()), due.UnixMilli(), in.Seq, tries)
		if err != nil {
			return err
		}
		n, err := result.RowsAffected()
		if noted = n > 0; err != nil || !noted || state != StateFailed {
			return err
		}
		return releaseNext(ctx, tx, in)
	})
	if err != nil || !noted {
		return err
	}
	e.logger.WarnContext(ctx, "message not processed", "message_id", in.Message.ID, "type", in.Message.Type, "state", state, "err", cause)
	e.settled(in, state)
	return nil
}

// settled counts and announces what became of a message.
func (e *Engine) settled(in *Incoming, state State) {
	result := map[State]string{StateDone: resultDone, StatePending: resultRetry, StateFailed: resultFailed}[state]
	e.metrics.handled.WithLabelValues(result).Inc()
	e.changes.send(inboxChange(in, state))
	wake(e.wakeOut) // for what Handle sent
}

func (e *Engine) pendingRow(ctx context.Context, tx *sql.Tx, seq int64) (*Incoming, error) {
	rows, err := tx.QueryContext(ctx, incomingColumns+" WHERE seq = $1 AND state = 'pending'"+e.db.ForUpdate(), seq)
	if err != nil {
		return nil, err
	}
	found, err := scanAll(rows, scanIncoming)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return found[0], nil
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// maxReason bounds a stored reason, in bytes.
const maxReason = 300

func shorten(reason string) string {
	if len(reason) <= maxReason {
		return reason
	}
	cut := maxReason
	for cut > 0 && reason[cut]&0xc0 == 0x80 { // not inside a character
		cut--
	}
	return reason[:cut]
}
