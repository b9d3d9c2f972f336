package carrier

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/parleykit/parley/protocol/canonical"
	"github.com/parleykit/parley/protocol/envelope"
	"github.com/parleykit/parley/protocol/message"
)

// keepAfterExpiry is how long the keys of a received message outlive it, so
// that no late copy is taken for a new message, nor any copy after a clock was
// two days ahead.
const keepAfterExpiry = 72 * time.Hour

// Incoming is one received message: verified, stored, not yet processed.
type Incoming struct {
	Seq        int64            // of its inbox row; 0 while the engine decides whether to store it
	Sender     string           // key that sealed it, hex; equal to Message.From
	Scheme     string           // of the carrier that brought it first
	ReceivedAt time.Time        // to the second
	Stranger   bool             // neither contact nor member: taken by Options.Stranger
	Message    *message.Message // not to be changed
}

// arrival is a message on its way into the inbox.
type arrival struct {
	Incoming
	wraps   []string // ids of the wraps that carried it
	trusted bool     // of a contact, a member or this agent itself
	now     time.Time
}

// receipt is what a transaction made of a wrap.
type receipt struct {
	result  string // label of the received counter
	changes []Change
	keep    bool // something was stored, so the cursor may be
}

// handler is what a carrier of the scheme gives its wraps to.
func (e *Engine) handler(scheme string) Handler {
	return func(ctx context.Context, wrap []byte, next Cursor) error {
		if len(next) > MaxCursor {
			return fmt.Errorf("%w: %w", ErrPermanent, errCursor)
		}
		if len(wrap) == 0 {
			return e.db.Write(ctx, func(ctx context.Context, tx *sql.Tx) error { return saveCursor(ctx, tx, scheme, next) })
		}
		receive := e.receive
		if IsFrame(wrap) {
			receive = e.receiveFrame
		}
		result, err := receive(ctx, scheme, wrap, next)
		if err != nil {
			return fmt.Errorf("storing a received wrap: %w", err)
		}
		e.metrics.received.WithLabelValues(scheme, result).Inc()
		return nil
	}
}

// receive verifies one wrap and stores what it holds. The error is one of
// storage; what is wrong with the wrap is in the result.
func (e *Engine) receive(ctx context.Context, scheme string, wrap []byte, next Cursor) (string, error) {
	if id, ok := wrapID(wrap); ok {
		if known, err := e.known(ctx, id, scheme); known || err != nil {
			return resultDuplicate, err
		}
	}
	now := e.now()
	opened, err := envelope.Open(wrap, e.keyer, now)
	if err != nil {
		e.logger.DebugContext(ctx, "wrap refused", "scheme", scheme, "err", err)
		return envelope.Reason(err), nil
	}
	if e.probes.arrived(opened, scheme) {
		return resultProbe, nil
	}
	var got receipt
	err = e.db.Write(ctx, func(ctx context.Context, tx *sql.Tx) (err error) {
		if got, err = e.store(ctx, tx, scheme, opened, now); err != nil || !got.keep {
			return err
		}
		return saveCursor(ctx, tx, scheme, next)
	})
	if err != nil {
		wake(e.wakeIn) // it may be stored although its commit was not answered
		wake(e.wakeOut)
		return "", err
	}
	e.changes.send(got.changes...)
	if got.keep {
		wake(e.wakeIn)
		wake(e.wakeOut)
	}
	return got.result, nil
}

// wrapID reads the id where the exact bytes of a wrap have it. Nothing is
// proven by it: it only finds wraps that were verified before.
func wrapID(wrap []byte) (string, bool) {
	const prefix, hexLen = `{"id":"`, 64
	if len(wrap) < len(prefix)+hexLen || string(wrap[:len(prefix)]) != prefix {
		return "", false
	}
	id := string(wrap[len(prefix) : len(prefix)+hexLen])
	return id, canonical.IsHex(id, hexLen/2)
}

