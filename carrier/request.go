package carrier

import (
	"context"
	"database/sql"
	"time"
)

// requestFits reports whether a stranger's message is within the bounds: those
// of the request box, or, for what the application takes, the same numbers for
// each day.
func (e *Engine) requestFits(ctx context.Context, tx *sql.Tx, in *arrival, state State, size int) (bool, error) {
	since := int64(0)
	if state != StateRequest {
		since = in.now.Add(-24 * time.Hour).Unix()
	}
	var n, bytes, ofSender, bytesOfSender int64
	err := tx.QueryRowContext(ctx, `SELECT count(*), coalesce(sum(size), 0),
		coalesce(sum(CASE WHEN sender = $1 THEN 1 ELSE 0 END), 0), coalesce(sum(CASE WHEN sender = $1 THEN size ELSE 0 END), 0)
		FROM carrier_inbox WHERE stranger AND received_at > $2 AND (state IN ('request', 'rejected')) = $3`,
		in.Sender, since, state == StateRequest).Scan(&n, &bytes, &ofSender, &bytesOfSender)
	if err != nil {
		return false, err
	}
	l := e.opts.Limits
	return n < int64(l.Requests) && ofSender < int64(l.SenderRequests) &&
		bytes+int64(size) <= l.RequestBytes && bytesOfSender+int64(size) <= l.SenderBytes, nil
}

// Request is one stranger's place in the request box.
type Request struct {
	PubKey   string    `json:"pubkey"`   // hex
	Messages int       `json:"messages"` // that wait, at least 1
	First    time.Time `json:"first"`    // when the first of them was received
	Last     time.Time `json:"last"`
	Latest   *Message  `json:"latest"` // the newest of them
}

// Requests lists the strangers whose messages wait, the newest last.
func (e *Engine) Requests(ctx context.Context) ([]Request, error) {
	var requests []Request
	err := e.db.View(ctx, func(ctx context.Context, tx *sql.Tx) error {
		rows, err := tx.QueryContext(ctx, `SELECT sender, count(*), min(received_at), max(received_at), max(seq) FROM carrier_inbox
			WHERE state = 'request' AND expires_at > $1 GROUP BY sender ORDER BY max(seq)`, e.now().Unix())
		if err != nil {
			return err
		}
		latest, err := scanAll(rows, func(rows *sql.Rows) (int64, error) {
			var r Request
			var first, last, seq int64
			err := rows.Scan(&r.PubKey, &r.Messages, &first, &last, &seq)
			r.First, r.Last = unixTime(first), unixTime(last)
			requests = append(requests, r)
			return seq, err
		})
		if err != nil {
			return err
		}
		for i, seq := range latest {
			if requests[i].Latest, err = inboxMessage(ctx, tx, seq); err != nil {
				return err
			}
		}
		return nil
	})
	return requests, err
}

// Accept makes a contact of a stranger in the request box, acknowledges the
// messages that wait there and gives them to processing. ErrNotFound when none
// waits; AddContact does not mind that.
func (e *Engine) Accept(ctx context.Context, pubkey string) error {
	return e.changeContact(ctx, func(ctx context.Context, tx *sql.Tx) ([]Change, error) {
		var n int
		err := tx.QueryRowContext(ctx, "SELECT count(*) FROM carrier_inbox WHERE sender = $1 AND state = 'request'", pubkey).Scan(&n)
		if err != nil {
			return nil, err
		}
		if n == 0 {
			return nil, ErrNotFound
		}
		_, err = tx.ExecContext(ctx, `INSERT INTO carrier_contacts (pubkey, name, note, added_at) VALUES ($1, '', '', $2)
			ON CONFLICT (pubkey) DO NOTHING`, pubkey, e.now().Unix())
		if err != nil {
			return nil, err
		}
		return e.release(ctx, tx, pubkey)
	})
}

// Reject puts a stranger's waiting messages aside, without telling the
// stranger. They still count for the bounds until they expire. ErrNotFound
// when none waits.
func (e *Engine) Reject(ctx context.Context, pubkey string) error {
	var changes []Change
	err := e.db.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		changes = nil
		waiting, err := waitingRequests(ctx, tx, pubkey)
		if err != nil {
			return err
		}
		if len(waiting) == 0 {
			return ErrNotFound
		}
		for _, in := range waiting {
			if err := setInbox(ctx, tx, in.Seq, StateRejected, ""); err != nil {
				return err
			}
			changes = append(changes, inboxChange(in, StateRejected))
		}
		return nil
	})
	if err == nil {
		e.changes.send(changes...)
	}
	return err
}

// release acknowledges what waits of a new contact and hands it to processing.
func (e *Engine) release(ctx context.Context, tx *sql.Tx, pubkey string) ([]Change, error) {
	waiting, err := waitingRequests(ctx, tx, pubkey)
	if err != nil {
		return nil, err
	}
	var changes []Change
	now := e.now()
	for _, in := range waiting {
		if !now.Before(in.Message.ExpiresAt.Time) {
			continue
		}
		state, err := e.admit(ctx, tx, in, now)
		if err != nil {
			return nil, err
		}
		if _, err := tx.ExecContext(ctx, "UPDATE carrier_inbox SET stranger = FALSE WHERE seq = $1", in.Seq); err != nil {
			return nil, err
		}
		changes = append(changes, inboxChange(in, state))
	}
	return changes, nil
}

func waitingRequests(ctx context.Context, tx *sql.Tx, pubkey string) ([]*Incoming, error) {
	rows, err := tx.QueryContext(ctx, incomingColumns+" WHERE sender = $1 AND state = 'request' ORDER BY seq", pubkey)
	if err != nil {
		return nil, err
	}
	return scanAll(rows, scanIncoming)
}
