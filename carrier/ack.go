package carrier

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/parleykit/parley/protocol/message"
)

// An ack is sent again when its message comes again, since it may have been
// lost, but seldom and not for ever: reading a relay anew brings every message
// of the last two days once more.
const (
	ackPause   = time.Minute
	maxAckSend = 5
)

// takeAnswer deals with an ack, a nack or an error: it changes the outbox row
// it names and is never answered. An error of a trusted sender also goes to
// the application. What names no message sent to its sender leaves no row.
func (e *Engine) takeAnswer(ctx context.Context, tx *sql.Tx, in *arrival) (receipt, error) {
	matched, change, err := e.applyAnswer(ctx, tx, in)
	if err != nil || !matched {
		return receipt{result: resultUnmatched}, err
	}
	if !in.trusted && change == nil {
		return receipt{result: resultAnswer}, nil // whoever was written to once does not get a row for each answer
	}
	got := receipt{result: resultAnswer, keep: true}
	if in.Message.Type == message.TypeError && in.trusted {
		if got, err = e.takeError(ctx, tx, in); err != nil {
			return got, err
		}
	}
	if change != nil {
		got.changes = append(got.changes, *change)
	}
	return got, keepWraps(ctx, tx, in)
}

// takeError puts an error from a trusted sender into the inbox, once.
func (e *Engine) takeError(ctx context.Context, tx *sql.Tx, in *arrival) (receipt, error) {
	known, err := inboxHas(ctx, tx, in.Sender, in.Message.ID)
	if err != nil || known {
		return receipt{result: resultDuplicate, keep: true}, err
	}
	data, err := in.Message.Encode()
	if err != nil {
		return receipt{}, err
	}
	err = insertInbox(ctx, tx, in, StatePending, data)
	return receipt{result: resultAnswer, keep: true, changes: []Change{inboxChange(&in.Incoming, StatePending)}}, err
}

// applyAnswer finds the outbox row that an answer names and notes what it says.
func (e *Engine) applyAnswer(ctx context.Context, tx *sql.Tx, in *arrival) (matched bool, change *Change, err error) {
	id, reason, err := readAnswer(in.Message)
	if err != nil {
		return false, nil, nil //nolint:nilerr // Parse has checked the body; a broken one names nothing
	}
	if id == "" {
		var body message.Nack
		if err := message.DecodeBody(in.Message, &body); err != nil {
			return false, nil, nil //nolint:nilerr // the same
		}
		matched, err = e.applyNack(ctx, tx, in, body)
		return matched, nil, err
	}
	return e.settle(ctx, tx, in, id, reason)
}

// takeResult settles the request that a result answers: who answers it has it,
// although a venue acknowledges members only.
func (e *Engine) takeResult(ctx context.Context, tx *sql.Tx, in *arrival) (*Change, error) {
	if in.Message.Type != message.TypeAgreementResult {
		return nil, nil
	}
	var body message.AgreementResult
	if err := message.DecodeBody(in.Message, &body); err != nil {
		return nil, nil //nolint:nilerr // Parse has checked the body; a broken one names nothing
	}
	_, change, err := e.settle(ctx, tx, in, body.InReplyTo, "")
	return change, err
}

// settle notes in the outbox that the recipient has answered a message, or for
// a nack only why it could not be put together.
func (e *Engine) settle(ctx context.Context, tx *sql.Tx, in *arrival, id, reason string) (matched bool, change *Change, err error) {
	var seq, created int64
	var typ string
	var state State
	err = tx.QueryRowContext(ctx, "SELECT seq, type, state, created_at FROM carrier_outbox WHERE recipient = $1 AND message_id = $2",
		in.Sender, id).Scan(&seq, &typ, &state, &created)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil, nil
	}
	if err != nil {
		return false, nil, err
	}
	if in.Message.Type == message.TypeNack || state == StateAcked {
		if reason != "" {
			_, err = tx.ExecContext(ctx, "UPDATE carrier_outbox SET reason = $1 WHERE seq = $2", reason, seq)
		}
		return true, nil, err
	}
	_, err = tx.ExecContext(ctx, "UPDATE carrier_outbox SET state = $1, reason = $2, acked_at = $3, due_ms = NULL WHERE seq = $4",
		StateAcked, reason, in.now.Unix(), seq)
	if err == nil && in.Message.Type == message.TypeAck {
		e.metrics.acks.WithLabelValues("received").Inc()
		e.metrics.ackLag.Observe(float64(max(0, in.now.Unix()-created)))
		err = saveRoute(ctx, tx, in.Sender, seq, in.Scheme, in.now)
	}
	return true, &Change{Box: BoxOutbox, Seq: seq, Peer: in.Sender, MessageID: id, Type: typ, State: StateAcked}, err
}

