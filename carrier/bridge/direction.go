package bridge

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/protocol/card"
)

// keepAfterExpiry is how much longer than its event an id is known.
const keepAfterExpiry = 3 * 24 * time.Hour

// Bounds of what one bridge remembers.
const (
	maxCards = 20_000    // versions
	maxIDs   = 1_000_000 // of events that were moved; the oldest are forgotten first
)

// direction moves from one side to the other.
type direction struct {
	*Bridge
	name     string
	from, to Side
	queue    *queue // of this holding of the lease
}

func newDirection(b *Bridge, name string, from, to Side) *direction {
	return &direction{Bridge: b, name: name, from: from, to: to}
}

func (d *direction) note(result string) { d.metrics.items.WithLabelValues(d.name, result).Inc() }

// gauge shows how much waits.
func (d *direction) gauge() {
	items, _ := d.queue.size()
	d.metrics.queued.WithLabelValues(d.name).Set(float64(items))
}

func (d *direction) full() bool {
	items, bytes := d.queue.size()
	return items >= d.opts.MaxQueue || bytes >= d.opts.MaxBytes
}

// read reads the side until ctx ends.
func (d *direction) read(ctx context.Context) {
	for failures := 0; ctx.Err() == nil; failures++ {
		cursor, err := d.cursor(ctx)
		if err == nil {
			err = d.from.Read(ctx, cursor, d.handle)
		}
		if ctx.Err() == nil {
			d.logger.WarnContext(ctx, "reading a side", "side", d.from.Name(), "err", err)
			pause(ctx, d.opts.Retry.Delay(failures))
		}
	}
}

func (d *direction) cursor(ctx context.Context) (cursor carrier.Cursor, err error) {
	err = d.db.View(ctx, func(ctx context.Context, tx *sql.Tx) error {
		err := tx.QueryRowContext(ctx, "SELECT cursor FROM bridge_cursors WHERE bridge = $1 AND direction = $2", d.opts.Name, d.name).Scan(&cursor)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		return err
	})
	return cursor, err
}

var errCursor = errors.New("bridge: cursor too long")

// handle stores what a side handed in. While the queue is full it waits, and
// so does the side.
func (d *direction) handle(ctx context.Context, data []byte, next carrier.Cursor) error {
	if len(next) > carrier.MaxCursor {
		return errCursor
	}
	for d.full() {
		if !pause(ctx, 50*time.Millisecond) {
			return context.Cause(ctx)
		}
	}
	judged, early, created := d.judge(data)
	var took intake
	err := d.db.Write(ctx, func(ctx context.Context, tx *sql.Tx) (err error) {
		took, err = d.take(ctx, tx, data, intake{result: judged, item: early, created: created})
		if err != nil {
			return err
		}
		return d.saveCursor(ctx, tx, next)
	})
	if err != nil {
		return err
	}
	if len(data) > 0 {
		d.note(took.result)
	}
	if took.result == resultQueued {
		d.queue.add(&waiting{seq: took.seq, lane: took.item.lane(), size: int64(len(took.item.Event))})
		d.gauge()
	}
	return nil
}

// intake is what became of what a side handed in.
type intake struct {
	result  string
	item    Item
	created int64
	seq     int64 // of its row
}

// take stores what is to be moved, if this process still holds the lease.
func (d *direction) take(ctx context.Context, tx *sql.Tx, data []byte, in intake) (_ intake, err error) {
	if err := d.checkLease(ctx, tx); err != nil {
		return in, err
	}
	if in.result == resultFrame {
		if in.result, in.item, in.created, err = d.takeFrame(ctx, tx, data); err != nil {
			return in, err
		}
	}
	if in.result == resultQueued {
		in.result, in.seq, err = d.store(ctx, tx, in.item, in.created)
	}
	return in, err
}

func (d *direction) judge(data []byte) (result string, item Item, created int64) {
	if len(data) == 0 {
		return "", item, 0
	}
	if carrier.IsFrame(data) {
		return resultFrame, item, 0
	}
	now := d.opts.Now()
	source, ok := d.from.(interface{ Verified() bool })
	item, created, err := parseItem(data, now, !ok || !source.Verified())
	switch {
	case err != nil:
		return resultInvalid, item, 0
	case !d.wanted(item):
		return resultUnwanted, item, 0
	case !item.Expires.After(now):
		return resultExpired, item, 0
	}
	return resultQueued, item, created
}

