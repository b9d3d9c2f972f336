package bridge

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"time"

	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/protocol/card"
)

// keepAfterExpiry is how much longer than its event an id is known.
const keepAfterExpiry = 3 * 24 * time.Hour

// direction moves from one side to the other.
type direction struct {
	*Bridge
	name     string
	from, to Side
	wake     chan struct{}

	mu    sync.Mutex
	items int
	bytes int64
}

func newDirection(b *Bridge, name string, from, to Side) *direction {
	return &direction{Bridge: b, name: name, from: from, to: to, wake: make(chan struct{}, 1)}
}

func (d *direction) note(result string) { d.metrics.items.WithLabelValues(d.name, result).Inc() }

// count learns what waits from an earlier run.
func (d *direction) count(ctx context.Context) error {
	return d.db.View(ctx, func(ctx context.Context, tx *sql.Tx) error {
		d.mu.Lock()
		defer d.mu.Unlock()
		err := tx.QueryRowContext(ctx, "SELECT count(*), coalesce(sum(size), 0) FROM bridge_items WHERE bridge = $1 AND direction = $2 AND state = 'queued'",
			d.opts.Name, d.name).Scan(&d.items, &d.bytes)
		d.metrics.queued.WithLabelValues(d.name).Set(float64(d.items))
		return err
	})
}

func (d *direction) add(items int, bytes int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.items += items
	d.bytes += bytes
	d.metrics.queued.WithLabelValues(d.name).Set(float64(d.items))
}

func (d *direction) full() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.items >= d.opts.MaxQueue || d.bytes >= d.opts.MaxBytes
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
	var stored string
	var item Item
	judged, early, created := d.judge(data)
	err := d.db.Write(ctx, func(ctx context.Context, tx *sql.Tx) (err error) {
		stored, item = judged, early
		at := created
		if stored == resultFrame {
			if stored, item, at, err = d.takeFrame(ctx, tx, data); err != nil {
				return err
			}
		}
		if stored == resultQueued {
			if stored, err = d.store(ctx, tx, item, at); err != nil {
				return err
			}
		}
		return d.saveCursor(ctx, tx, next)
	})
	if err != nil {
		return err
	}
	if len(data) > 0 {
		d.note(stored)
	}
	if stored == resultQueued {
		d.add(1, int64(len(item.Event)))
		select {
		case d.wake <- struct{}{}:
		default:
		}
	}
	return nil
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

func (d *direction) store(ctx context.Context, tx *sql.Tx, item Item, created int64) (string, error) {
	if item.Kind == card.Kind {
		result, err := tx.ExecContext(ctx, `INSERT INTO bridge_cards (bridge, pubkey, d, created_at, event_id) VALUES ($1, $2, $3, $4, $5)
			ON CONFLICT (bridge, pubkey, d) DO UPDATE SET created_at = excluded.created_at, event_id = excluded.event_id
			WHERE excluded.created_at > bridge_cards.created_at OR excluded.created_at = bridge_cards.created_at AND excluded.event_id < bridge_cards.event_id`,
			d.opts.Name, item.PubKey, item.D, created, item.ID)
		if n, err := affected(result, err); err != nil || n == 0 {
			return resultDuplicate, err
		}
	}
	result, err := tx.ExecContext(ctx, `INSERT INTO bridge_items (bridge, event_id, direction, state, reason, lane, due_ms, attempts, size, keep_until, event)
		VALUES ($1, $2, $3, 'queued', '', $4, 0, 0, $5, $6, $7) ON CONFLICT (bridge, event_id) DO NOTHING`,
		d.opts.Name, item.ID, d.name, item.lane(), len(item.Event), item.Expires.Add(keepAfterExpiry).Unix(), item.Event)
	if n, err := affected(result, err); err != nil || n == 0 {
		return resultDuplicate, err
	}
	return resultQueued, nil
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
		_, err = tx.ExecContext(ctx, "DELETE FROM bridge_cards WHERE bridge = $1 AND created_at <= $2", b.opts.Name, now.Add(-card.MaxLifetime).Unix())
		if err != nil {
			return err
		}
		return b.frames.Expire(ctx, tx)
	})
}
