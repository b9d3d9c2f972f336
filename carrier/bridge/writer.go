package bridge

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/parleykit/parley/carrier"
)

// scanPeriod is how often the table is compared with the queue in memory: a holder
// that had lost its lease may have stored an item since.
const scanPeriod = time.Minute

// scanPage is how many rows of the queue are read at a time.
const scanPage = 5000

// scan adds what waits in the table to the queue.
func (d *direction) scan(ctx context.Context) error {
	for after := int64(0); ; {
		page, err := d.scanAfter(ctx, after)
		if err != nil {
			return fmt.Errorf("reading the queue: %w", err)
		}
		for _, w := range page {
			d.queue.add(w)
			after = w.seq
		}
		if len(page) < scanPage {
			d.gauge()
			return nil
		}
	}
}

// rescan scans now and then.
func (d *direction) rescan(ctx context.Context) {
	for pause(ctx, scanPeriod) {
		if err := d.scan(ctx); err != nil && ctx.Err() == nil {
			d.logger.WarnContext(ctx, "comparing the queue", "err", err)
		}
	}
}

func (d *direction) scanAfter(ctx context.Context, after int64) (page []*waiting, err error) {
	err = d.db.View(ctx, func(ctx context.Context, tx *sql.Tx) error {
		page = nil
		rows, err := tx.QueryContext(ctx, `SELECT seq, lane, attempts, due_ms, size FROM bridge_items
			WHERE bridge = $1 AND direction = $2 AND state = 'queued' AND seq > $3 ORDER BY seq LIMIT $4`, d.opts.Name, d.name, after, scanPage)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			w := new(waiting)
			if err := rows.Scan(&w.seq, &w.lane, &w.attempts, &w.due, &w.size); err != nil {
				return err
			}
			page = append(page, w)
		}
		return rows.Err()
	})
	return page, err
}

// drain writes what is due until ctx ends, of each recipient one at a time and in order.
func (d *direction) drain(ctx context.Context) {
	slots := make(chan struct{}, d.opts.Window)
	var group sync.WaitGroup
	defer group.Wait()
	for ctx.Err() == nil {
		free := acquire(ctx, slots)
		batch := d.queue.take(ctx, free)
		for range free - len(batch) {
			<-slots
		}
		events, err := d.load(ctx, batch)
		if err != nil && ctx.Err() == nil {
			d.logger.WarnContext(ctx, "reading the queue", "err", err)
		}
		for _, w := range batch {
			group.Go(func() {
				defer func() { <-slots }()
				if err != nil {
					d.queue.again(w, d.opts.Now().Add(time.Second).UnixMilli())
					return
				}
				d.deliver(ctx, w, events[w.seq])
			})
		}
	}
}

// acquire waits for one slot and takes all that are free.
func acquire(ctx context.Context, slots chan struct{}) (n int) {
	select {
	case slots <- struct{}{}:
	case <-ctx.Done():
		return 0
	}
	for n = 1; ; n++ {
		select {
		case slots <- struct{}{}:
		default:
			return n
		}
	}
}

// stored is an item's row.
type stored struct {
	event   []byte
	expires time.Time
}

// load reads the events of items; one that was erased since is not among them.
func (d *direction) load(ctx context.Context, batch []*waiting) (map[int64]stored, error) {
	events := make(map[int64]stored, len(batch))
	if len(batch) == 0 {
		return events, nil
	}
	marks, seqs := make([]string, len(batch)), make([]any, len(batch))
	for i, w := range batch {
		marks[i], seqs[i] = fmt.Sprintf("$%d", i+1), w.seq
	}
	query := "SELECT seq, keep_until, event FROM bridge_items WHERE state = 'queued' AND seq IN (" + strings.Join(marks, ", ") + ")"
	err := d.db.View(ctx, func(ctx context.Context, tx *sql.Tx) error {
		rows, err := tx.QueryContext(ctx, query, seqs...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var seq, keep int64
			var s stored
			if err := rows.Scan(&seq, &keep, &s.event); err != nil {
				return err
			}
			s.expires = time.Unix(keep, 0).Add(-keepAfterExpiry)
			events[seq] = s
		}
		return rows.Err()
	})
	return events, err
}

