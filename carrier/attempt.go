package carrier

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"time"
)

// Bounds of one attempt.
const (
	maxAddresses  = 16 // of one recipient, as many as a card may name
	maxLateTries  = 5  // at further addresses, once one has taken what nobody will ack
	unknownReason = "no address known"
	storagePause  = time.Second // before the next try when the database failed
)

// attempt is one go at delivering a message.
type attempt struct {
	seq       int64
	recipient string
	messageID string
	typ       string
	scheme    string
	state     State
	reason    string
	rounds    int
	expiresAt time.Time
	sentAt    time.Time
	resendAt  time.Time // when the addresses that took it get it again
	wantsAck  bool
	worked    endpoint // by which the recipient was reached last
	wraps     [][]byte
	wanted    map[int]bool // the wraps that the recipient asked for
	targets   []*target
}

// target is one address with what is known of it for this message.
type target struct {
	Delivery
	to      Address
	wraps   int // taken so far, or frames of them
	frame   int // size of the frames; 0 for whole wraps
	retryAt time.Time
	sentAt  time.Time    // when it took all of them first
	only    map[int]bool // the wraps it gets in this attempt; nil for all
	chosen  bool         // in this attempt
	tried   bool         // in this attempt, and something was learnt
}

// attempt tries a claimed message at every address that is due, and stores how
// it went. A crash between the two only sends the same bytes again. sent is
// called in between: the disk holds up no sender, as long as it is not a whole
// round behind.
func (e *Engine) attempt(ctx context.Context, seq int64, sent func()) {
	defer e.unclaim(ctx, seq)
	a, err := e.loadAttempt(ctx, seq)
	if err == nil && a != nil && e.now().Before(a.expiresAt) {
		e.deliver(ctx, a)
	}
	e.storing <- struct{}{}
	defer func() { <-e.storing }()
	sent()
	if ctx.Err() != nil {
		return
	}
	if err == nil && a != nil {
		err = e.conclude(ctx, a)
	}
	if err != nil && ctx.Err() == nil {
		e.logger.ErrorContext(ctx, "sending a message", "outbox_seq", seq, "err", err)
		sleep(ctx, storagePause)
		e.endLeases(ctx, map[int64]int64{seq: e.claimed()[seq]}) // the next try need not wait for it
	}
}

// loadAttempt reads a message that has something left to do; nil when it has not.
func (e *Engine) loadAttempt(ctx context.Context, seq int64) (*attempt, error) {
	a := &attempt{seq: seq}
	err := e.db.View(ctx, func(ctx context.Context, tx *sql.Tx) error {
		var expires, sent, resend int64
		var wanted string
		err := tx.QueryRowContext(ctx, `SELECT recipient, message_id, type, scheme, state, rounds, expires_at, sent_ms, resend_ms, wanted
			FROM carrier_outbox WHERE seq = $1 AND due_ms IS NOT NULL`, seq).
			Scan(&a.recipient, &a.messageID, &a.typ, &a.scheme, &a.state, &a.rounds, &expires, &sent, &resend, &wanted)
		if err != nil {
			return err
		}
		a.expiresAt, a.sentAt, a.resendAt = unixTime(expires), milliTime(sent), milliTime(resend)
		contact, err := e.IsContact(ctx, tx, a.recipient)
		if err != nil {
			return err
		}
		a.wantsAck = wantsAck(a.typ, contact, a.rounds)
		if a.worked, err = lastRoute(ctx, tx, a.recipient); err != nil {
			return err
		}
		if a.targets, err = deliveries(ctx, tx, seq); err != nil {
			return err
		}
		rows, err := tx.QueryContext(ctx, "SELECT wrap FROM carrier_outbox_wraps WHERE outbox_seq = $1 ORDER BY part", seq)
		if err != nil {
			return err
		}
		a.wraps, err = scanAll(rows, func(rows *sql.Rows) (wrap []byte, err error) {
			err = rows.Scan(&wrap)
			return wrap, err
		})
		a.wanted = wantedParts(wanted, len(a.wraps))
		return err
	})
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return a, err
}