// readAnswer returns the message an answer names and the reason it gives; the
// id is empty for a nack of parts.
func readAnswer(m *message.Message) (id, reason string, err error) {
	switch m.Type {
	case message.TypeAck:
		var body message.Ack
		err = message.DecodeBody(m, &body)
		return body.ID, "", err
	case message.TypeNack:
		var body message.Nack
		err = message.DecodeBody(m, &body)
		return body.ID, "recipient could not put it together: " + body.Reason, err
	default:
		var body message.Error
		err = message.DecodeBody(m, &body)
		return body.ID, "recipient answered: " + body.Code, err
	}
}

// queueAck acknowledges a stored message by the carrier that brought it.
func (e *Engine) queueAck(ctx context.Context, tx *sql.Tx, in *Incoming, now time.Time) error {
	e.metrics.acks.WithLabelValues("queued").Inc()
	return e.queueAnswer(ctx, tx, in, message.TypeAck, message.Ack{ID: in.Message.ID}, now)
}

// queueAnswer answers a message in its thread, by the carrier that brought it.
// The answer lives as long as what it answers.
func (e *Engine) queueAnswer(ctx context.Context, tx *sql.Tx, in *Incoming, typ string, body message.Body, now time.Time) error {
	ttl := min(in.Message.ExpiresAt.Sub(now), message.MaxLifetime)
	if ttl < 2*time.Second {
		return nil // it would expire on the way
	}
	m, err := message.New(typ, e.me, in.Sender, body, now, ttl)
	if err != nil {
		return err
	}
	m.Thread = in.Message.Thread
	_, err = e.enqueue(ctx, tx, m, route{scheme: in.Scheme, inReplyTo: in.Message.ID})
	return err
}

// otherPause is how soon an ack goes by another carrier than before, since the message
// came again by that one: the first may have gone.
const otherPause = time.Second

// dueAck finds the ack of a message that came again by a scheme, if it may be sent once
// more; 0 for none.
func dueAck(ctx context.Context, tx *sql.Tx, sender, messageID, scheme string, now time.Time) (seq int64, err error) {
	if messageID == "" {
		return 0, nil
	}
	err = tx.QueryRowContext(ctx, `SELECT seq FROM carrier_outbox
		WHERE recipient = $1 AND in_reply_to = $2 AND type = 'ack' AND state = 'sent' AND due_ms IS NULL
			AND rounds < $3 AND (sent_ms <= $4 OR scheme <> $5 AND sent_ms <= $6) AND expires_at > $7 ORDER BY seq LIMIT 1`,
		sender, messageID, maxAckSend, now.Add(-ackPause).UnixMilli(), scheme, now.Add(-otherPause).UnixMilli(), now.Unix()).Scan(&seq)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return seq, err
}

// repeatAck sends the ack of a message that came again once more, by the carrier that
// brought it now, where that is due.
func repeatAck(ctx context.Context, tx *sql.Tx, sender, messageID, scheme string, now time.Time) error {
	seq, err := dueAck(ctx, tx, sender, messageID, scheme, now)
	if err != nil || seq == 0 {
		return err
	}
	_, err = tx.ExecContext(ctx, "UPDATE carrier_deliveries SET state = 'queued', wraps = 0, attempts = 0 WHERE state = 'sent' AND outbox_seq = $1", seq)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, "UPDATE carrier_outbox SET due_ms = sent_ms, scheme = $1 WHERE seq = $2", scheme, seq)
	return err
}
