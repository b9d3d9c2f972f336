package database

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// Write runs fn inside a transaction shared with the jobs of other callers and
// returns after the commit. An error or panic of fn undoes fn alone. See the
// rules for a job in the package documentation. While the job waits, the end
// of ctx withdraws it; once it has begun, Write returns what became of it.
func (db *DB) Write(ctx context.Context, fn Func) error {
	return db.submit(&job{mode: batched, ctx: ctx, fn: fn})
}

// Tx runs fn alone in a transaction begun with BEGIN IMMEDIATE: what it reads
// cannot change before it commits. The end of ctx rolls back. fn calls neither
// Commit nor Rollback.
func (db *DB) Tx(ctx context.Context, fn Func) error {
	return db.submit(&job{mode: alone, ctx: ctx, fn: fn})
}

// View runs fn on a read-only snapshot: all that was committed before View
// began, nothing that commits later. It may be called from within a job, where
// it does not see that job's own writes.
func (db *DB) View(ctx context.Context, fn Func) error {
	tx, err := db.reader.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return db.failed(fmt.Errorf("beginning read: %w", err))
	}
	defer tx.Rollback()
	var one int // the first read fixes the snapshot
	if err := tx.QueryRowContext(ctx, "SELECT count(*) FROM (SELECT 1 FROM sqlite_schema LIMIT 1)").Scan(&one); err != nil {
		return db.failed(fmt.Errorf("beginning read: %w", err))
	}
	db.metrics.jobs.WithLabelValues("view").Inc()
	if err := fn(ctx, tx); err != nil {
		return db.failed(err)
	}
	return nil
}

// failed classifies and counts an error on its way out.
func (db *DB) failed(err error) error {
	err = classify(err)
	db.metrics.countError(err)
	return err
}

// work is the writing goroutine: the only user of the writer connection.
func (db *DB) work() {
	defer close(db.done)
	var held *job // taken from the queue, but not fit for the batch
	for {
		first := held
		if held = nil; first == nil {
			var open bool
			if first, open = <-db.jobs; !open {
				return
			}
		}
		if first.mode != batched {
			db.runExclusive(first)
			continue
		}
		var batch []*job
		batch, held = db.collect(first)
		db.runBatch(batch)
	}
}

// collect adds the jobs that wait already, without waiting for more. The
// second result is a job that must run after the batch.
func (db *DB) collect(first *job) ([]*job, *job) {
	batch := []*job{first}
	for len(batch) < db.opts.MaxBatch {
		select {
		case next, open := <-db.jobs:
			if !open {
				return batch, nil
			}
			if next.mode != batched {
				return batch, next
			}
			batch = append(batch, next)
		default:
			return batch, nil
		}
	}
	return batch, nil
}

func (db *DB) runExclusive(j *job) {
	if !j.begin() {
		return
	}
	var err error
	if j.mode == bare {
		err = guarded(func() error { return j.bare(db.marked(j.ctx)) })
	} else {
		err = db.runAlone(db.marked(j.ctx), j.fn)
		db.metrics.jobs.WithLabelValues("tx").Inc()
	}
	db.answer(j, err)
}

func (db *DB) answer(j *job, err error) {
	if err != nil {
		err = db.failed(err)
	}
	j.answer <- err
}

// runAlone runs fn in a transaction of its own.
func (db *DB) runAlone(ctx context.Context, fn Func) error {
	tx, err := db.writer.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("beginning transaction: %w", err)
	}
	defer tx.Rollback()
	if err := guarded(func() error { return fn(ctx, tx) }); err != nil {
		return err
	}
	return db.commit(tx)
}

func (db *DB) commit(tx *sql.Tx) error {
	start := time.Now()
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("committing: %w", err)
	}
	db.metrics.commitDuration.Observe(time.Since(start).Seconds())
	return nil
}

// errBatch marks trouble of the whole batch, not of one job.
var errBatch = errors.New("database: batch failed")

// runBatch answers every job of the batch. When the shared transaction fails,
// the jobs run again one by one, unless the disk is at fault.
func (db *DB) runBatch(batch []*job) {
	begunJobs := batch[:0]
	for _, j := range batch {
		if j.begin() {
			begunJobs = append(begunJobs, j)
		}
	}
	if batch = begunJobs; len(batch) == 0 {
		return
	}
	db.metrics.batchJobs.Observe(float64(len(batch)))
	db.metrics.jobs.WithLabelValues("write").Add(float64(len(batch)))
	if len(batch) == 1 {
		db.runSingly(batch)
		return
	}
	outcomes, err := db.tryBatch(batch)
	switch {
	case err == nil:
		for i, j := range batch {
			db.answer(j, outcomes[i])
		}
	case errors.Is(classify(err), ErrTransient) || errors.Is(classify(err), ErrBusy):
		for _, j := range batch {
			db.answer(j, err)
		}
	default:
		db.metrics.reruns.Inc()
		db.logger.Warn("running batch again job by job", "jobs", len(batch), "err", err)
		db.runSingly(batch)
	}
}

func (db *DB) runSingly(batch []*job) {
	for _, j := range batch {
		db.answer(j, db.runAlone(db.marked(context.WithoutCancel(j.ctx)), j.fn))
	}
}

// tryBatch runs the jobs in one transaction. With a nil error it has been
// committed and the outcomes hold each job's own error.
func (db *DB) tryBatch(batch []*job) ([]error, error) {
	ctx := context.Background()
	tx, err := db.writer.BeginTx(ctx, nil)
	if err != nil {
		return nil, fmt.Errorf("beginning transaction: %w", err)
	}
	defer tx.Rollback()
	outcomes := make([]error, len(batch))
	for i, j := range batch {
		if outcomes[i] = db.runSavepoint(tx, j); errors.Is(outcomes[i], errBatch) {
			return nil, outcomes[i]
		}
	}
	return outcomes, db.commit(tx)
}

// runSavepoint runs one job between SAVEPOINT and RELEASE. The job's context
// does not end with its caller's: an interrupted statement would undo the
// whole batch.
func (db *DB) runSavepoint(tx *sql.Tx, j *job) error {
	ctx := db.marked(context.WithoutCancel(j.ctx))
	if _, err := tx.ExecContext(ctx, "SAVEPOINT job"); err != nil {
		return fmt.Errorf("%w: opening savepoint: %w", errBatch, err)
	}
	jobErr := guarded(func() error { return j.fn(ctx, tx) })
	if jobErr != nil {
		if _, err := tx.ExecContext(ctx, "ROLLBACK TO job"); err != nil {
			return fmt.Errorf("%w: rolling back to savepoint: %w", errBatch, err)
		}
	}
	if _, err := tx.ExecContext(ctx, "RELEASE job"); err != nil {
		return fmt.Errorf("%w: releasing savepoint: %w", errBatch, err)
	}
	return jobErr
}