// known reports whether a wrap was dealt with before, and repeats the ack of
// its message where that is due.
func (e *Engine) known(ctx context.Context, id, scheme string) (known bool, err error) {
	var sender, messageID string
	var due bool
	err = e.db.View(ctx, func(ctx context.Context, tx *sql.Tx) error {
		err := tx.QueryRowContext(ctx, "SELECT sender, message_id FROM carrier_wraps WHERE wrap_id = $1", id).Scan(&sender, &messageID)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		known = true
		seq, err := dueAck(ctx, tx, sender, messageID, scheme, e.now())
		due = seq > 0
		return err
	})
	if err != nil || !due {
		return known, err
	}
	err = e.db.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		return repeatAck(ctx, tx, sender, messageID, scheme, e.now())
	})
	wake(e.wakeOut)
	return known, err
}

// store is the transaction of one verified wrap.
func (e *Engine) store(ctx context.Context, tx *sql.Tx, scheme string, opened *envelope.Opened, now time.Time) (receipt, error) {
	var twice int
	err := tx.QueryRowContext(ctx, "SELECT count(*) FROM carrier_wraps WHERE wrap_id = $1", opened.WrapID).Scan(&twice)
	if err != nil || twice > 0 {
		return receipt{result: resultDuplicate}, err
	}
	m, wraps := opened.Message, []string{opened.WrapID}
	if opened.Part != nil {
		var got receipt
		if m, wraps, got, err = e.takePart(ctx, tx, opened, now); m == nil || err != nil {
			return got, err
		}
	}
	in := &arrival{wraps: wraps, now: now, Incoming: Incoming{
		Sender: opened.Sender, Scheme: scheme, ReceivedAt: now.UTC().Truncate(time.Second), Message: m,
	}}
	if in.trusted, err = e.trusts(ctx, tx, in.Sender, m); err != nil {
		return receipt{}, err
	}
	if message.Types[m.Type].Unanswered {
		return e.takeAnswer(ctx, tx, in)
	}
	return e.take(ctx, tx, in)
}

// trusts reports whether messages of the sender are acknowledged and processed.
func (e *Engine) trusts(ctx context.Context, tx *sql.Tx, sender string, m *message.Message) (bool, error) {
	contact, err := e.IsContact(ctx, tx, sender)
	if contact || err != nil {
		return contact, err
	}
	return e.opts.IsMember != nil && e.opts.IsMember(ctx, tx, sender, m), nil
}

// take stores a message, of a trusted sender for processing, of a stranger in
// the request box.
func (e *Engine) take(ctx context.Context, tx *sql.Tx, in *arrival) (receipt, error) {
	known, err := inboxHas(ctx, tx, in.Sender, in.Message.ID)
	if err != nil {
		return receipt{}, err
	}
	if known {
		return e.takeAgain(ctx, tx, in)
	}
	data, err := in.Message.Encode()
	if err != nil {
		return receipt{}, err
	}
	state := StatePending
	if !in.trusted {
		in.Stranger = true
		if e.opts.Stranger == nil || !e.opts.Stranger(ctx, &in.Incoming) {
			state = StateRequest
		}
		fits, err := e.requestFits(ctx, tx, in, state, len(data))
		if err != nil || !fits {
			return receipt{result: resultRequestFull}, err
		}
	}
	if err := insertInbox(ctx, tx, in, state, data); err != nil {
		return receipt{}, err
	}
	if err := keepWraps(ctx, tx, in); err != nil {
		return receipt{}, err
	}
	got := receipt{result: resultStored, keep: true}
	if state == StateRequest {
		got.result = resultRequest
	}
	if in.trusted {
		if state, err = e.admit(ctx, tx, &in.Incoming, in.now); err != nil {
			return receipt{}, err
		}
	}
	got.changes = []Change{inboxChange(&in.Incoming, state)}
	if in.trusted {
		change, err := e.takeResult(ctx, tx, in)
		if err != nil {
			return receipt{}, err
		}
		if change != nil {
			got.changes = append(got.changes, *change)
		}
	}
	return got, nil
}

// takeAgain deals with a known message in a new wrap.
func (e *Engine) takeAgain(ctx context.Context, tx *sql.Tx, in *arrival) (receipt, error) {
	got := receipt{result: resultDuplicate}
	if !in.trusted {
		return got, nil // a stranger does not get a row for each wrap
	}
	got.keep = true
	if err := keepWraps(ctx, tx, in); err != nil {
		return got, err
	}
	return got, repeatAck(ctx, tx, in.Sender, in.Message.ID, in.Scheme, in.now)
}

