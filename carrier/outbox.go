package carrier

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/parleykit/parley/protocol/canonical"
	"github.com/parleykit/parley/protocol/envelope"
	"github.com/parleykit/parley/protocol/message"
)

// route narrows how a message may leave.
type route struct {
	scheme    string // only by carriers of this scheme; empty for any
	inReplyTo string // the message that an ack or error names
}

// Send seals m and stores it for delivery; it is durable when Send returns.
// m.From must be this agent. What venue and member say to each other about a
// room gets the next seq of its thread, unless it has one. Sending the same
// message again changes nothing; another message under a used id is ErrExists. ErrOutboxFull when too many or
// too large messages wait, ErrPeerFull when too many of them are for this
// recipient. Errors of package envelope mean that m cannot be sent.
func (e *Engine) Send(ctx context.Context, m *message.Message) error {
	var early *sealed
	if !orderedTypes[m.Type] { // what is not numbered need not be sealed in the transaction
		var err error
		if early, err = e.seal(m, e.now()); err != nil {
			return err
		}
	}
	var change Change
	err := e.db.Write(ctx, func(ctx context.Context, tx *sql.Tx) (err error) {
		if early == nil {
			change, err = e.enqueue(ctx, tx, m, route{})
			return err
		}
		change, err = e.insertOutbox(ctx, tx, early, route{})
		return err
	})
	if err != nil {
		return err
	}
	if change.Seq != 0 {
		e.changes.send(change)
		e.Wake()
	}
	return nil
}

// SendTx is Send inside the caller's transaction: the message leaves if and
// only if it commits. Call Wake after the commit, except in Handle, where the
// Engine does.
func (e *Engine) SendTx(ctx context.Context, tx *sql.Tx, m *message.Message) error {
	_, err := e.enqueue(ctx, tx, m, route{})
	return err
}

// enqueue numbers, seals and stores a message.
func (e *Engine) enqueue(ctx context.Context, tx *sql.Tx, m *message.Message, by route) (Change, error) {
	m, err := e.number(ctx, tx, m)
	if err != nil {
		return Change{}, err
	}
	sealed, err := e.seal(m, e.now())
	if err != nil {
		return Change{}, err
	}
	change, err := e.insertOutbox(ctx, tx, sealed, by)
	if err != nil || change.Seq == 0 {
		return change, err
	}
	return change, e.numbered(ctx, tx, sealed)
}

// sealed is a message with its wraps, which never change again.
type sealed struct {
	*message.Message
	data  []byte
	wraps []envelope.Wrap
	size  int64 // of all wraps
	now   time.Time
}

// digest names a message in several wraps as its parts do; else it is empty.
func (s *sealed) digest() string {
	if len(s.wraps) < 2 {
		return ""
	}
	return canonical.Digest(s.data)
}

func (e *Engine) seal(m *message.Message, now time.Time) (*sealed, error) {
	if m.From != e.me {
		return nil, ErrSender
	}
	data, err := m.Encode()
	if err != nil {
		return nil, err
	}
	wraps, err := envelope.Seal(m, e.keyer, now)
	if err != nil {
		return nil, err
	}
	s := &sealed{m, data, wraps, 0, now}
	for _, wrap := range wraps {
		s.size += int64(len(wrap.Bytes))
	}
	return s, nil
}

