package agent

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/parleykit/parley/internal/idempotency"
	"github.com/parleykit/parley/protocol/canonical"
	"github.com/parleykit/parley/protocol/message"
)

// The keys of requests are kept in one scope, so that one key stands for one
// request whatever its operation.
const (
	keyOwner    = "agent"
	keyScope    = keyOwner + "/requests"
	keyLifetime = message.MaxLifetime + 24*time.Hour
	keysAtOnce  = 1000 // removed in one transaction
)

// repeatable is a request that may come again, and must not do its work twice.
// nil is one without a key.
type repeatable struct{ idempotency.Request }

// newRepeatable names a request by the owner's key. q is the request without
// what may differ when it comes again.
func newRepeatable(operation, key string, q any) (*repeatable, error) {
	if key == "" {
		return nil, nil
	}
	if !message.IsIdempotencyKey(key) {
		return nil, invalid("a key has 8 to 128 characters of A-Z a-z 0-9 . _ : -")
	}
	data, err := canonical.Marshal(q)
	if err != nil {
		return nil, invalid("reading the request: %w", err)
	}
	hash := canonical.Digest([]byte(operation + "\n" + string(data)))
	return &repeatable{idempotency.Request{Scope: keyScope, Key: key, Hash: hash}}, nil
}

// before finds the id of the message that the same request sent before; empty
// when there is none.
func (r *repeatable) before(ctx context.Context, tx *sql.Tx) (id string, err error) {
	if r == nil {
		return "", nil
	}
	id, _, err = idempotency.Find(ctx, tx, r.Request)
	if errors.Is(err, idempotency.ErrConflict) {
		return "", refused("the key %s stands for another request", r.Key).hint("use a new key for another request")
	}
	return id, err
}

// earlier is before in a transaction of its own.
func (a *Agent) earlier(ctx context.Context, r *repeatable) (id string, err error) {
	if r == nil {
		return "", nil
	}
	err = a.db.View(ctx, func(ctx context.Context, tx *sql.Tx) error {
		id, err = r.before(ctx, tx)
		return err
	})
	return id, err
}

// once does the work of a request, which sends a message, in the transaction
// that binds its key. It returns the id of that message, or of the one sent
// when the same request came first.
func (a *Agent) once(ctx context.Context, r *repeatable, id string, work func(ctx context.Context, tx *sql.Tx) error) (sent string, err error) {
	err = a.db.Tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if sent, err = r.before(ctx, tx); err != nil || sent != "" {
			return err
		}
		sent = id
		if err := work(ctx, tx); err != nil || r == nil {
			return err
		}
		return idempotency.Keep(ctx, tx, r.Request, id, a.now().Add(keyLifetime))
	})
	return sent, err
}

// forgetKeys removes the keys of requests that are over.
func (a *Agent) forgetKeys(ctx context.Context) error {
	for removed := int64(keysAtOnce); removed == keysAtOnce; {
		err := a.db.Tx(ctx, func(ctx context.Context, tx *sql.Tx) (err error) {
			removed, err = idempotency.Sweep(ctx, tx, keyOwner, a.now(), keysAtOnce)
			return err
		})
		if err != nil {
			return fmt.Errorf("forgetting the keys of requests: %w", err)
		}
	}
	return nil
}
