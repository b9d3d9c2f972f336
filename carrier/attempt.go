package carrier

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/parleykit/parley/protocol/message"
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
	wraps     [][]byte
	targets   []*target
}

// target is one address with what is known of it for this message.
type target struct {
	Delivery
	to      Address
	wraps   int // taken so far
	retryAt time.Time
	tried   bool // in this attempt
}

// attempt tries a claimed message at every address that is due, and stores how
// it went. A crash between the two only sends the same bytes again.
func (e *Engine) attempt(ctx context.Context, seq int64) {
	defer e.unclaim(seq)
	a, err := e.loadAttempt(ctx, seq)
	if err == nil && a != nil {
		if e.now().Before(a.expiresAt) {
			e.deliver(ctx, a)
		}
		if ctx.Err() != nil {
			return
		}
		err = e.conclude(ctx, a)
	}
	if err != nil && ctx.Err() == nil {
		e.logger.ErrorContext(ctx, "sending a message", "outbox_seq", seq, "err", err)
		sleep(ctx, storagePause)
	}
}

// loadAttempt reads a message that has something left to do; nil when it has not.
func (e *Engine) loadAttempt(ctx context.Context, seq int64) (*attempt, error) {
	a := &attempt{seq: seq}
	err := e.db.View(ctx, func(ctx context.Context, tx *sql.Tx) error {
		var expires, sent, resend int64
		err := tx.QueryRowContext(ctx, `SELECT recipient, message_id, type, scheme, state, rounds, expires_at, sent_ms, resend_ms
			FROM carrier_outbox WHERE seq = $1 AND due_ms IS NOT NULL`, seq).
			Scan(&a.recipient, &a.messageID, &a.typ, &a.scheme, &a.state, &a.rounds, &expires, &sent, &resend)
		if err != nil {
			return err
		}
		a.expiresAt, a.sentAt, a.resendAt = unixTime(expires), milliTime(sent), milliTime(resend)
		contact, err := e.IsContact(ctx, tx, a.recipient)
		if err != nil {
			return err
		}
		a.wantsAck = contact && !message.Types[a.typ].Unanswered
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
		return err
	})
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return a, err
}

func deliveries(ctx context.Context, tx *sql.Tx, seq int64) ([]*target, error) {
	rows, err := tx.QueryContext(ctx, `SELECT scheme, address, state, reason, attempts, wraps, retry_ms FROM carrier_deliveries
		WHERE outbox_seq = $1 ORDER BY scheme, address`, seq)
	if err != nil {
		return nil, err
	}
	return scanAll(rows, func(rows *sql.Rows) (*target, error) {
		var t target
		var retry int64
		err := rows.Scan(&t.Scheme, &t.Address, &t.State, &t.Reason, &t.Attempts, &t.wraps, &retry)
		t.to = Address{Scheme: t.Scheme, Address: t.Address}
		t.retryAt = milliTime(retry)
		return &t, err
	})
}

// deliver finds the recipient's addresses and sends to all that are due, side
// by side: one that hangs does not hold up the others.
func (e *Engine) deliver(ctx context.Context, a *attempt) {
	addresses, err := e.addresses(ctx, a)
	if err != nil {
		a.reason = "finding an address: " + err.Error()
		return
	}
	if len(addresses) == 0 {
		a.reason = unknownReason
	}
	a.aim(addresses)
	now := e.now()
	var group sync.WaitGroup
	for _, t := range a.targets {
		if t.isDue(a, now) {
			group.Go(func() { e.sendTo(ctx, a, t) })
		}
	}
	group.Wait()
}

// addresses asks for the recipient's addresses and keeps those that a carrier
// can serve, best first; for an answer those of the carrier that brought the
// question, if there are any.
func (e *Engine) addresses(ctx context.Context, a *attempt) ([]Address, error) {
	ctx, cancel := context.WithTimeout(ctx, e.opts.SendTimeout)
	defer cancel()
	all, err := e.opts.Resolve(ctx, a.recipient)
	if err != nil {
		return nil, err
	}
	usable := slices.DeleteFunc(slices.Clone(all), func(to Address) bool { return e.carriers[to.Scheme] == nil })
	other := func(to Address) bool { return to.Scheme != a.scheme }
	if a.scheme != "" && !slices.ContainsFunc(usable, func(to Address) bool { return !other(to) }) {
		a.scheme = "" // it writes by a carrier it cannot be answered by
	}
	if a.scheme != "" {
		usable = slices.DeleteFunc(usable, other)
	}
	slices.SortStableFunc(usable, func(x, y Address) int { return cmp.Compare(x.Priority, y.Priority) })
	return usable[:min(len(usable), maxAddresses)], nil
}

// aim makes the addresses the targets. Ones that were tried before and are no
// longer named stay only if they took the message.
func (a *attempt) aim(addresses []Address) {
	named := make(map[endpoint]bool)
	for _, to := range addresses {
		key := endpoint{to.Scheme, to.Address}
		if !named[key] && !slices.ContainsFunc(a.targets, func(t *target) bool { return key == endpoint{t.Scheme, t.Address} }) {
			a.targets = append(a.targets, &target{to: to, Delivery: Delivery{Scheme: to.Scheme, Address: to.Address, State: StateQueued}})
		}
		named[key] = true
	}
	for _, t := range a.targets {
		if !named[endpoint{t.Scheme, t.Address}] && t.State == StateQueued {
			t.State, t.Reason, t.tried = StateDead, "address no longer named", true
		}
	}
}

// isDue reports whether the address is to be tried now. A round of resending
// starts the addresses that took the message anew.
func (t *target) isDue(a *attempt, now time.Time) bool {
	if t.State == StateSent && a.wantsAck && !now.Before(a.resendAt) {
		t.State, t.wraps = StateQueued, 0
		return true
	}
	return t.State == StateQueued
}

// sendTo gives one address the wraps it has not taken, stopping at the first
// that fails.
func (e *Engine) sendTo(ctx context.Context, a *attempt, t *target) {
	if until := e.endpoints.blockedUntil(t.to, e.now()); !until.IsZero() {
		t.retryAt, t.tried = until, true
		if t.Reason == "" {
			t.Reason = "waiting for the address to recover"
		}
		return
	}
	t.tried = true
	c := e.carriers[t.Scheme]
	for ; t.wraps < len(a.wraps); t.wraps++ {
		err := e.sendWrap(ctx, c, t.to, a.wraps[t.wraps])
		if err != nil && ctx.Err() != nil {
			t.tried = false // the end of the process says nothing of the address
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
	t.State, t.Reason, t.Attempts = StateSent, "", 0
}

func (e *Engine) sendWrap(ctx context.Context, c Carrier, to Address, wrap []byte) error {
	if limit := c.MaxFrame(to); limit > 0 && len(wrap) > limit {
		return fmt.Errorf("%w: wrap of %d bytes, the carrier takes %d", ErrPermanent, len(wrap), limit)
	}
	ctx, cancel := context.WithTimeout(ctx, e.opts.SendTimeout)
	defer cancel()
	return c.Send(ctx, to, wrap)
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