// takeFrame keeps a frame, and judges the event that it completes.
func (d *direction) takeFrame(ctx context.Context, tx *sql.Tx, data []byte) (result string, item Item, created int64, err error) {
	wrap, err := d.frames.Add(ctx, tx, "bridge "+d.opts.Name, data)
	switch {
	case errors.Is(err, carrier.ErrFrame):
		return resultInvalid, item, 0, nil
	case err != nil || wrap == nil:
		return resultFrame, item, 0, err
	}
	result, item, created = d.judge(wrap)
	return result, item, created, nil
}

func (d *direction) store(ctx context.Context, tx *sql.Tx, item Item, created int64) (result string, seq int64, err error) {
	if item.Kind == card.Kind {
		if result, err := d.storeVersion(ctx, tx, item, created); result != "" || err != nil {
			return result, 0, err
		}
	}
	err = tx.QueryRowContext(ctx, `INSERT INTO bridge_items (bridge, event_id, direction, state, reason, lane, due_ms, attempts, size, keep_until, event)
		VALUES ($1, $2, $3, 'queued', '', $4, 0, 0, $5, $6, $7) ON CONFLICT (bridge, event_id) DO NOTHING RETURNING seq`,
		d.opts.Name, item.ID, d.name, item.lane(), len(item.Event), item.Expires.Add(keepAfterExpiry).Unix(), item.Event).Scan(&seq)
	if errors.Is(err, sql.ErrNoRows) {
		return resultDuplicate, 0, nil
	}
	return resultQueued, seq, err
}

// storeVersion notes which version of a card is the newest; its result is why the card
// is not moved, empty when it is.
func (d *direction) storeVersion(ctx context.Context, tx *sql.Tx, item Item, created int64) (string, error) {
	result, err := tx.ExecContext(ctx, `INSERT INTO bridge_cards (bridge, pubkey, d, created_at, event_id) SELECT $1, $2, $3, $4, $5
		WHERE EXISTS (SELECT 1 FROM bridge_cards WHERE bridge = $1 AND pubkey = $2 AND d = $3)
			OR (SELECT count(*) FROM bridge_cards WHERE bridge = $1) < $6
		ON CONFLICT (bridge, pubkey, d) DO UPDATE SET created_at = excluded.created_at, event_id = excluded.event_id
		WHERE excluded.created_at > bridge_cards.created_at OR excluded.created_at = bridge_cards.created_at AND excluded.event_id < bridge_cards.event_id`,
		d.opts.Name, item.PubKey, item.D, created, item.ID, maxCards)
	if n, err := affected(result, err); err != nil || n > 0 {
		return "", err
	}
	var known int
	err = tx.QueryRowContext(ctx, "SELECT count(*) FROM bridge_cards WHERE bridge = $1 AND pubkey = $2 AND d = $3", d.opts.Name, item.PubKey, item.D).Scan(&known)
	if known == 0 {
		return resultUnwanted, err
	}
	return resultDuplicate, err
}

func affected(result sql.Result, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

func (d *direction) saveCursor(ctx context.Context, tx *sql.Tx, next carrier.Cursor) error {
	if next == "" {
		return nil
	}
	_, err := tx.ExecContext(ctx, `INSERT INTO bridge_cursors (bridge, direction, cursor) VALUES ($1, $2, $3)
		ON CONFLICT (bridge, direction) DO UPDATE SET cursor = excluded.cursor`, d.opts.Name, d.name, string(next))
	return err
}

// purge forgets ids whose time is over.
func (b *Bridge) purge(ctx context.Context) error {
	return b.db.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		now := b.opts.Now()
		_, err := tx.ExecContext(ctx, "DELETE FROM bridge_items WHERE bridge = $1 AND keep_until <= $2 AND state <> 'queued'", b.opts.Name, now.Unix())
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `DELETE FROM bridge_items WHERE bridge = $1 AND state <> 'queued' AND seq <=
			(SELECT seq FROM bridge_items WHERE bridge = $1 AND state <> 'queued' ORDER BY seq DESC LIMIT 1 OFFSET $2)`, b.opts.Name, maxIDs)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, "DELETE FROM bridge_cards WHERE bridge = $1 AND created_at <= $2", b.opts.Name, now.Add(-card.MaxLifetime).Unix())
		if err != nil {
			return err
		}
		return b.frames.Expire(ctx, tx)
	})
}
