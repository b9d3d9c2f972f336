package carrier

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/parleykit/parley/protocol/message"
)

// What a venue and a member say to each other about a room is numbered by the
// Engine, for each recipient and thread: an event means nothing without the ones
// before, and a comment made before a decision is refused after it.
var orderedTypes = map[string]bool{
	message.TypeAgreementCommand: true,
	message.TypeAgreementInvite:  true, message.TypeAgreementEvent: true,
	message.TypeAgreementResult: true, message.TypeAgreementArtifact: true,
}

// Bounds of holding back.
const (
	holdTime = time.Minute // the longest wait for earlier messages of the thread
	maxHeld  = 256         // messages of one sender and thread that wait
)

// number gives an ordered message without a seq the next one of its thread. It
// is taken only by numbered. A message that is in the outbox already keeps its
// number.
func (e *Engine) number(ctx context.Context, tx *sql.Tx, m *message.Message) (*message.Message, error) {
	if m.Seq != 0 || !orderedTypes[m.Type] {
		return m, nil
	}
	numbered := *m
	var stored []byte
	err := tx.QueryRowContext(ctx, "SELECT message FROM carrier_outbox WHERE recipient = $1 AND message_id = $2", m.To, m.ID).Scan(&stored)
	if err == nil {
		before, err := message.Parse(stored)
		if err != nil {
			return nil, err
		}
		numbered.Seq = before.Seq
		return &numbered, nil
	}
	if !errors.Is(err, sql.ErrNoRows) {
		return nil, err
	}
	err = tx.QueryRowContext(ctx, "SELECT coalesce(max(last_seq), 0) + 1 FROM carrier_threads WHERE recipient = $1 AND thread = $2",
		m.To, m.Thread).Scan(&numbered.Seq)
	return &numbered, err
}

// numbered notes that the number of a message is taken.
func (e *Engine) numbered(ctx context.Context, tx *sql.Tx, s *sealed) error {
	if s.Seq == 0 || !orderedTypes[s.Type] {
		return nil
	}
	_, err := tx.ExecContext(ctx, `INSERT INTO carrier_threads (recipient, thread, last_seq, keep_until) VALUES ($1, $2, $3, $4)
		ON CONFLICT (recipient, thread) DO UPDATE SET
		last_seq = CASE WHEN excluded.last_seq > carrier_threads.last_seq THEN excluded.last_seq ELSE carrier_threads.last_seq END,
		keep_until = CASE WHEN excluded.keep_until > carrier_threads.keep_until THEN excluded.keep_until ELSE carrier_threads.keep_until END`,
		s.To, s.Thread, s.Seq, s.ExpiresAt.Add(e.opts.Keep).Unix())
	return err
}

// hold keeps a numbered message from Handle while the one before it is not
// settled, for holdTime at most. The first of a thread, unnumbered ones and
// those of a thread in which too many wait are not held.
func (e *Engine) hold(ctx context.Context, tx *sql.Tx, in *Incoming, now time.Time) error {
	m := in.Message
	if m.Seq <= 1 {
		return nil
	}
	var settled, held int
	err := tx.QueryRowContext(ctx, `SELECT coalesce(sum(CASE WHEN thread_seq = $1 AND state IN ('done', 'failed') THEN 1 ELSE 0 END), 0),
		coalesce(sum(CASE WHEN state = 'pending' AND due_ms > 0 AND attempts = 0 THEN 1 ELSE 0 END), 0)
		FROM carrier_inbox WHERE sender = $2 AND thread = $3 AND thread_seq > 0`, m.Seq-1, in.Sender, m.Thread).Scan(&settled, &held)
	if err != nil || settled > 0 || held >= maxHeld {
		return err
	}
	until := earlier(now.Add(holdTime), m.ExpiresAt.Add(-5*time.Second))
	_, err = tx.ExecContext(ctx, "UPDATE carrier_inbox SET due_ms = $1 WHERE seq = $2", until.UnixMilli(), in.Seq)
	e.metrics.held.Inc()
	return err
}

// releaseNext ends the wait for a message that was settled.
func releaseNext(ctx context.Context, tx *sql.Tx, in *Incoming) error {
	if in.Message.Seq == 0 {
		return nil
	}
	_, err := tx.ExecContext(ctx, `UPDATE carrier_inbox SET due_ms = 0
		WHERE sender = $1 AND thread = $2 AND thread_seq = $3 AND state = 'pending' AND attempts = 0`,
		in.Sender, in.Message.Thread, in.Message.Seq+1)
	return err
}

// before finds the message that must be handled before a due one whose wait
// was given up: the lowest number of its thread that has not been tried.
func before(ctx context.Context, tx *sql.Tx, seq int64) (int64, error) {
	var sender, thread string
	var number int64
	err := tx.QueryRowContext(ctx, "SELECT sender, thread, thread_seq FROM carrier_inbox WHERE seq = $1", seq).Scan(&sender, &thread, &number)
	if err != nil || number == 0 {
		return seq, err
	}
	first := seq
	err = tx.QueryRowContext(ctx, `SELECT seq FROM carrier_inbox WHERE sender = $1 AND thread = $2 AND thread_seq > 0 AND thread_seq < $3
		AND state = 'pending' AND attempts = 0 ORDER BY thread_seq, seq LIMIT 1`, sender, thread, number).Scan(&first)
	if errors.Is(err, sql.ErrNoRows) {
		return seq, nil
	}
	return first, err
}
