package carrier

import (
	"context"
	"database/sql"
	"maps"
	"sync"
	"time"
)

// dispatchBatch is how many due messages are looked up at a time for each
// sender. It is small, so that what comes in a better lane does not wait long.
const dispatchBatch = 2

// dispatchLoop sends what is due until ctx ends.
func (e *Engine) dispatchLoop(ctx context.Context) {
	var group sync.WaitGroup
	defer group.Wait()
	slots := make(chan struct{}, e.opts.Senders)
	for ctx.Err() == nil {
		due, next, err := e.dueMessages(ctx)
		if err != nil && ctx.Err() == nil {
			e.logger.WarnContext(ctx, "reading the outbox", "err", err)
			next = e.now().Add(storagePause)
		}
		for _, seq := range due {
			if !e.claim(seq) {
				continue
			}
			select {
			case slots <- struct{}{}:
			case <-ctx.Done():
				e.unclaim(seq)
				return
			}
			group.Go(func() {
				defer func() { <-slots }()
				e.attempt(ctx, seq)
				wake(e.wakeOut)
			})
		}
		e.waitFor(ctx, e.wakeOut, next)
	}
}

// flush sends every waiting message once and returns when all have been tried.
func (e *Engine) flush(ctx context.Context) error {
	var waiting []int64
	err := e.db.View(ctx, func(ctx context.Context, tx *sql.Tx) error {
		rows, err := tx.QueryContext(ctx, `SELECT seq FROM carrier_outbox
			WHERE due_ms IS NOT NULL AND (due_ms <= $1 OR state = 'queued') ORDER BY lane, due_ms`, e.now().UnixMilli())
		if err != nil {
			return err
		}
		waiting, err = scanAll(rows, scanSeq)
		return err
	})
	if err != nil {
		return err
	}
	var group sync.WaitGroup
	slots := make(chan struct{}, e.opts.Senders)
	for _, seq := range waiting {
		if !e.claim(seq) {
			continue
		}
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			e.attempt(ctx, seq)
		})
	}
	group.Wait()
	return ctx.Err()
}

// claim reserves a message for one sender at a time.
func (e *Engine) claim(seq int64) bool {
	e.sendMu.Lock()
	defer e.sendMu.Unlock()
	if e.inFlight[seq] {
		return false
	}
	e.inFlight[seq] = true
	return true
}

func (e *Engine) unclaim(seq int64) {
	e.sendMu.Lock()
	defer e.sendMu.Unlock()
	delete(e.inFlight, seq)
}

func (e *Engine) claimed() map[int64]bool {
	e.sendMu.Lock()
	defer e.sendMu.Unlock()
	return maps.Clone(e.inFlight)
}

// dueMessages returns messages that are due and not being sent, and when the
// first of the others is due; zero when there is none.
func (e *Engine) dueMessages(ctx context.Context) (due []int64, next time.Time, err error) {
	now := e.now().UnixMilli()
	claimed := e.claimed()
	err = e.db.View(ctx, func(ctx context.Context, tx *sql.Tx) (err error) {
		if due, err = dueInLanes(ctx, tx, now, dispatchBatch*e.opts.Senders, claimed); err != nil {
			return err
		}
		var ms sql.NullInt64
		err = tx.QueryRowContext(ctx, "SELECT min(due_ms) FROM carrier_outbox WHERE due_ms > $1", now).Scan(&ms)
		next = milliTime(ms.Int64)
		return err
	})
	return due, next, err
}

func scanSeq(rows *sql.Rows) (seq int64, err error) {
	err = rows.Scan(&seq)
	return seq, err
}
