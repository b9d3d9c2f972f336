package carrier

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"time"
)

// verdict is where a message stands after an attempt.
type verdict struct {
	state  State
	reason string
	due    time.Time // of the next attempt; zero when nothing is left to do
	again  bool      // an address has taken all of it in this attempt
}

// judge decides from the state of every address. resend is when to send again
// to a contact that does not ack; retry is when to look for an address again;
// fallback is how long after sending the next address gets the message too.
func (a *attempt) judge(now, resend, retry time.Time, fallback time.Duration) verdict {
	v := verdict{state: a.state, reason: a.reason}
	if !now.Before(a.expiresAt) {
		return a.judgeExpired()
	}
	taken, open, late := false, time.Time{}, time.Time{}
	for _, t := range a.targets {
		switch t.State {
		case StateSent:
			taken = true
			v.again = v.again || t.tried
		case StateQueued:
			if t.Reason != "" {
				v.reason = t.Reason
			}
			open = soonest(open, cmp.Or(t.retryAt, now))
			if t.Attempts < maxLateTries {
				late = soonest(late, t.retryAt)
			}
		case StateDead:
			if v.reason == "" {
				v.reason = t.Reason
			}
		}
	}
	taken = taken || !a.sentAt.IsZero()
	next := a.sentAt
	if v.again {
		next = now
	}
	next = next.Add(fallback)
	if a.reason != "" {
		next = later(next, retry)
	}
	switch {
	case taken && a.wantsAck:
		v.state, v.due = StateSent, resend
		if !open.IsZero() {
			v.due = soonest(resend, later(next, open))
		}
	case taken:
		v.state, v.due = StateSent, late
	case !open.IsZero():
		v.state, v.due = StateQueued, open
	case len(a.targets) == 0 || a.reason != "":
		v.state, v.due = StateQueued, retry
	default:
		v.state = StateDead
	}
	if taken && open.IsZero() {
		v.reason = ""
	}
	if a.expiresAt.Before(v.due) {
		v.due = a.expiresAt
	}
	return v
}

// judgeExpired ends a message: what nobody was to ack stays sent.
func (a *attempt) judgeExpired() verdict {
	switch {
	case a.state == StateSent && !a.wantsAck:
		return verdict{state: StateSent}
	case a.state == StateSent:
		return verdict{state: StateExpired, reason: "not acknowledged in time"}
	default:
		return verdict{state: StateExpired, reason: "not delivered in time"}
	}
}

func soonest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// conclude stores the outcome of an attempt, unless an ack came meanwhile.
func (e *Engine) conclude(ctx context.Context, a *attempt) error {
	now := e.now()
	resend := a.resendAt
	if !now.Before(resend) {
		resend = now.Add(e.opts.Resend.Delay(a.rounds))
	}
	v := a.judge(now, resend, now.Add(e.opts.Retry.Delay(a.rounds)), e.opts.Fallback)
	rounds, sent := a.rounds, a.sentAt
	if v.again {
		rounds, sent = rounds+1, now
	} else if a.reason != "" {
		rounds++ // so that the search for an address slows down
	}
	var changed bool
	err := e.db.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		for _, t := range a.targets {
			if err := t.store(ctx, tx, a.seq); err != nil {
				return err
			}
		}
		result, err := tx.ExecContext(ctx, `UPDATE carrier_outbox SET state = $1, reason = $2, rounds = $3, sent_ms = $4, resend_ms = $5, due_ms = $6, wanted = ''
			WHERE seq = $7 AND state = $8`, v.state, shorten(v.reason), rounds, millis(sent), millis(resend),
			sql.NullInt64{Int64: v.due.UnixMilli(), Valid: !v.due.IsZero()}, a.seq, a.state)
		if err != nil {
			return err
		}
		n, err := result.RowsAffected()
		if changed = n > 0; changed || err != nil || a.state == StateAcked {
			return err
		}
		// Something came meanwhile; an ack did not find what is stored only now.
		var state State
		err = tx.QueryRowContext(ctx, "SELECT state FROM carrier_outbox WHERE seq = $1", a.seq).Scan(&state)
		if state == StateAcked {
			return saveRoute(ctx, tx, a.recipient, a.seq, "", now)
		}
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		return err
	})
	if err == nil && changed {
		e.changes.send(Change{Box: BoxOutbox, Seq: a.seq, Peer: a.recipient, MessageID: a.messageID, Type: a.typ, State: v.state})
	}
	return err
}

func (t *target) store(ctx context.Context, tx *sql.Tx, seq int64) error {
	if !t.tried {
		return nil
	}
	_, err := tx.ExecContext(ctx, `INSERT INTO carrier_deliveries (outbox_seq, scheme, address, state, reason, attempts, wraps, retry_ms, sent_ms, frame)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT (outbox_seq, scheme, address) DO UPDATE SET
		state = excluded.state, reason = excluded.reason, attempts = excluded.attempts, wraps = excluded.wraps, retry_ms = excluded.retry_ms,
		sent_ms = excluded.sent_ms, frame = excluded.frame`,
		seq, t.Scheme, t.Address, t.State, t.Reason, t.Attempts, t.wraps, millis(t.retryAt), millis(t.sentAt), t.frame)
	return err
}

func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}
