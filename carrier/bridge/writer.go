package bridge

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"time"

	"github.com/parleykit/parley/carrier"
)

// queuedItem is a stored item and how often its write failed.
type queuedItem struct {
	seq      int64
	lane     string
	attempts int
	event    []byte
}

// drain writes what is due, of each recipient one at a time and in order.
func (d *direction) drain(ctx context.Context) {
	window := make(chan struct{}, d.opts.Window)
	var group sync.WaitGroup
	defer group.Wait()
	var mu sync.Mutex
	busy := make(map[string]bool)
	finished := make(map[int64]bool) // since due was read, which may still name them
	for ctx.Err() == nil {
		mu.Lock()
		clear(finished)
		mu.Unlock()
		due, err := d.due(ctx)
		if err != nil && ctx.Err() == nil {
			d.logger.WarnContext(ctx, "reading the queue", "err", err)
		}
		for _, q := range due {
			mu.Lock()
			skip := busy[q.lane] || finished[q.seq]
			if !skip {
				busy[q.lane] = true
			}
			mu.Unlock()
			if skip {
				continue
			}
			window <- struct{}{}
			group.Go(func() {
				d.deliver(ctx, q)
				mu.Lock()
				delete(busy, q.lane)
				finished[q.seq] = true
				mu.Unlock()
				<-window
				select {
				case d.wake <- struct{}{}:
				default:
				}
			})
		}
		d.sleep(ctx)
	}
}

func (d *direction) sleep(ctx context.Context) {
	timer := time.NewTimer(time.Second)
	defer timer.Stop()
	select {
	case <-d.wake:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// due reads the first item of each recipient, if its time has come.
func (d *direction) due(ctx context.Context) (due []queuedItem, err error) {
	err = d.db.View(ctx, func(ctx context.Context, tx *sql.Tx) error {
		due = nil
		rows, err := tx.QueryContext(ctx, `SELECT seq, lane, attempts, event FROM bridge_items WHERE seq IN
			(SELECT min(seq) FROM bridge_items WHERE bridge = $1 AND direction = $2 AND state = 'queued' GROUP BY lane)
			AND due_ms <= $3 ORDER BY seq LIMIT $4`, d.opts.Name, d.name, d.opts.Now().UnixMilli(), 2*d.opts.Window)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var q queuedItem
			if err := rows.Scan(&q.seq, &q.lane, &q.attempts, &q.event); err != nil {
				return err
			}
			due = append(due, q)
		}
		return rows.Err()
	})
	return due, err
}

// deliver writes one item and notes what came of it.
func (d *direction) deliver(ctx context.Context, q queuedItem) {
	now := d.opts.Now()
	item, err := storedItem(q.event, now)
	state, result, reason, due := "sent", resultSent, "", int64(0)
	switch {
	case err != nil:
		state, result, reason = "dead", resultDead, "not readable"
	case !item.Expires.After(now):
		state, result, reason = "dead", resultExpired, "expired"
	default:
		writing, cancel := context.WithTimeout(ctx, d.opts.WriteTimeout)
		err = d.to.Write(writing, item)
		cancel()
		var limited *carrier.RateLimited
		switch {
		case err == nil:
		case errors.Is(err, carrier.ErrPermanent):
			state, result, reason = "dead", resultDead, "refused"
			d.logger.WarnContext(ctx, "item refused", "side", d.to.Name(), "id", item.ID, "err", err)
		case errors.As(err, &limited) && limited.After > 0:
			state, result, due = "queued", resultRetry, now.Add(min(limited.After, time.Hour)).UnixMilli()
		default:
			state, result, due = "queued", resultRetry, now.Add(d.opts.Retry.Delay(q.attempts)).UnixMilli()
		}
	}
	if ctx.Err() != nil && err != nil {
		return // it is still due
	}
	// A write that was made is noted even when ctx has ended since.
	noting, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := d.conclude(noting, q.seq, state, reason, due); err != nil {
		d.logger.WarnContext(ctx, "noting a write; it will be repeated", "err", err)
		return
	}
	d.note(result)
	if state != "queued" {
		d.add(-1, -int64(len(q.event)))
	}
}

func (d *direction) conclude(ctx context.Context, seq int64, state, reason string, due int64) error {
	return d.db.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if state == "queued" {
			_, err := tx.ExecContext(ctx, "UPDATE bridge_items SET due_ms = $1, attempts = attempts + 1 WHERE seq = $2", due, seq)
			return err
		}
		_, err := tx.ExecContext(ctx, "UPDATE bridge_items SET state = $1, reason = $2, event = $3 WHERE seq = $4", state, reason, []byte{}, seq)
		return err
	})
}