// insertOutbox stores a sealed message. The change has no Seq when the message
// was there already.
func (e *Engine) insertOutbox(ctx context.Context, tx *sql.Tx, s *sealed, by route) (Change, error) {
	var stored []byte
	err := tx.QueryRowContext(ctx, "SELECT message FROM carrier_outbox WHERE recipient = $1 AND message_id = $2", s.To, s.ID).Scan(&stored)
	switch {
	case err == nil && bytes.Equal(stored, s.data):
		return Change{}, nil
	case err == nil:
		return Change{}, ErrExists
	case !errors.Is(err, sql.ErrNoRows):
		return Change{}, err
	}
	if err := e.outboxFits(ctx, tx, s); err != nil {
		return Change{}, err
	}
	change := Change{Box: BoxOutbox, Peer: s.To, MessageID: s.ID, Type: s.Type, State: StateQueued}
	err = tx.QueryRowContext(ctx, `INSERT INTO carrier_outbox
		(recipient, message_id, type, scheme, in_reply_to, state, reason, rounds, created_at, expires_at, keep_until, sent_ms, resend_ms, acked_at, due_ms, message, lane, size, digest)
		VALUES ($1, $2, $3, $4, $5, 'queued', '', 0, $6, $7, $8, 0, 0, 0, $9, $10, $11, $12, $13) RETURNING seq`,
		s.To, s.ID, s.Type, by.scheme, by.inReplyTo, s.now.Unix(), s.ExpiresAt.Unix(), e.keepUntil(s).Unix(), s.now.UnixMilli(), s.data,
		laneOf(s.Type), s.size, s.digest()).Scan(&change.Seq)
	if err != nil {
		return Change{}, err
	}
	for i, wrap := range s.wraps {
		_, err := tx.ExecContext(ctx, "INSERT INTO carrier_outbox_wraps (outbox_seq, part, wrap_id, wrap) VALUES ($1, $2, $3, $4)",
			change.Seq, i, wrap.ID, wrap.Bytes)
		if err != nil {
			return Change{}, err
		}
	}
	return change, nil
}

// keepUntil is when the row is purged: acks and nacks have no history.
func (e *Engine) keepUntil(s *sealed) time.Time {
	if s.Type == message.TypeAck || s.Type == message.TypeNack {
		return s.ExpiresAt.Add(keepAfterExpiry)
	}
	return s.ExpiresAt.Add(e.opts.Keep)
}

// outboxFits bounds what waits. Answers are exempt: there is at most one for
// each message received, and a full outbox must not stop receiving.
//
// Nobody may fill it alone: who asks for answers and cannot be reached would
// silence the agent towards everyone else.
func (e *Engine) outboxFits(ctx context.Context, tx *sql.Tx, s *sealed) error {
	if message.Types[s.Type].Unanswered {
		return nil
	}
	var all, ofPeer int
	var size int64
	err := tx.QueryRowContext(ctx, `SELECT
		(SELECT count(*) FROM (SELECT 1 FROM carrier_outbox WHERE state = 'queued' AND recipient = $1 LIMIT $2) AS theirs),
		coalesce(sum(messages), 0), coalesce(sum(bytes), 0) FROM carrier_waiting`, s.To, e.opts.Limits.OutboxOfPeer).Scan(&ofPeer, &all, &size)
	switch {
	case err != nil:
		return err
	case all >= e.opts.Limits.Outbox:
		return fmt.Errorf("%w: %d messages wait", ErrOutboxFull, all)
	case size+s.size > e.opts.Limits.OutboxBytes:
		return fmt.Errorf("%w: %d bytes wait", ErrOutboxFull, size)
	case ofPeer >= e.opts.Limits.OutboxOfPeer:
		return fmt.Errorf("%w: %d messages wait", ErrPeerFull, ofPeer)
	}
	return nil
}

// Purge deletes a message that is dead or expired. ErrNotFound when seq names
// none.
func (e *Engine) Purge(ctx context.Context, seq int64) error {
	return e.db.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		result, err := tx.ExecContext(ctx, "DELETE FROM carrier_outbox WHERE seq = $1 AND state IN ('dead', 'expired')", seq)
		if err != nil {
			return err
		}
		if n, err := result.RowsAffected(); n == 0 || err != nil {
			return errors.Join(ErrNotFound, err)
		}
		return nil
	})
}

// Requeue gives a dead message another chance at every address. ErrNotFound
// when seq names no dead message that is still alive.
func (e *Engine) Requeue(ctx context.Context, seq int64) error {
	err := e.db.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		result, err := tx.ExecContext(ctx, `UPDATE carrier_outbox SET state = 'queued', reason = '', due_ms = 0
			WHERE seq = $1 AND state = 'dead' AND expires_at > $2`, seq, e.now().Unix())
		if err != nil {
			return err
		}
		if n, err := result.RowsAffected(); n == 0 || err != nil {
			return errors.Join(ErrNotFound, err)
		}
		_, err = tx.ExecContext(ctx, "UPDATE carrier_deliveries SET state = 'queued', attempts = 0, retry_ms = 0 WHERE outbox_seq = $1", seq)
		return err
	})
	if err == nil {
		e.Wake()
	}
	return err
}
