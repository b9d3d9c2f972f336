package carrier

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// Sync makes one pass and returns: it reads what is stored upstream at every
// carrier that is a Poller, processes what is due and sends each waiting
// message once, whatever its next attempt's time, except to addresses that
// asked for a pause. It is meant for commands that do not keep running. The
// error joins those of carriers that could not be read, each a *ReceiveFailure;
// how messages fared is in the Outbox.
func (e *Engine) Sync(ctx context.Context) error {
	var group sync.WaitGroup
	failures := make([]error, len(e.opts.Carriers))
	for i, c := range e.opts.Carriers {
		if poller, ok := c.(Poller); ok {
			group.Go(func() { failures[i] = e.poll(ctx, c.Scheme(), poller) })
		}
	}
	group.Wait()
	if _, err := e.process(ctx); err != nil {
		failures = append(failures, fmt.Errorf("processing the inbox: %w", err))
	}
	if err := e.flush(ctx); err != nil {
		failures = append(failures, fmt.Errorf("sending the outbox: %w", err))
	}
	return errors.Join(failures...)
}

// Poll reads what is stored upstream at the carriers of these schemes that are
// Pollers, beside a Receive that runs. Run processes it.
func (e *Engine) Poll(ctx context.Context, schemes ...string) error {
	var failures []error
	for _, c := range e.opts.Carriers {
		if poller, ok := c.(Poller); ok && slices.Contains(schemes, c.Scheme()) {
			failures = append(failures, e.poll(ctx, c.Scheme(), poller))
		}
	}
	return errors.Join(failures...)
}

func (e *Engine) poll(ctx context.Context, scheme string, p Poller) error {
	cursor, err := e.cursor(ctx, scheme)
	if err != nil {
		return err
	}
	if err := p.Poll(ctx, cursor, e.handler(scheme)); err != nil {
		return &ReceiveFailure{scheme, err}
	}
	return nil
}

// ReceiveFailure is why one carrier could not be read.
type ReceiveFailure struct {
	Scheme string
	Err    error
}

// Error implements error.
func (f *ReceiveFailure) Error() string { return "receiving by " + f.Scheme + ": " + f.Err.Error() }

// Unwrap returns the cause.
func (f *ReceiveFailure) Unwrap() error { return f.Err }