// outcome is what became of a try.
type outcome struct {
	state, result, reason string
	due                   int64 // of the next try, in unix milliseconds
}

// deliver writes one item and notes what came of it. The next of its recipient follows
// before the note is stored, which only the window waits for.
func (d *direction) deliver(ctx context.Context, w *waiting, s stored) {
	if len(s.event) == 0 {
		d.queue.next(w)
		d.queue.forget(w)
		return
	}
	o, err := d.try(ctx, w, s)
	if ctx.Err() != nil && err != nil {
		return // it is still due
	}
	if o.state == stateQueued {
		defer d.queue.again(w, o.due)
	} else {
		d.queue.next(w)
	}
	// A write that was made is noted even when ctx has ended since.
	noting, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := d.conclude(noting, w.seq, o); err != nil {
		d.logger.WarnContext(ctx, "noting a write; it will be repeated", "err", err)
	} else {
		d.note(o.result)
	}
	if o.state != stateQueued {
		d.queue.forget(w)
		d.gauge()
	}
}

// try writes one item. Its error is that of the side.
func (d *direction) try(ctx context.Context, w *waiting, s stored) (outcome, error) {
	now := d.opts.Now()
	item, err := storedItem(s.event, s.expires)
	if err != nil {
		return outcome{state: stateDead, result: resultDead, reason: "not readable"}, nil
	}
	if !item.Expires.After(now) {
		return outcome{state: stateDead, result: resultExpired, reason: "expired"}, nil
	}
	writing, cancel := context.WithTimeout(ctx, d.opts.WriteTimeout)
	defer cancel()
	err = d.to.Write(writing, item)
	var limited *carrier.RateLimited
	switch {
	case err == nil:
		return outcome{state: stateSent, result: resultSent}, nil
	case errors.Is(err, carrier.ErrPermanent):
		d.logger.WarnContext(ctx, "item refused", "side", d.to.Name(), "id", item.ID, "err", err)
		return outcome{state: stateDead, result: resultDead, reason: "refused"}, err
	case errors.As(err, &limited) && limited.After > 0:
		until := now.Add(min(limited.After, time.Hour))
		d.queue.pauseUntil(until)
		return outcome{state: stateQueued, result: resultRetry, due: until.UnixMilli()}, err
	}
	d.logger.DebugContext(ctx, "item not written", "side", d.to.Name(), "id", item.ID, "err", err)
	return outcome{state: stateQueued, result: resultRetry, due: now.Add(d.opts.Retry.Delay(w.attempts)).UnixMilli()}, err
}

// conclude stores an outcome. What was sent stays so whoever holds the lease; all else
// is for its holder to say.
func (d *direction) conclude(ctx context.Context, seq int64, o outcome) error {
	return d.db.Write(ctx, func(ctx context.Context, tx *sql.Tx) (err error) {
		switch o.state {
		case stateSent:
			_, err = tx.ExecContext(ctx, "UPDATE bridge_items SET state = 'sent', event = $1 WHERE seq = $2 AND state = 'queued'", []byte{}, seq)
		case stateDead:
			_, err = tx.ExecContext(ctx, `UPDATE bridge_items SET state = 'dead', reason = $1, event = $2 WHERE seq = $3 AND state = 'queued'
				AND EXISTS (SELECT 1 FROM bridge_leases WHERE bridge = $4 AND holder = $5)`, o.reason, []byte{}, seq, d.opts.Name, d.holding())
		default:
			_, err = tx.ExecContext(ctx, `UPDATE bridge_items SET due_ms = $1, attempts = attempts + 1 WHERE seq = $2 AND state = 'queued'
				AND EXISTS (SELECT 1 FROM bridge_leases WHERE bridge = $3 AND holder = $4)`, o.due, seq, d.opts.Name, d.holding())
		}
		return err
	})
}

// States of items.
const (
	stateQueued = "queued"
	stateSent   = "sent"
	stateDead   = "dead"
)
