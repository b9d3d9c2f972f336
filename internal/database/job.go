package database

import (
	"context"
	"database/sql"
	"fmt"
	"runtime/debug"
	"sync/atomic"
)

// Func is the work of one job inside its transaction. It uses the context it
// is given, not its caller's.
type Func func(ctx context.Context, tx *sql.Tx) error

// The ways a job is run.
type mode int

const (
	batched mode = iota // Write: shares a transaction
	alone               // Tx: has a transaction of its own
	bare                // Migrate: makes its own transactions
)

// The states of a job, so that exactly one side decides what became of it.
const (
	queued int32 = iota
	begun
	abandoned
)

// job is one call waiting for the writing goroutine.
type job struct {
	mode  mode
	ctx   context.Context
	fn    Func                        // batched and alone
	bare  func(context.Context) error // bare
	state atomic.Int32
	// answer receives the outcome once; nobody reads it of an abandoned job.
	answer chan error
}

// begin claims the job for the writing goroutine; false when the caller left.
func (j *job) begin() bool { return j.state.CompareAndSwap(queued, begun) }

// abandon withdraws the job; false when it has begun.
func (j *job) abandon() bool { return j.state.CompareAndSwap(queued, abandoned) }

// submit queues a job and waits for its outcome. A caller whose context ends
// leaves at once while the job waits, and gets the true outcome once it began.
func (s *sqlite) submit(j *job) error {
	if s.outletOf(j.ctx) != nil {
		return ErrNested
	}
	j.answer = make(chan error, 1)
	if err := s.enqueue(j); err != nil {
		return err
	}
	select {
	case err := <-j.answer:
		return err
	case <-j.ctx.Done():
		if j.abandon() {
			return fmt.Errorf("waiting for the database writer: %w", context.Cause(j.ctx))
		}
		return <-j.answer
	}
}

func (s *sqlite) enqueue(j *job) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return ErrClosed
	}
	select {
	case s.jobs <- j:
		return nil
	case <-j.ctx.Done():
		return fmt.Errorf("waiting for the database writer: %w", context.Cause(j.ctx))
	}
}

// guarded runs fn so that a panic, or a runtime.Goexit as testing.T.Fatal
// does, becomes an error and the writing goroutine lives on.
func guarded(fn func() error) error {
	result := make(chan error, 1)
	go func() {
		err := fmt.Errorf("%w: its goroutine ended", ErrPanic)
		defer func() { result <- err }()
		err = recovered(fn)
	}()
	return <-result
}

// recovered runs fn so that a panic becomes an error.
func recovered(fn func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("%w: %v\n%s", ErrPanic, value, debug.Stack())
		}
	}()
	return fn()
}
