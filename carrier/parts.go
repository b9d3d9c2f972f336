package carrier

import (
	"context"
	"database/sql"
	"time"

	"github.com/parleykit/parley/protocol/envelope"
	"github.com/parleykit/parley/protocol/message"
)

// partsLifetime is how long parts wait for the others.
const partsLifetime = 12 * time.Hour

// takePart keeps one part. When it was the last one missing, the message is
// returned with the ids of all its wraps, and the parts are gone.
func (e *Engine) takePart(ctx context.Context, tx *sql.Tx, opened *envelope.Opened, now time.Time) (*message.Message, []string, receipt, error) {
	contact, err := e.IsContact(ctx, tx, opened.Sender)
	if err != nil {
		return nil, nil, receipt{}, err
	}
	fits, err := e.partFits(ctx, tx, opened.Sender, contact)
	if err != nil || !fits {
		return nil, nil, receipt{result: resultPartsFull}, err
	}
	fresh, err := insertPart(ctx, tx, opened, contact, now)
	if err != nil {
		return nil, nil, receipt{}, err
	}
	if !fresh && !contact {
		return nil, nil, receipt{result: resultDuplicate}, nil // a stranger does not get a row for each wrap
	}
	parts, wraps, err := storedParts(ctx, tx, opened.Sender, opened.Part.Digest)
	if err != nil {
		return nil, nil, receipt{}, err
	}
	if len(parts) < opened.Part.Total {
		return nil, nil, receipt{result: resultPart, keep: true}, nil
	}
	if err := dropParts(ctx, tx, opened.Sender, opened.Part.Digest); err != nil {
		return nil, nil, receipt{}, err
	}
	m, joinErr := envelope.Join(parts, opened.Sender, e.me, now)
	if joinErr != nil {
		// Its sender made it so: the wraps of a contact are remembered, the parts
		// are not. A stranger's bounds count parts, so nothing of it may stay.
		if !contact {
			err = forgetWraps(ctx, tx, wraps)
		}
		return nil, nil, receipt{result: envelope.Reason(joinErr), keep: contact}, err
	}
	return m, wraps, receipt{}, forgetWraps(ctx, tx, wraps)
}

// partFits reports whether one more part of the sender is within the bounds.
// Strangers together get half of the room.
func (e *Engine) partFits(ctx context.Context, tx *sql.Tx, sender string, contact bool) (bool, error) {
	var all, strangers, strangerBytes, ofSender int64
	err := tx.QueryRowContext(ctx, `SELECT count(*), coalesce(sum(CASE WHEN stranger THEN 1 ELSE 0 END), 0),
		coalesce(sum(CASE WHEN stranger THEN length(slice) ELSE 0 END), 0),
		coalesce(sum(CASE WHEN sender = $1 THEN 1 ELSE 0 END), 0) FROM carrier_parts`, sender).Scan(&all, &strangers, &strangerBytes, &ofSender)
	if err != nil {
		return false, err
	}
	l := e.opts.Limits
	if contact {
		return all < int64(l.Parts) && ofSender < int64(l.ContactParts), nil
	}
	return all < int64(l.Parts) && strangers < int64(l.Parts/2) && strangerBytes < l.StrangerPartBytes &&
		ofSender < int64(l.StrangerParts), nil
}

// insertPart keeps the first of two parts with one number, for which it returns
// true. The wrap of the second is remembered only when it comes from a contact.
func insertPart(ctx context.Context, tx *sql.Tx, opened *envelope.Opened, contact bool, now time.Time) (fresh bool, err error) {
	p := opened.Part
	done, err := tx.ExecContext(ctx, `INSERT INTO carrier_parts (sender, digest, part, total, deflate, wrap_id, stranger, received_at, slice)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT (sender, digest, part) DO NOTHING`,
		opened.Sender, p.Digest, p.Index, p.Total, p.Deflate, opened.WrapID, !contact, now.Unix(), p.Slice)
	if err != nil {
		return false, err
	}
	n, err := done.RowsAffected()
	if err != nil || n == 0 && !contact {
		return false, err
	}
	return n > 0, keepWrap(ctx, tx, opened.WrapID, opened.Sender, "", opened.Expires.Add(keepAfterExpiry).Unix())
}

func storedParts(ctx context.Context, tx *sql.Tx, sender, digest string) (parts []*envelope.Part, wraps []string, err error) {
	rows, err := tx.QueryContext(ctx, `SELECT part, total, deflate, slice, wrap_id FROM carrier_parts
		WHERE sender = $1 AND digest = $2 ORDER BY part`, sender, digest)
	if err != nil {
		return nil, nil, err
	}
	wraps, err = scanAll(rows, func(rows *sql.Rows) (wrap string, err error) {
		p := &envelope.Part{Digest: digest}
		err = rows.Scan(&p.Index, &p.Total, &p.Deflate, &p.Slice, &wrap)
		parts = append(parts, p)
		return wrap, err
	})
	return parts, wraps, err
}

func dropParts(ctx context.Context, tx *sql.Tx, sender, digest string) error {
	_, err := tx.ExecContext(ctx, "DELETE FROM carrier_parts WHERE sender = $1 AND digest = $2", sender, digest)
	return err
}

// forgetWraps undoes keepWrap, so that wraps that led to no row can come again.
func forgetWraps(ctx context.Context, tx *sql.Tx, wraps []string) error {
	for _, id := range wraps {
		if _, err := tx.ExecContext(ctx, "DELETE FROM carrier_wraps WHERE wrap_id = $1", id); err != nil {
			return err
		}
	}
	return nil
}

// expireParts drops parts whose message did not get complete in time, with
// their wraps: a sender that tries again starts afresh.
func (e *Engine) expireParts(ctx context.Context, tx *sql.Tx, now time.Time) (int64, error) {
	before := now.Add(-partsLifetime).Unix()
	_, err := tx.ExecContext(ctx, `DELETE FROM carrier_wraps WHERE wrap_id IN
		(SELECT wrap_id FROM carrier_parts WHERE received_at <= $1)`, before)
	if err != nil {
		return 0, err
	}
	result, err := tx.ExecContext(ctx, "DELETE FROM carrier_parts WHERE received_at <= $1", before)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}
