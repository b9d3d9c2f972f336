package carrier

import (
	"context"
	"database/sql"
	"time"
)

// expiredUnprocessed is the reason of a received message that ran out of time.
const expiredUnprocessed = "expired before it was processed"

// longestPause is the furthest ahead that anything is ever planned.
func (o *Options) longestPause() time.Duration {
	return max(o.Retry.Cap, o.Resend.Cap, o.Fallback, o.SendTimeout, maxRateLimit, holdTime)
}

// rectify mends what a clock that was ahead has left behind once it is right:
// plans that lie further ahead than any is made, and messages that were called
// expired and are not.
func (e *Engine) rectify(ctx context.Context, tx *sql.Tx, now time.Time) error {
	ms, ahead := now.UnixMilli(), now.Add(e.opts.longestPause()).UnixMilli()
	for _, mend := range []struct {
		sql  string
		args []any
	}{
		{"UPDATE carrier_outbox SET due_ms = $1 WHERE due_ms > $2", []any{ms, ahead}},
		{"UPDATE carrier_outbox SET resend_ms = $1 WHERE due_ms IS NOT NULL AND resend_ms > $2", []any{ms, ahead}},
		{"UPDATE carrier_outbox SET sent_ms = $1 WHERE state = 'sent' AND sent_ms > $2", []any{ms, ms}},
		{`UPDATE carrier_deliveries SET retry_ms = $1 WHERE retry_ms > $2
			AND outbox_seq IN (SELECT seq FROM carrier_outbox WHERE due_ms IS NOT NULL)`, []any{ms, ahead}},
		{"UPDATE carrier_inbox SET due_ms = $1 WHERE state = 'pending' AND due_ms > $2", []any{ms, ahead}},
		{"UPDATE carrier_outbox SET state = 'queued', reason = '', due_ms = $1 WHERE state = 'expired' AND expires_at > $2", []any{ms, now.Unix()}},
		{"UPDATE carrier_inbox SET state = 'pending', reason = '', due_ms = $1 WHERE state = 'failed' AND reason = $2 AND expires_at > $3", []any{ms, expiredUnprocessed, now.Unix()}},
	} {
		if _, err := tx.ExecContext(ctx, mend.sql, mend.args...); err != nil {
			return err
		}
	}
	return nil
}