func deliveries(ctx context.Context, tx *sql.Tx, seq int64) ([]*target, error) {
	rows, err := tx.QueryContext(ctx, `SELECT scheme, address, state, reason, attempts, wraps, frame, retry_ms, sent_ms FROM carrier_deliveries
		WHERE outbox_seq = $1 ORDER BY scheme, address`, seq)
	if err != nil {
		return nil, err
	}
	return scanAll(rows, func(rows *sql.Rows) (*target, error) {
		var t target
		var retry, sent int64
		err := rows.Scan(&t.Scheme, &t.Address, &t.State, &t.Reason, &t.Attempts, &t.wraps, &t.frame, &retry, &sent)
		t.to = Address{Scheme: t.Scheme, Address: t.Address}
		t.retryAt, t.sentAt = milliTime(retry), milliTime(sent)
		return &t, err
	})
}

// sendTo gives one address the wraps it has not taken, stopping at the first
// that fails.
func (e *Engine) sendTo(ctx context.Context, a *attempt, t *target) {
	if until := e.endpoints.enter(t.to, e.now()); !until.IsZero() {
		t.retryAt, t.tried = until, true
		if t.Reason == "" {
			t.Reason = "waiting for the address to recover"
		}
		return
	}
	t.tried = true
	c := e.carriers[t.Scheme]
	pieces, err := t.pieces(c, a.wraps)
	if err != nil {
		t.State, t.Reason = StateDead, shorten(err.Error())
		e.metrics.sent.WithLabelValues(t.Scheme, resultPermanent).Inc()
		e.endpoints.leave(t.to, e.now())
		return
	}
	for ; t.wraps < len(pieces); t.wraps++ {
		err := e.sendPiece(ctx, c, t.to, pieces[t.wraps])
		if err != nil && ctx.Err() != nil {
			t.tried = false // the end of the process says nothing of the address
			e.endpoints.leave(t.to, e.now())
			return
		}
		e.metrics.sent.WithLabelValues(t.Scheme, sendResult(err)).Inc()
		blocked := e.endpoints.report(t.to, err, e.now())
		if err == nil {
			continue
		}
		t.Reason = shorten(err.Error())
		if errors.Is(err, ErrPermanent) {
			t.State = StateDead
			return
		}
		t.retryAt = blocked
		if own := e.now().Add(e.opts.Retry.Delay(t.Attempts)); own.After(t.retryAt) {
			t.retryAt = own
		}
		t.Attempts++
		return
	}
	t.State, t.Reason, t.Attempts, t.sentAt = StateSent, "", 0, cmp.Or(t.sentAt, e.now())
}

// pieces is what the address gets: the wraps, or frames of those that are too
// long for it. Frames of another size than before begin anew.
func (t *target) pieces(c Carrier, wraps [][]byte) ([][]byte, error) {
	limit := c.MaxFrame(t.to)
	if limit <= 0 {
		limit = 0
	}
	if t.frame != limit {
		t.frame, t.wraps = limit, 0
	}
	if limit == 0 && t.only == nil {
		return wraps, nil
	}
	texts, ok := c.(TextCarrier)
	text := ok && texts.TextOnly(t.to)
	var pieces [][]byte
	for i, wrap := range wraps {
		if t.only != nil && !t.only[i] {
			continue
		}
		if limit == 0 || len(wrap) <= limit {
			pieces = append(pieces, wrap)
			continue
		}
		frames, err := Split(wrap, limit, text)
		if err != nil {
			return nil, err
		}
		pieces = append(pieces, frames...)
	}
	return pieces, nil
}

func (e *Engine) sendPiece(ctx context.Context, c Carrier, to Address, data []byte) error {
	ctx, cancel := context.WithTimeout(ctx, e.opts.SendTimeout)
	defer cancel()
	return c.Send(ctx, to, data)
}

func sendResult(err error) string {
	var limited *RateLimited
	switch {
	case err == nil:
		return resultAccepted
	case errors.Is(err, ErrPermanent):
		return resultPermanent
	case errors.As(err, &limited):
		return resultRateLimited
	}
	return resultTransient
}
