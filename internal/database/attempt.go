package database

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
)

// write leaves its caller's context behind once the job has begun, as a job
// on SQLite does.
func (p *postgres) write(ctx context.Context, fn Func) error {
	return p.run(ctx, "write", func(ctx context.Context) context.Context { return context.WithoutCancel(ctx) }, fn)
}

func (p *postgres) tx(ctx context.Context, fn Func) error {
	return p.run(ctx, "tx", func(ctx context.Context) context.Context { return ctx }, fn)
}

// run tries a job until it committed, failed for a reason of its own, or
// others have been in its way for as long as BusyTimeout.
//
// A key that exists may have been taken by a job that ran beside this one,
// which the server tells as a broken constraint rather than as a serialization
// failure. The job runs again, sees the key, and either takes another one or
// fails by the very same key, which settles the matter.
func (p *postgres) run(ctx context.Context, kind string, inside func(context.Context) context.Context, fn Func) error {
	if p.outletOf(ctx) != nil {
		return ErrNested
	}
	if !p.enter() {
		return ErrClosed
	}
	defer p.running.Done()
	p.metrics.jobs.WithLabelValues(kind).Inc()
	deadline := time.Now().Add(p.opts.BusyTimeout)
	stale := p.opts.Writers + 1 // connections that may have died in the pool
	clash := ""
	for turns := 0; ; {
		err := p.attempt(ctx, inside(ctx), fn)
		lastClash := clash
		clash = clashOf(err)
		var before *errBeforeJob
		switch {
		case err == nil:
			return nil
		case errors.As(err, &before) && before.stale && stale > 0 && ctx.Err() == nil:
			stale--
			continue
		case !wasInTheWay(err) && (clash == "" || clash == lastClash) || ctx.Err() != nil || time.Now().After(deadline):
			return p.failed(err)
		}
		if turns++; turns == 1 {
			select {
			case p.turn <- struct{}{}:
				defer func() { <-p.turn }()
			case <-ctx.Done():
				return p.failed(err)
			}
		}
		p.metrics.retries.Inc()
		if !pause(ctx, min(time.Millisecond<<min(turns, 7), 100*time.Millisecond)) {
			return p.failed(err)
		}
	}
}

// pause waits between d/2 and d; false when ctx ended.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d/2 + rand.N(d/2+1))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// errBeforeJob is trouble before the job's function was called.
type errBeforeJob struct {
	err   error
	stale bool // a pooled connection turned out to be dead
}

func (e *errBeforeJob) Error() string { return "beginning transaction: " + e.err.Error() }
func (e *errBeforeJob) Unwrap() error { return e.err }

// attempt runs the job once. outer ends the waiting for a connection, inner
// the job; the transaction itself obeys the JobTimeout alone, so that a commit
// is not broken off by a caller who leaves.
func (p *postgres) attempt(outer, inner context.Context, fn Func) (err error) {
	conn, err := p.writer.Conn(outer)
	if err != nil {
		return &errBeforeJob{err: err}
	}
	defer conn.Close()
	whole, cancel := context.WithTimeout(context.WithoutCancel(outer), p.opts.JobTimeout)
	defer cancel()
	defer func() { err = p.inspect(outer, conn, err) }()
	tx, err := conn.BeginTx(whole, &sql.TxOptions{Isolation: sql.LevelSerializable})
	if err != nil {
		return &errBeforeJob{err: err, stale: isDead(conn)}
	}
	defer tx.Rollback()
	inner, stop := context.WithTimeout(inner, p.opts.JobTimeout)
	defer stop()
	if err := recovered(func() error { return fn(p.marked(inner, new(outlet)), tx) }); err != nil {
		return err
	}
	if err := inner.Err(); err != nil {
		return fmt.Errorf("ending transaction: %w", err)
	}
	if isDead(conn) { // while the job still ran: nothing was committed
		return fmt.Errorf("committing: %w", driver.ErrBadConn)
	}
	return p.commit(tx)
}

// commit tells a commit that failed from one whose answer was lost.
func (p *postgres) commit(tx *sql.Tx) error {
	start := time.Now()
	err := tx.Commit()
	if err == nil {
		p.metrics.commitDuration.Observe(time.Since(start).Seconds())
		return nil
	}
	var answer *pgconn.PgError
	switch {
	case errors.Is(err, sql.ErrTxDone), err == context.DeadlineExceeded, err == context.Canceled: //nolint:errorlint // bare: nothing was sent
	case errors.Is(err, errCommitRolledBack): // the job went on after a failed statement
	case errors.As(err, &answer) && answer.SeverityUnlocalized == "ERROR": // undone, and said so
	default:
		return fmt.Errorf("committing: %w: %w", ErrUnknownOutcome, err)
	}
	return fmt.Errorf("committing: %w", err)
}

// inspect takes a connection that takes no writes out of the pool, and gives
// the error of a dead one its type.
func (p *postgres) inspect(ctx context.Context, conn *sql.Conn, err error) error {
	if err == nil {
		return nil
	}
	if sqlState(err) == "25006" { // a standby since a failover
		_ = conn.Raw(func(any) error { return driver.ErrBadConn })
	}
	if !isDead(conn) || errors.Is(err, ErrTransient) || ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return err
	}
	return fmt.Errorf("%w: connection lost: %w", ErrTransient, err)
}

// isDead reports whether a connection cannot be used any more.
func isDead(conn *sql.Conn) bool {
	dead := true
	_ = conn.Raw(func(raw any) error {
		dead = raw.(*stdlib.Conn).Conn().IsClosed()
		return nil
	})
	return dead
}

func (p *postgres) view(ctx context.Context, fn Func) error {
	if !p.enter() {
		return ErrClosed
	}
	defer p.running.Done()
	p.metrics.jobs.WithLabelValues("view").Inc()
	for stale := p.opts.Readers + 1; ; stale-- {
		err := p.look(ctx, fn)
		var before *errBeforeJob
		switch {
		case err == nil:
			return nil
		case errors.As(err, &before) && before.stale && stale > 0 && ctx.Err() == nil:
			continue
		}
		return p.failed(err)
	}
}

// look runs one View on one connection.
func (p *postgres) look(outer context.Context, fn Func) (err error) {
	ctx, cancel := context.WithTimeout(outer, p.opts.JobTimeout)
	defer cancel()
	conn, err := p.reader.Conn(ctx)
	if err != nil {
		return &errBeforeJob{err: err}
	}
	defer conn.Close()
	defer func() { err = p.inspect(outer, conn, err) }()
	tx, err := conn.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
	if err == nil {
		defer tx.Rollback()
		_, err = tx.ExecContext(ctx, "SELECT 1") // the first read fixes the snapshot
	}
	if err != nil {
		return &errBeforeJob{err: err, stale: isDead(conn)}
	}
	return fn(ctx, tx)
}
