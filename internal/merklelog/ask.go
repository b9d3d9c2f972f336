package merklelog

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/parleykit/parley/protocol/logproof"
)

// ErrWitness means that a witness did not cosign.
var ErrWitness = errors.New("merklelog: witness did not cosign")

// Ask has one of Options.Witnesses cosign the newest checkpoint and stores what
// it answers: the client of C2SP tlog-witness. prefix is its submission prefix
// without a slash at its end. The client bounds time and addresses. Nothing is
// asked when the witness cosigned that checkpoint already. ErrWitness.
func (l *Log) Ask(ctx context.Context, client *http.Client, prefix string, witness logproof.Key) error {
	var size, old int64
	var cosigned bool
	err := l.opts.DB.View(ctx, func(ctx context.Context, tx *sql.Tx) (err error) {
		c, err := l.newest(ctx, tx)
		if err != nil {
			return err
		}
		size = c.Size
		old, cosigned, err = l.cosignedBy(ctx, tx, witness)
		return err
	})
	if err != nil || cosigned && old == size {
		return err
	}
	for range 2 { // the first time it may name another old size
		update, err := l.update(ctx, old, size)
		if err != nil {
			return err
		}
		lines, last, err := post(ctx, client, prefix, update)
		switch {
		case err != nil:
			return err
		case lines != "":
			return l.keep(ctx, size, lines)
		case last > size:
			return fmt.Errorf("%w: it knows %d entries, and there are %d", ErrWitness, last, size)
		}
		old = last
	}
	return fmt.Errorf("%w: it does not keep to the size it named", ErrWitness)
}

// keep stores an answer, in which there must be a known signature.
func (l *Log) keep(ctx context.Context, size int64, lines string) error {
	stored, err := l.Cosign(ctx, size, lines)
	if err == nil && stored == 0 {
		err = fmt.Errorf("%w: no signature of a known key", ErrWitness)
	}
	return err
}

// cosignedBy is the largest size that a witness has cosigned.
func (l *Log) cosignedBy(ctx context.Context, tx *sql.Tx, witness logproof.Key) (size int64, found bool, err error) {
	var last sql.NullInt64
	err = tx.QueryRowContext(ctx, `SELECT max(size) FROM merklelog_signatures WHERE log = $1 AND signer = $2`,
		l.id, witness.String()).Scan(&last)
	if err != nil {
		return 0, false, fmt.Errorf("reading cosignatures: %w", err)
	}
	return last.Int64, last.Valid, nil
}

// update is the request to go from one size to the checkpoint of another.
func (l *Log) update(ctx context.Context, old, size int64) (*logproof.Update, error) {
	u := &logproof.Update{OldSize: old}
	err := l.opts.DB.View(ctx, func(ctx context.Context, tx *sql.Tx) error {
		c, err := l.ofSize(ctx, tx, size)
		if err != nil {
			return err
		}
		if u.Path, err = l.proveExtension(ctx, tx, old, c); err != nil {
			return err
		}
		u.Checkpoint, err = l.signed(ctx, tx, c)
		return err
	})
	return u, err
}

// post gives the lines of a witness, or the old size that it wants instead.
func post(ctx context.Context, client *http.Client, prefix string, u *logproof.Update) (lines string, last int64, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, prefix+"/add-checkpoint", strings.NewReader(u.String()))
	if err != nil {
		return "", 0, fmt.Errorf("%w: %w", ErrWitness, err)
	}
	response, err := client.Do(request)
	if err != nil {
		return "", 0, fmt.Errorf("%w: %w", ErrWitness, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, logproof.MaxNote/2))
	if err != nil {
		return "", 0, fmt.Errorf("%w: %w", ErrWitness, err)
	}
	switch {
	case response.StatusCode == http.StatusOK && len(body) > 0:
		return string(body), 0, nil
	case response.StatusCode == http.StatusConflict:
		last, err := strconv.ParseInt(strings.TrimSuffix(string(body), "\n"), 10, 64)
		if err != nil || last < 0 {
			return "", 0, fmt.Errorf("%w: conflict without a size", ErrWitness)
		}
		return "", last, nil
	}
	return "", 0, fmt.Errorf("%w: it answered with status %d", ErrWitness, response.StatusCode)
}
