package carrier

import (
	"context"
	"database/sql"
	"time"
)

// purgePeriod is how often expired rows are deleted.
const purgePeriod = 10 * time.Minute

func (e *Engine) purgeLoop(ctx context.Context) {
	for ctx.Err() == nil {
		if err := e.purge(ctx); err != nil && ctx.Err() == nil {
			e.logger.WarnContext(ctx, "purging expired rows", "err", err)
		}
		sleep(ctx, purgePeriod)
	}
}

// purge deletes every row whose time is over, and mends what a wrong clock did.
func (e *Engine) purge(ctx context.Context) error {
	var parts, frames int64
	err := e.db.Write(ctx, func(ctx context.Context, tx *sql.Tx) (err error) {
		now := e.now()
		if err := e.rectify(ctx, tx, now); err != nil {
			return err
		}
		if parts, err = e.expireParts(ctx, tx, now); err != nil {
			return err
		}
		if frames, err = expireFrames(ctx, tx, now); err != nil {
			return err
		}
		if err := expireNacks(ctx, tx, now); err != nil {
			return err
		}
		for _, table := range []string{"carrier_wraps", "carrier_inbox", "carrier_outbox", "carrier_threads"} {
			if _, err := tx.ExecContext(ctx, "DELETE FROM "+table+" WHERE keep_until <= $1", now.Unix()); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		wake(e.wakeIn)
		wake(e.wakeOut)
		e.metrics.partsExpired.Add(float64(parts))
		e.metrics.framesDropped.WithLabelValues(droppedExpired).Add(float64(frames))
	}
	return err
}
