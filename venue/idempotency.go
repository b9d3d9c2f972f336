package venue

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// errKeyConflict means that a key was used before for another request.
var errKeyConflict = errors.New("venue: idempotency key used for another request")

// replies is the table idempotency: what was answered to which request. It
// knows nothing of rooms, so that other parts can keep their rows in it.
type replies struct{}

// seen looks for an earlier request with the same key. It returns what was
// answered then, or errKeyConflict when the key belongs to another request.
// A row is honoured until the sweep removes it, also past its expiry.
func (replies) seen(ctx context.Context, tx *sql.Tx, scope, key, hash string) (response string, found bool, err error) {
	var earlier string
	row := tx.QueryRowContext(ctx, `SELECT request_hash, response FROM idempotency WHERE scope = $1 AND key = $2`, scope, key)
	switch err := row.Scan(&earlier, &response); {
	case errors.Is(err, sql.ErrNoRows):
		return "", false, nil
	case err != nil:
		return "", false, fmt.Errorf("reading idempotency key: %w", err)
	case earlier != hash:
		return "", true, errKeyConflict
	}
	return response, true, nil
}

// remember stores what was answered, for as long as a retry may come.
func (replies) remember(ctx context.Context, tx *sql.Tx, scope, key, hash, response string, expires time.Time) error {
	_, err := tx.ExecContext(ctx,
		`INSERT INTO idempotency (scope, key, request_hash, response, expires) VALUES ($1, $2, $3, $4, $5)`,
		scope, key, hash, response, expires.Unix())
	if err != nil {
		return fmt.Errorf("storing idempotency key: %w", err)
	}
	return nil
}

// sweep removes the rows of one owner that expired, at most limit of them.
// owner is the first part of the scopes, such as "venue/".
func (replies) sweep(ctx context.Context, tx *sql.Tx, owner string, now time.Time, limit int) (int64, error) {
	done, err := tx.ExecContext(ctx, `DELETE FROM idempotency WHERE (scope, key) IN (
		SELECT scope, key FROM idempotency WHERE expires <= $1 AND substr(scope, 1, $2) = $3 ORDER BY expires LIMIT $4)`,
		now.Unix(), len(owner), owner, limit)
	if err != nil {
		return 0, fmt.Errorf("sweeping idempotency keys: %w", err)
	}
	return done.RowsAffected()
}
