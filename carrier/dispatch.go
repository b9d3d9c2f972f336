package carrier

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/parleykit/parley/internal/database"
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
		if e.shared { // what waits here for a sender another process may send at once
			due = due[:min(len(due), cap(slots)-len(slots))]
		}
		if err == nil {
			due, err = e.claim(ctx, due)
		}
		if err != nil && ctx.Err() == nil {
			e.logger.WarnContext(ctx, "reading the outbox", "err", err)
			next = e.now().Add(storagePause)
		}
		for i, seq := range due {
			select {
			case slots <- struct{}{}:
			case <-ctx.Done():
				e.unclaim(ctx, due[i:]...)
				return
			}
			group.Go(func() {
				e.attempt(ctx, seq, func() { <-slots; wake(e.wakeOut) })
				wake(e.wakeOut)
			})
		}
		e.waitFor(ctx, e.wakeOut, next)
	}
}

// flush sends every waiting message once and returns when all have been tried.
// On a shared database those that are not due may be leased: it leaves them out.
func (e *Engine) flush(ctx context.Context) error {
	var waiting []int64
	err := e.db.View(ctx, func(ctx context.Context, tx *sql.Tx) error {
		rows, err := tx.QueryContext(ctx, `SELECT seq FROM carrier_outbox
			WHERE due_ms IS NOT NULL AND (due_ms <= $1 OR state = 'queued' AND $2) ORDER BY lane, due_ms`, e.now().UnixMilli(), !e.shared)
		if err != nil {
			return err
		}
		waiting, err = scanAll(rows, scanSeq)
		return err
	})
	if err == nil {
		waiting, err = e.claim(ctx, waiting)
	}
	if err != nil {
		return err
	}
	var group sync.WaitGroup
	slots := make(chan struct{}, e.opts.Senders)
	for _, seq := range waiting {
		slots <- struct{}{}
		group.Go(func() { e.attempt(ctx, seq, func() { <-slots }) })
	}
	group.Wait()
	return ctx.Err()
}

// claim reserves messages for one sender at a time, of this process and of
// all, and returns the ones it got in their order.
func (e *Engine) claim(ctx context.Context, seqs []int64) (ours []int64, err error) {
	var free []int64
	e.sendMu.Lock()
	for _, seq := range seqs {
		if _, taken := e.inFlight[seq]; !taken {
			e.inFlight[seq] = 0
			free = append(free, seq)
		}
	}
	e.sendMu.Unlock()
	leased, until, err := e.lease(ctx, free)
	if errors.Is(err, database.ErrUnknownOutcome) {
		held := make(map[int64]int64)
		for _, seq := range free {
			held[seq] = until
		}
		e.endLeases(ctx, held)
	}
	e.sendMu.Lock()
	defer e.sendMu.Unlock()
	for _, seq := range free {
		if err == nil && slices.Contains(leased, seq) {
			e.inFlight[seq] = until
			ours = append(ours, seq)
		} else {
			delete(e.inFlight, seq)
		}
	}
	return ours, err
}

// unclaim frees messages. Where ctx ended before they were concluded, other
// processes need not wait for the end of their leases.
func (e *Engine) unclaim(ctx context.Context, seqs ...int64) {
	held := make(map[int64]int64)
	e.sendMu.Lock()
	for _, seq := range seqs {
		held[seq] = e.inFlight[seq]
		delete(e.inFlight, seq)
	}
	e.sendMu.Unlock()
	if ctx.Err() != nil {
		e.endLeases(ctx, held)
	}
}

// claimed are the messages being sent, with the ends of their leases.
func (e *Engine) claimed() map[int64]int64 {
	e.sendMu.Lock()
	defer e.sendMu.Unlock()
	return maps.Clone(e.inFlight)
}

// dueMessages returns messages that are due and not being sent, and when the
// first of the others is due; zero when there is none.
func (e *Engine) dueMessages(ctx context.Context) (due []int64, next time.Time, err error) {
	now := e.now().UnixMilli()
	skip := make(map[int64]bool)
	for seq := range e.claimed() {
		skip[seq] = true
	}
	err = e.db.View(ctx, func(ctx context.Context, tx *sql.Tx) (err error) {
		if due, err = dueInLanes(ctx, tx, now, dispatchBatch*e.opts.Senders, skip); err != nil {
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
