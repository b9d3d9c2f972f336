package https

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"time"

	"github.com/parleykit/parley/internal/database"
	"github.com/parleykit/parley/internal/retention"
	"github.com/parleykit/parley/protocol/envelope"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Migrate adds the tables of this package, as New and NewMailbox do.
func Migrate(ctx context.Context, db *database.DB) error { return db.Migrate(ctx, "https", migrations) }

// Retention declares what a mailbox and a carrier store about others.
func Retention() []retention.Table {
	return []retention.Table{
		{
			Name: "https_envelopes", Holds: "sealed messages that wait for their recipient",
			Lifetime: "until the recipient deletes them or they expire, 32 days at most", Person: "recipient = $1",
		},
		{Name: "https_boxes", Holds: "how many wait for each recipient", Lifetime: "while something waits", Person: "recipient = $1"},
		{
			Name: "https_answers", Holds: "addresses that were asked whether they serve a recipient",
			Lifetime: "a week, a day where the answer was no", Person: "recipient = $1",
		},
	}
}

var errFull = errors.New("https: the recipient's box is full")

// waiting is one envelope in a box.
type waiting struct {
	seq  int64
	id   string
	wrap []byte
}

// put stores an envelope, once. errFull when the recipient's box has no room.
func (m *Mailbox) put(ctx context.Context, out envelope.Outside, wrap []byte) (added bool, err error) {
	err = m.db.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		added = false
		result, err := tx.ExecContext(ctx, `INSERT INTO https_envelopes (wrap_id, recipient, size, received_at, expires_at, wrap)
			VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (wrap_id) DO NOTHING`,
			out.ID, out.Recipient, len(wrap), m.now().Unix(), out.Expires.Unix(), wrap)
		if err != nil {
			return err
		}
		if n, err := result.RowsAffected(); n == 0 || err != nil {
			return err
		}
		var count, size int64
		err = tx.QueryRowContext(ctx, `INSERT INTO https_boxes (recipient, count, size) VALUES ($1, 1, $2)
			ON CONFLICT (recipient) DO UPDATE SET count = https_boxes.count + 1, size = https_boxes.size + excluded.size
			RETURNING count, size`, out.Recipient, len(wrap)).Scan(&count, &size)
		switch {
		case err != nil:
			return err
		case count > int64(m.opts.Quota) || size > m.opts.QuotaBytes:
			return errFull
		}
		added = true
		return m.db.Notify(ctx, tx, noticeChannel, out.Recipient)
	})
	return added, err
}

// page reads the oldest envelopes of a box, at most maxPage and pageBytes, but one.
func (m *Mailbox) page(ctx context.Context, recipient string, limit int) (list []waiting, err error) {
	err = m.db.View(ctx, func(ctx context.Context, tx *sql.Tx) error {
		list = nil
		rows, err := tx.QueryContext(ctx, `SELECT seq, wrap_id, wrap FROM https_envelopes
			WHERE recipient = $1 AND expires_at > $2 ORDER BY seq LIMIT $3`, recipient, m.now().Unix(), limit)
		if err != nil {
			return err
		}
		defer rows.Close()
		for size := 0; rows.Next() && (size < pageBytes || len(list) == 0); {
			var w waiting
			if err := rows.Scan(&w.seq, &w.id, &w.wrap); err != nil {
				return err
			}
			size += len(w.wrap)
			list = append(list, w)
		}
		return rows.Err()
	})
	return list, err
}

// remove deletes envelopes of a box by their ids and returns how many were there.
func (m *Mailbox) remove(ctx context.Context, recipient string, ids []string) (removed int64, err error) {
	err = m.db.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		removed = 0
		for _, id := range ids {
			n, err := removeWhere(ctx, tx, "wrap_id = $1 AND recipient = $2", id, recipient)
			if err != nil {
				return err
			}
			removed += n
		}
		return nil
	})
	return removed, err
}

// removeWhere deletes at most one envelope for each box total that it lowers.
func removeWhere(ctx context.Context, tx *sql.Tx, where string, args ...any) (int64, error) {
	var recipient string
	var size int64
	err := tx.QueryRowContext(ctx, "DELETE FROM https_envelopes WHERE "+where+" RETURNING recipient, size", args...).Scan(&recipient, &size)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	if _, err := tx.ExecContext(ctx, "UPDATE https_boxes SET count = count - 1, size = size - $1 WHERE recipient = $2", size, recipient); err != nil {
		return 0, err
	}
	_, err = tx.ExecContext(ctx, "DELETE FROM https_boxes WHERE recipient = $1 AND count <= 0", recipient)
	return 1, err
}

// purgeBatch is how many expired envelopes one transaction removes.
const purgeBatch = 200

// purge removes what has expired and returns how many.
func (m *Mailbox) purge(ctx context.Context) (purged int64, err error) {
	for {
		var removed int64
		err := m.db.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
			removed = 0
			ids, err := expired(ctx, tx, m.now())
			if err != nil {
				return err
			}
			for _, seq := range ids {
				n, err := removeWhere(ctx, tx, "seq = $1", seq)
				if err != nil {
					return err
				}
				removed += n
			}
			return nil
		})
		purged += removed
		if err != nil || removed < purgeBatch {
			return purged, err
		}
	}
}

func expired(ctx context.Context, tx *sql.Tx, now time.Time) (seqs []int64, err error) {
	rows, err := tx.QueryContext(ctx, "SELECT seq FROM https_envelopes WHERE expires_at <= $1 ORDER BY seq LIMIT $2", now.Unix(), purgeBatch)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var seq int64
		if err := rows.Scan(&seq); err != nil {
			return nil, err
		}
		seqs = append(seqs, seq)
	}
	return seqs, rows.Err()
}

// total is what waits in all boxes.
func (m *Mailbox) total(ctx context.Context) (count, size int64, err error) {
	err = m.db.View(ctx, func(ctx context.Context, tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, "SELECT coalesce(sum(count), 0), coalesce(sum(size), 0) FROM https_boxes").Scan(&count, &size)
	})
	return count, size, err
}
