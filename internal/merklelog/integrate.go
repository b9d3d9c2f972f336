package merklelog

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/parleykit/parley/protocol/logproof"
)

// Run makes checkpoints of what is appended until ctx ends; it returns nil
// then. A failure is logged, told to Options.Made and tried again. ErrRunning.
func (l *Log) Run(ctx context.Context) error {
	if !l.running.TryLock() {
		return ErrRunning
	}
	defer l.running.Unlock()
	timer := time.NewTicker(l.opts.Every)
	defer timer.Stop()
	for ctx.Err() == nil {
		if err := l.CatchUp(ctx); err != nil && ctx.Err() == nil {
			l.opts.Made(logproof.Checkpoint{}, err)
			l.opts.Logger.ErrorContext(ctx, "no checkpoint made", "err", err)
		}
		select {
		case <-ctx.Done():
		case <-l.wake:
		case <-timer.C:
		}
	}
	return nil
}

// Wake makes Run look for entries now. Call it after a transaction with an
// Append was committed.
func (l *Log) Wake() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// CatchUp makes checkpoints of all that was appended before, as Run does.
// ErrBroken.
func (l *Log) CatchUp(ctx context.Context) error {
	for {
		due, err := l.due(ctx)
		if err != nil || !due {
			return err
		}
		c, _, err := l.Integrate(ctx)
		if err != nil {
			return err
		}
		l.opts.Made(c, nil)
	}
}