// admit decides what becomes of a stored message of a trusted sender, and
// acknowledges it. A type nobody knows is answered with an error.
func (e *Engine) admit(ctx context.Context, tx *sql.Tx, in *Incoming, now time.Time) (State, error) {
	if err := e.queueAck(ctx, tx, in, now); err != nil {
		return "", err
	}
	if message.Known(in.Message.Type) {
		if err := setInbox(ctx, tx, in.Seq, StatePending, ""); err != nil {
			return "", err
		}
		return StatePending, e.hold(ctx, tx, in, now)
	}
	body := message.Error{ID: in.Message.ID, Code: "unknown_type", Detail: "this agent does not know messages of this type"}
	if err := e.queueAnswer(ctx, tx, in, message.TypeError, body, now); err != nil {
		return "", err
	}
	if err := setInbox(ctx, tx, in.Seq, StateFailed, "unknown message type"); err != nil {
		return "", err
	}
	return StateFailed, releaseNext(ctx, tx, in)
}

func inboxHas(ctx context.Context, tx *sql.Tx, sender, messageID string) (bool, error) {
	var n int
	err := tx.QueryRowContext(ctx, "SELECT count(*) FROM carrier_inbox WHERE sender = $1 AND message_id = $2", sender, messageID).Scan(&n)
	return n > 0, err
}

func insertInbox(ctx context.Context, tx *sql.Tx, in *arrival, state State, data []byte) error {
	m := in.Message
	return tx.QueryRowContext(ctx, `INSERT INTO carrier_inbox
		(sender, message_id, type, thread, scheme, state, reason, stranger, received_at, expires_at, keep_until, due_ms, attempts, size, message, thread_seq)
		VALUES ($1, $2, $3, $4, $5, $6, '', $7, $8, $9, $10, 0, 0, $11, $12, $13) RETURNING seq`,
		in.Sender, m.ID, m.Type, m.Thread, in.Scheme, state, in.Stranger, in.ReceivedAt.Unix(), m.ExpiresAt.Unix(),
		m.ExpiresAt.Add(keepAfterExpiry).Unix(), len(data), data, m.Seq).Scan(&in.Seq)
}

func setInbox(ctx context.Context, tx *sql.Tx, seq int64, state State, reason string) error {
	_, err := tx.ExecContext(ctx, "UPDATE carrier_inbox SET state = $1, reason = $2 WHERE seq = $3", state, reason, seq)
	return err
}

// keepWraps remembers the wraps of a message until three days after its expiry.
func keepWraps(ctx context.Context, tx *sql.Tx, in *arrival) error {
	until := in.Message.ExpiresAt.Add(keepAfterExpiry + time.Hour).Unix() // a wrap's own expiration is rounded up to the hour
	for _, id := range in.wraps {
		if err := keepWrap(ctx, tx, id, in.Sender, in.Message.ID, until); err != nil {
			return err
		}
	}
	return nil
}

func keepWrap(ctx context.Context, tx *sql.Tx, id, sender, messageID string, until int64) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO carrier_wraps (wrap_id, sender, message_id, keep_until) VALUES ($1, $2, $3, $4)
		ON CONFLICT (wrap_id) DO UPDATE SET message_id = excluded.message_id, keep_until = excluded.keep_until`, id, sender, messageID, until)
	return err
}

func (e *Engine) cursor(ctx context.Context, scheme string) (cursor Cursor, err error) {
	err = e.db.View(ctx, func(ctx context.Context, tx *sql.Tx) error {
		err := tx.QueryRowContext(ctx, "SELECT cursor FROM carrier_cursors WHERE scheme = $1", scheme).Scan(&cursor)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		return err
	})
	return cursor, err
}

func saveCursor(ctx context.Context, tx *sql.Tx, scheme string, cursor Cursor) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO carrier_cursors (scheme, cursor) VALUES ($1, $2)
		ON CONFLICT (scheme) DO UPDATE SET cursor = excluded.cursor`, scheme, cursor)
	return err
}

func inboxChange(in *Incoming, state State) Change {
	return Change{Box: BoxInbox, Seq: in.Seq, Peer: in.Sender, MessageID: in.Message.ID, Type: in.Message.Type, State: state}
}
