package database

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"
)

func (s *sqlite) write(ctx context.Context, fn Func) error {
	return s.submit(&job{mode: batched, ctx: ctx, fn: fn})
}

func (s *sqlite) tx(ctx context.Context, fn Func) error {
	return s.submit(&job{mode: alone, ctx: ctx, fn: fn})
}

func (s *sqlite) view(ctx context.Context, fn Func) error {
	tx, err := s.reader.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return s.failed(fmt.Errorf("beginning read: %w", err))
	}
	defer tx.Rollback()
	var one int // the first read fixes the snapshot
	if err := tx.QueryRowContext(ctx, "SELECT count(*) FROM (SELECT 1 FROM sqlite_schema LIMIT 1)").Scan(&one); err != nil {
		return s.failed(fmt.Errorf("beginning read: %w", err))
	}
	s.metrics.jobs.WithLabelValues("view").Inc()
	if err := fn(ctx, tx); err != nil {
		return s.failed(err)
	}
	return nil
}

// work is the writing goroutine: the only user of the writer connection.
func (s *sqlite) work() {
	defer close(s.done)
	var held *job // taken from the queue, but not fit for the batch
	for {
		first := held
		if held = nil; first == nil {
			var open bool
			if first, open = <-s.jobs; !open {
				return
			}
		}
		if first.mode != batched {
			s.runExclusive(first)
			continue
		}
		var batch []*job
		batch, held = s.collect(first)
		s.runBatch(batch)
	}
}

// collect adds the jobs that wait already, and those of goroutines that only
// wait for the processor: callers of the last batch come back together. The
// second result is a job that must run after the batch.
func (s *sqlite) collect(first *job) ([]*job, *job) {
	batch := []*job{first}
	for range 2 { // the second time for those who were still being woken
		runtime.Gosched()
	}
	for len(batch) < s.opts.MaxBatch {
		select {
		case next, open := <-s.jobs:
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

func (s *sqlite) runExclusive(j *job) {
	if !j.begin() {
		return
	}
	var err error
	if j.mode == bare {
		err = guarded(func() error { return j.bare(s.marked(j.ctx, new(outlet))) })
	} else {
		err = s.runAlone(j.ctx, j.fn)
		s.metrics.jobs.WithLabelValues("tx").Inc()
	}
	s.answer(j, err)
}

func (s *sqlite) answer(j *job, err error) {
	if err != nil {
		err = s.failed(err)
	}
	j.answer <- err
}

// runAlone runs fn in a transaction of its own.
func (s *sqlite) runAlone(ctx context.Context, fn Func) error {
	o := new(outlet)
	ctx = s.marked(ctx, o)
	tx, err := s.writer.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("beginning transaction: %w", err)
	}
	defer tx.Rollback()
	if err := guarded(func() error { return fn(ctx, tx) }); err != nil {
		return err
	}
	if err := s.commit(tx); err != nil {
		return err
	}
	s.hub.publish(o.take()...)
	return nil
}

func (s *sqlite) commit(tx *sql.Tx) error {
	start := time.Now()
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("committing: %w", err)
	}
	s.metrics.commitDuration.Observe(time.Since(start).Seconds())
	return nil
}

// Trouble of a batch, not of one job's caller.
var (
	errBatch = errors.New("database: batch failed")
	errJob   = errors.New("database: job of a batch failed")
)

// runBatch answers every job of the batch. When one of them fails, all are
// undone and run again, each in a savepoint; savepoints from the start would
// cost more than most jobs do. They stay for as long as jobs fail. When the
// shared transaction itself fails, the jobs run again one by one, unless the
// disk is at fault.
func (s *sqlite) runBatch(batch []*job) {
	begunJobs := batch[:0]
	for _, j := range batch {
		if j.begin() {
			begunJobs = append(begunJobs, j)
		}
	}
	if batch = begunJobs; len(batch) == 0 {
		return
	}
	s.metrics.batchJobs.Observe(float64(len(batch)))
	s.metrics.jobs.WithLabelValues("write").Add(float64(len(batch)))
	if len(batch) == 1 {
		s.runSingly(batch)
		return
	}
	outcomes, err := s.tryBatch(batch)
	if errors.Is(err, errJob) {
		s.metrics.reruns.Inc()
		s.savepoints = true
		outcomes, err = s.tryBatch(batch)
	}
	switch {
	case err == nil:
		for i, j := range batch {
			s.answer(j, outcomes[i])
		}
		s.savepoints = s.savepoints && slices.ContainsFunc(outcomes, func(err error) bool { return err != nil })
	case errors.Is(classify(err), ErrTransient) || errors.Is(classify(err), ErrBusy):
		for _, j := range batch {
			s.answer(j, err)
		}
	default:
		s.metrics.reruns.Inc()
		s.logger.Warn("running batch again job by job", "jobs", len(batch), "err", err)
		s.runSingly(batch)
	}
}

func (s *sqlite) runSingly(batch []*job) {
	for _, j := range batch {
		s.answer(j, s.runAlone(context.WithoutCancel(j.ctx), j.fn))
	}
}

// tryBatch runs the jobs in one transaction. With a nil error it has been
// committed and the outcomes hold each job's own error.
func (s *sqlite) tryBatch(batch []*job) ([]error, error) {
	ctx := context.Background()
	tx, err := s.writer.BeginTx(ctx, nil)
	if err != nil {
		return nil, fmt.Errorf("beginning transaction: %w", err)
	}
	defer tx.Rollback()
	outcomes, outlets := make([]error, len(batch)), make([]outlet, len(batch))
	if s.savepoints {
		err = s.runApart(tx, batch, outcomes, outlets)
	} else {
		err = s.runTogether(tx, batch, outlets)
	}
	if err != nil {
		return nil, err
	}
	if err := s.commit(tx); err != nil {
		return nil, err
	}
	for i := range outlets {
		if outcomes[i] == nil {
			s.hub.publish(outlets[i].take()...)
		}
	}
	return outcomes, nil
}

// runTogether runs the jobs one after the other, up to the first that fails.
func (s *sqlite) runTogether(tx *sql.Tx, batch []*job, outlets []outlet) error {
	err := guarded(func() error {
		for i, j := range batch {
			if err := j.fn(s.inBatch(j, &outlets[i]), tx); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("%w: %w", errJob, err)
	}
	return nil
}

// runApart runs each job between SAVEPOINT and RELEASE.
func (s *sqlite) runApart(tx *sql.Tx, batch []*job, outcomes []error, outlets []outlet) error {
	for i, j := range batch {
		if outcomes[i] = s.runSavepoint(tx, j, &outlets[i]); errors.Is(outcomes[i], errBatch) {
			return outcomes[i]
		}
	}
	return nil
}

// inBatch is the context of a job that shares its transaction. It does not end
// with its caller's: an interrupted statement would undo the whole batch.
func (s *sqlite) inBatch(j *job, o *outlet) context.Context {
	return s.marked(context.WithoutCancel(j.ctx), o)
}

func (s *sqlite) runSavepoint(tx *sql.Tx, j *job, o *outlet) error {
	ctx := s.inBatch(j, o)
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