// due reports, without writing, whether Integrate has anything to do: an entry
// waits, or the newest checkpoint is not signed by the key.
func (l *Log) due(ctx context.Context) (due bool, err error) {
	err = l.opts.DB.View(ctx, func(ctx context.Context, tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM merklelog_waiting WHERE log = $1)
			OR NOT EXISTS (SELECT 1 FROM merklelog_logs l JOIN merklelog_signatures s ON s.log = l.log AND s.size = l.size
				WHERE l.log = $1 AND s.signer = $2)`, l.id, l.key.String()).Scan(&due)
	})
	if err != nil {
		return false, fmt.Errorf("merklelog: looking for entries: %w", err)
	}
	return due, nil
}

// Integrate gives entries that wait their places, up to 4096 of them, and
// returns the checkpoint that covers them and how many were new. With none it
// returns the newest checkpoint. ErrBroken.
func (l *Log) Integrate(ctx context.Context) (c logproof.Checkpoint, added int, err error) {
	err = l.opts.DB.Tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		size, err := l.head(ctx, tx)
		if err != nil {
			return err
		}
		hashes, err := l.take(ctx, tx, size)
		if err != nil {
			return err
		}
		added = len(hashes)
		c, err = l.extend(ctx, tx, size, hashes)
		return err
	})
	if err != nil {
		return logproof.Checkpoint{}, 0, fmt.Errorf("merklelog: making checkpoint: %w", err)
	}
	return c, added, nil
}

// head reads the size and keeps other processes from changing it.
func (l *Log) head(ctx context.Context, tx *sql.Tx) (size int64, err error) {
	err = tx.QueryRowContext(ctx, `SELECT size FROM merklelog_logs WHERE log = $1`+l.forLock, l.id).Scan(&size)
	return size, err
}

// take gives entries that wait places from size on, and returns their hashes in
// order. One that has a place already only stops waiting.
func (l *Log) take(ctx context.Context, tx *sql.Tx, size int64) ([]tlog.Hash, error) {
	var last sql.NullInt64
	err := tx.QueryRowContext(ctx, `SELECT max(seq) FROM (SELECT seq FROM merklelog_waiting WHERE log = $1 ORDER BY seq LIMIT $2) AS w`,
		l.id, maxBatch).Scan(&last)
	if err != nil || !last.Valid {
		return nil, err
	}
	hashes, err := l.place(ctx, tx, size, last.Int64)
	if err != nil {
		return nil, err
	}
	_, err = tx.ExecContext(ctx, `DELETE FROM merklelog_waiting WHERE log = $1 AND seq <= $2`, l.id, last.Int64)
	return hashes, err
}

// place stores the entries that wait up to one of them, each behind the other.
func (l *Log) place(ctx context.Context, tx *sql.Tx, size, last int64) ([]tlog.Hash, error) {
	rows, err := tx.QueryContext(ctx, `INSERT INTO merklelog_leaves (log, idx, leaf)
		SELECT $1, $2 + row_number() OVER (ORDER BY w.first) - 1, w.leaf
		FROM (SELECT leaf, min(seq) AS first FROM merklelog_waiting WHERE log = $1 AND seq <= $3 GROUP BY leaf) AS w
		WHERE NOT EXISTS (SELECT 1 FROM merklelog_leaves l WHERE l.log = $1 AND l.leaf = w.leaf)
		RETURNING idx, leaf`, l.id, size, last)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	type entry struct {
		index int64
		hash  tlog.Hash
	}
	var entries []entry
	for rows.Next() {
		var e entry
		var leaf []byte
		if err := rows.Scan(&e.index, &leaf); err != nil {
			return nil, err
		}
		e.hash = tlog.RecordHash(leaf)
		entries = append(entries, e)
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	slices.SortFunc(entries, func(a, b entry) int { return cmp.Compare(a.index, b.index) })
	hashes := make([]tlog.Hash, len(entries))
	for i, e := range entries {
		hashes[i] = e.hash
	}
	return hashes, nil
}

// extend adds hashes to a tree and signs the result.
func (l *Log) extend(ctx context.Context, tx *sql.Tx, size int64, hashes []tlog.Hash) (logproof.Checkpoint, error) {
	tree := l.tiles(ctx, tx)
	if err := l.compare(tree, size); err != nil {
		return logproof.Checkpoint{}, err
	}
	if err := tree.append(0, size, hashes); err != nil {
		return logproof.Checkpoint{}, err
	}
	if err := tree.save(); err != nil {
		return logproof.Checkpoint{}, err
	}
	c := logproof.Checkpoint{Origin: l.opts.Origin, Size: size + int64(len(hashes))}
	var err error
	if c.Root, err = tlog.TreeHash(c.Size, tree); err != nil {
		return logproof.Checkpoint{}, err
	}
	if _, err := tx.ExecContext(ctx, `UPDATE merklelog_logs SET size = $1 WHERE log = $2`, c.Size, l.id); err != nil {
		return logproof.Checkpoint{}, err
	}
	return c, l.sign(ctx, tx, c)
}

// compare holds the stored tree against the last signed checkpoint.
func (l *Log) compare(tree *tiles, size int64) error {
	last, err := l.newest(tree.ctx, tree.tx)
	if errors.Is(err, ErrUnknown) && size == 0 {
		return nil // the first checkpoint
	}
	if err != nil {
		return err
	}
	root, err := tlog.TreeHash(size, tree)
	if err != nil {
		return err
	}
	if last.Size != size || last.Root != root {
		return fmt.Errorf("%w: at size %d", ErrBroken, size)
	}
	return nil
}

// sign stores a checkpoint with the log's signature.
func (l *Log) sign(ctx context.Context, tx *sql.Tx, c logproof.Checkpoint) error {
	now := l.opts.Now()
	line, err := logproof.Sign(c.Text(), l.key, l.opts.Key, now)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO merklelog_checkpoints (log, size, root, made) VALUES ($1, $2, $3, $4)
		ON CONFLICT (log, size) DO NOTHING`, l.id, c.Size, c.Root[:], now.Unix())
	if err != nil {
		return fmt.Errorf("storing checkpoint: %w", err)
	}
	return l.storeLine(ctx, tx, c.Size, l.key, line)
}

// storeLine keeps the last signature of a key under a checkpoint.
func (l *Log) storeLine(ctx context.Context, tx *sql.Tx, size int64, key logproof.Key, line string) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO merklelog_signatures (log, size, signer, witness, line) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (log, size, signer) DO UPDATE SET line = excluded.line`, l.id, size, key.String(), key.IsWitness(), line)
	if err != nil {
		return fmt.Errorf("storing signature: %w", err)
	}
	return nil
}
