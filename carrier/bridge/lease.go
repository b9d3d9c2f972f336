package bridge

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"strings"
	"time"
)

// A lease is taken from a holder whose term did not grow for Options.Lease by the clock
// of who waits, and given up by a holder that could not renew it for two thirds of that
// by its own: no two clocks are compared. It is renewed after each third.

var errLost = errors.New("bridge: the lease is lost")

// hold waits for the lease and runs work for as long as it is held.
func (b *Bridge) hold(ctx context.Context, work func(context.Context) error) error {
	b.lease.Store(b.opts.Holder + " " + rand.Text())
	term, err := b.await(ctx)
	if err != nil {
		return err
	}
	b.metrics.holder.WithLabelValues().Set(1)
	defer b.metrics.holder.WithLabelValues().Set(0)
	held, lose := context.WithCancelCause(ctx)
	renewing := make(chan struct{})
	go func() {
		defer close(renewing)
		term = b.renew(held, term)
		lose(errLost)
	}()
	err = work(held)
	lose(nil)
	<-renewing
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	_, releaseErr := b.advance(ending, term, "")
	return errors.Join(err, releaseErr)
}

// holding is what the lease in the table says while this process holds it.
func (b *Bridge) holding() string {
	name, _ := b.lease.Load().(string)
	return name
}

// mine reports whether a holder is an earlier life of this process.
func (b *Bridge) mine(holder string) bool {
	i := strings.LastIndexByte(holder, ' ')
	return i >= 0 && holder[:i] == b.opts.Holder
}

// checkLease is errLost when another holds the lease.
func (b *Bridge) checkLease(ctx context.Context, tx *sql.Tx) error {
	var holder string
	err := tx.QueryRowContext(ctx, "SELECT holder FROM bridge_leases WHERE bridge = $1", b.opts.Name).Scan(&holder)
	if err == nil && holder != b.holding() {
		return errLost
	}
	return err
}

// await returns the term of a lease that is now ours.
func (b *Bridge) await(ctx context.Context) (int64, error) {
	last, since := int64(-1), time.Now()
	for {
		holder, term, err := b.readLease(ctx)
		if err != nil {
			return 0, err
		}
		if term != last {
			last, since = term, time.Now()
		}
		if holder == "" || b.mine(holder) || time.Since(since) > b.opts.Lease {
			if ours, err := b.advance(ctx, term, b.holding()); err != nil || ours {
				return term + 1, err
			}
		}
		if !pause(ctx, min(time.Second, b.opts.Lease/10)) {
			return 0, context.Cause(ctx)
		}
	}
}

// renew returns the last term when ctx ends or the lease is lost.
func (b *Bridge) renew(ctx context.Context, term int64) int64 {
	for pause(ctx, b.opts.Lease/3) {
		trying, cancel := context.WithTimeout(ctx, b.opts.Lease/3)
		ours, err := b.advance(trying, term, b.holding())
		cancel()
		if err != nil || !ours {
			return term
		}
		term++
	}
	return term
}

func (b *Bridge) readLease(ctx context.Context) (holder string, term int64, err error) {
	err = b.db.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO bridge_leases (bridge, holder, term) VALUES ($1, '', 0) ON CONFLICT (bridge) DO NOTHING", b.opts.Name)
		if err != nil {
			return err
		}
		return tx.QueryRowContext(ctx, "SELECT holder, term FROM bridge_leases WHERE bridge = $1", b.opts.Name).Scan(&holder, &term)
	})
	return holder, term, err
}

// advance moves the term on if nobody else did.
func (b *Bridge) advance(ctx context.Context, term int64, holder string) (ours bool, err error) {
	err = b.db.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		result, err := tx.ExecContext(ctx, "UPDATE bridge_leases SET holder = $1, term = term + 1 WHERE bridge = $2 AND term = $3", holder, b.opts.Name, term)
		if err != nil {
			return err
		}
		n, err := result.RowsAffected()
		ours = n > 0
		return err
	})
	return ours, err
}
