package idempotency

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/parleykit/parley/internal/database"
)

//go:embed migrations/*.sql
var migrations embed.FS

// ErrConflict means that the key stands for another request.
var ErrConflict = errors.New("idempotency: key used for another request")

// ErrInvalid means a Request or an answer that cannot be stored.
var ErrInvalid = errors.New("idempotency: invalid")

// Bounds, in bytes. Check the syntax of a stranger's key before.
const (
	MaxScope    = 256
	MaxKey      = 128
	MaxResponse = 64 << 10
)

// Request is one request as it is remembered.
type Request struct {
	Scope string // owner, a slash, and whose key it is
	Key   string // chosen by the caller
	Hash  string // SHA-256 of the request's canonical bytes, lowercase hex
}

var (
	scopePattern = regexp.MustCompile(`^[a-z][a-z0-9]*/.`)
	hashPattern  = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

func (r Request) check() error {
	switch {
	case len(r.Scope) > MaxScope || !scopePattern.MatchString(r.Scope):
		return fmt.Errorf("%w: scope %.60q", ErrInvalid, r.Scope)
	case r.Key == "" || len(r.Key) > MaxKey:
		return fmt.Errorf("%w: key of %d bytes", ErrInvalid, len(r.Key))
	case !hashPattern.MatchString(r.Hash):
		return fmt.Errorf("%w: hash %.70q", ErrInvalid, r.Hash)
	}
	return nil
}

// Migrate makes the table, or takes over the one that is there with its rows.
// Every part that uses the table calls it; a second call does nothing.
func Migrate(ctx context.Context, db *database.DB) error {
	return db.Migrate(ctx, "idempotency", migrations)
}

// Find looks for an earlier request with the same scope and key. It returns
// what was answered then, or ErrConflict when that was another request.
func Find(ctx context.Context, tx *sql.Tx, r Request) (response string, found bool, err error) {
	if err := r.check(); err != nil {
		return "", false, err
	}
	var hash string
	row := tx.QueryRowContext(ctx, `SELECT request_hash, response FROM idempotency WHERE scope = $1 AND key = $2`, r.Scope, r.Key)
	switch err := row.Scan(&hash, &response); {
	case errors.Is(err, sql.ErrNoRows):
		return "", false, nil
	case err != nil:
		return "", false, fmt.Errorf("reading idempotency key: %w", err)
	case hash != r.Hash:
		return "", true, ErrConflict
	}
	return response, true, nil
}

// Keep binds the key of a request that was accepted to its answer, which is up
// to MaxResponse bytes of text. It follows a Find that found nothing, in the
// same transaction. The row may go after expires: later than any repetition of
// the request can come.
func Keep(ctx context.Context, tx *sql.Tx, r Request, response string, expires time.Time) error {
	if err := r.check(); err != nil {
		return err
	}
	if len(response) > MaxResponse {
		return fmt.Errorf("%w: answer of %d bytes", ErrInvalid, len(response))
	}
	_, err := tx.ExecContext(ctx,
		`INSERT INTO idempotency (scope, key, request_hash, response, expires) VALUES ($1, $2, $3, $4, $5)`,
		r.Scope, r.Key, r.Hash, response, expires.Unix())
	if err != nil {
		return fmt.Errorf("storing idempotency key: %w", err)
	}
	return nil
}

// Sweep removes the rows of one owner that have expired, the oldest first and
// at most limit of them, and returns how many. owner is the part of the scopes
// before the slash.
func Sweep(ctx context.Context, tx *sql.Tx, owner string, now time.Time, limit int) (int64, error) {
	prefix := owner + "/"
	if strings.Contains(owner, "/") || !scopePattern.MatchString(prefix+"x") {
		return 0, fmt.Errorf("%w: owner %.60q", ErrInvalid, owner)
	}
	done, err := tx.ExecContext(ctx, `DELETE FROM idempotency WHERE (scope, key) IN (
		SELECT scope, key FROM idempotency WHERE expires <= $1 AND substr(scope, 1, $2) = $3 ORDER BY expires LIMIT $4)`,
		now.Unix(), len(prefix), prefix, limit)
	if err != nil {
		return 0, fmt.Errorf("sweeping idempotency keys: %w", err)
	}
	return done.RowsAffected()
}
