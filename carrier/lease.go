package carrier

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/parleykit/parley/internal/database"
)

// Where several processes share a database, a message that one of them is
// sending is leased to it: due_ms lies ahead by the lease, so that the others
// find the message due only when the lease has run out. The sender renews it
// for as long as it takes; storing the outcome ends it. SQLite belongs to one
// process and needs no leases.
const leaseTime = 30 * time.Second

// lease moves messages that are still due out of the reach of other processes
// and returns the ones it got, and until when.
func (e *Engine) lease(ctx context.Context, seqs []int64) (ours []int64, until int64, err error) {
	if !e.shared || len(seqs) == 0 {
		return seqs, 0, nil
	}
	now := e.now()
	until = now.Add(leaseTime).UnixMilli()
	err = e.db.Tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		rows, err := tx.QueryContext(ctx, `UPDATE carrier_outbox SET due_ms = $1, leased_ms = $1, leased_by = $2 WHERE seq IN
			(SELECT seq FROM carrier_outbox WHERE seq = ANY($3) AND due_ms <= $4 ORDER BY seq FOR UPDATE SKIP LOCKED) RETURNING seq`,
			until, e.opts.Instance, seqs, now.UnixMilli())
		if err != nil {
			return err
		}
		ours, err = scanAll(rows, scanSeq)
		return err
	})
	return ours, until, err
}

// takeBack makes due what this process had leased in an earlier life.
func (e *Engine) takeBack(ctx context.Context) error {
	if !e.shared {
		return nil
	}
	return e.db.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "UPDATE carrier_outbox SET due_ms = $1 WHERE due_ms > $1 AND due_ms = leased_ms AND leased_by = $2",
			e.now().UnixMilli(), e.opts.Instance)
		return err
	})
}

// renewLoop renews the leases of what is being sent.
func (e *Engine) renewLoop(ctx context.Context) {
	for e.shared && ctx.Err() == nil {
		sleep(ctx, leaseTime/3)
		if err := e.renewLeases(ctx); err != nil && ctx.Err() == nil {
			e.logger.WarnContext(ctx, "renewing leases of the outbox", "err", err)
		}
	}
}

func (e *Engine) renewLeases(ctx context.Context) error {
	held, until := e.claimed(), e.now().Add(leaseTime).UnixMilli()
	renewed, err := e.moveLeases(ctx, held, until)
	e.sendMu.Lock()
	defer e.sendMu.Unlock()
	for _, seq := range renewed {
		if e.inFlight[seq] == held[seq] {
			e.inFlight[seq] = until
		}
	}
	return err
}

// endLeases makes what was leased and not concluded due again, when Run ends.
func (e *Engine) endLeases(ctx context.Context, held map[int64]int64) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	_, err := e.moveLeases(ctx, held, e.now().UnixMilli())
	if err != nil && !errors.Is(err, database.ErrClosed) {
		e.logger.WarnContext(ctx, "leases of the outbox stay until they run out", "err", err)
	}
}

// moveLeases sets the end of leases that are still held as given, and returns
// which those were.
func (e *Engine) moveLeases(ctx context.Context, held map[int64]int64, until int64) (moved []int64, err error) {
	if !e.shared || len(held) == 0 {
		return nil, nil
	}
	err = e.db.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		moved = nil
		for _, seq := range slices.Sorted(maps.Keys(held)) {
			result, err := tx.ExecContext(ctx, "UPDATE carrier_outbox SET due_ms = $1, leased_ms = $1 WHERE seq = $2 AND due_ms = $3", until, seq, held[seq])
			if err != nil {
				return err
			}
			if n, err := result.RowsAffected(); err != nil {
				return err
			} else if n > 0 {
				moved = append(moved, seq)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return moved, nil
}

// noticeChannel is where processes tell each other to look at the outbox.
const noticeChannel = "carrier"

// noticePause gathers the calls of Wake for one notice: on PostgreSQL
// transactions that notify commit one after another.
const noticePause = 50 * time.Millisecond

// announce tells the other processes of the database that the outbox has work.
func (e *Engine) announce() {
	if !e.shared || !e.announcing.CompareAndSwap(false, true) {
		return
	}
	time.AfterFunc(noticePause, func() {
		e.announcing.Store(false)
		err := e.db.Write(context.Background(), func(ctx context.Context, tx *sql.Tx) error {
			return e.db.Notify(ctx, tx, noticeChannel, e.self)
		})
		if err != nil { // the others look by themselves a little later
			e.logger.Debug("telling other processes of the outbox", "err", err)
		}
	})
}

// listen wakes the loops when another process says so.
func (e *Engine) listen(ctx context.Context) error {
	if !e.shared {
		return nil
	}
	return e.db.Listen(ctx, noticeChannel, func(n database.Notice) {
		if n.Payload != e.self {
			wake(e.wakeOut)
			wake(e.wakeIn)
		}
	})
}
