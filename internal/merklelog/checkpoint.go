package merklelog

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/parleykit/parley/protocol/logproof"
)

// recent is among how many of the newest checkpoints Proof looks for the one
// with the most cosignatures.
const recent = 64

// newest is the last checkpoint. ErrUnknown before New made the first.
func (l *Log) newest(ctx context.Context, tx *sql.Tx) (*logproof.Checkpoint, error) {
	return l.checkpoint(ctx, tx, `SELECT size, root FROM merklelog_checkpoints WHERE log = $1 ORDER BY size DESC LIMIT 1`, l.id)
}

// ofSize is the checkpoint of a size. ErrUnknown.
func (l *Log) ofSize(ctx context.Context, tx *sql.Tx, size int64) (*logproof.Checkpoint, error) {
	return l.checkpoint(ctx, tx, `SELECT size, root FROM merklelog_checkpoints WHERE log = $1 AND size = $2`, l.id, size)
}

// covering is, of the newest checkpoints that cover an entry, the one with the
// most cosignatures, and of these the newest.
func (l *Log) covering(ctx context.Context, tx *sql.Tx, index int64) (*logproof.Checkpoint, error) {
	return l.checkpoint(ctx, tx, `SELECT c.size, c.root
		FROM (SELECT size, root FROM merklelog_checkpoints WHERE log = $1 AND size > $2 ORDER BY size DESC LIMIT $3) AS c
		ORDER BY (SELECT count(*) FROM merklelog_signatures s WHERE s.log = $1 AND s.size = c.size AND s.witness) DESC, c.size DESC
		LIMIT 1`, l.id, index, recent)
}

func (l *Log) checkpoint(ctx context.Context, tx *sql.Tx, query string, args ...any) (*logproof.Checkpoint, error) {
	c := &logproof.Checkpoint{Origin: l.opts.Origin}
	var root []byte
	err := tx.QueryRowContext(ctx, query, args...).Scan(&c.Size, &root)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, fmt.Errorf("%w: no such checkpoint", ErrUnknown)
	case err != nil:
		return nil, fmt.Errorf("reading checkpoint: %w", err)
	case len(root) != len(c.Root):
		return nil, fmt.Errorf("%w: root of %d bytes", ErrBroken, len(root))
	}
	copy(c.Root[:], root)
	return c, nil
}

// signed is a checkpoint with all its signatures, the log's first.
func (l *Log) signed(ctx context.Context, tx *sql.Tx, c *logproof.Checkpoint) (string, error) {
	rows, err := tx.QueryContext(ctx, `SELECT line FROM merklelog_signatures WHERE log = $1 AND size = $2 ORDER BY witness, signer`, l.id, c.Size)
	if err != nil {
		return "", fmt.Errorf("reading signatures: %w", err)
	}
	defer rows.Close()
	var note strings.Builder
	note.WriteString(c.Text() + "\n")
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			return "", fmt.Errorf("reading signatures: %w", err)
		}
		note.WriteString(line)
	}
	return note.String(), rows.Err()
}

// Checkpoint is the newest checkpoint with its signatures (C2SP
// tlog-checkpoint).
func (l *Log) Checkpoint(ctx context.Context) (signed string, err error) {
	err = l.opts.DB.View(ctx, func(ctx context.Context, tx *sql.Tx) error {
		c, err := l.newest(ctx, tx)
		if err != nil {
			return err
		}
		signed, err = l.signed(ctx, tx, c)
		return err
	})
	return signed, err
}

// Proof proves an entry by one of the newest checkpoints: the one with the most
// cosignatures. ErrUnknown, ErrWaiting, ErrBroken.
func (l *Log) Proof(ctx context.Context, leaf []byte) (proof *logproof.Proof, err error) {
	err = l.opts.DB.View(ctx, func(ctx context.Context, tx *sql.Tx) error {
		index, err := l.Index(ctx, tx, leaf)
		if err != nil {
			return err
		}
		c, err := l.covering(ctx, tx, index)
		if err != nil {
			return err
		}
		proof, err = l.prove(ctx, tx, c, index)
		return err
	})
	return proof, err
}

func (l *Log) prove(ctx context.Context, tx *sql.Tx, c *logproof.Checkpoint, index int64) (*logproof.Proof, error) {
	path, err := tlog.ProveRecord(c.Size, index, l.checked(ctx, tx, c))
	if err != nil {
		return nil, broken(err)
	}
	signed, err := l.signed(ctx, tx, c)
	return &logproof.Proof{Index: index, Path: path, Checkpoint: signed}, err
}

// checked reads hashes that belong under the root of a checkpoint.
func (l *Log) checked(ctx context.Context, tx *sql.Tx, c *logproof.Checkpoint) tlog.HashReader {
	return tlog.TileHashReader(tlog.Tree{N: c.Size, Hash: c.Root}, l.tiles(ctx, tx))
}

// broken names the error of hashes that do not lead to the signed root, unless
// the database itself failed.
func broken(err error) error {
	if errors.Unwrap(err) != nil {
		return err
	}
	return fmt.Errorf("%w: %w", ErrBroken, err)
}

// Consistency proves that the checkpoint of one size begins with the entries
// of another size. There must be a checkpoint of newer. ErrUnknown.
func (l *Log) Consistency(ctx context.Context, older, newer int64) (path []logproof.Hash, err error) {
	err = l.opts.DB.View(ctx, func(ctx context.Context, tx *sql.Tx) error {
		c, err := l.ofSize(ctx, tx, newer)
		if err != nil {
			return err
		}
		path, err = l.proveExtension(ctx, tx, older, c)
		return err
	})
	return path, err
}

func (l *Log) proveExtension(ctx context.Context, tx *sql.Tx, older int64, c *logproof.Checkpoint) ([]logproof.Hash, error) {
	switch {
	case older < 0 || older > c.Size:
		return nil, fmt.Errorf("%w: size %d", ErrUnknown, older)
	case older == 0 || older == c.Size:
		return nil, nil
	}
	path, err := tlog.ProveTree(c.Size, older, l.checked(ctx, tx, c))
	if err != nil {
		return nil, broken(err)
	}
	return path, nil
}

// Cosign stores cosignatures of the newest or an older checkpoint: lines as a
// witness answered them. Lines of keys that are not in Options.Witnesses are
// passed over. It returns how many were good; one that is not by its key
// makes all fail with logproof.ErrSignature. ErrUnknown.
func (l *Log) Cosign(ctx context.Context, size int64, lines string) (stored int, err error) {
	if len(lines) > logproof.MaxNote/2 {
		return 0, fmt.Errorf("%w: cosignatures of %d bytes", ErrInvalid, len(lines))
	}
	err = l.opts.DB.Tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		stored = 0
		c, err := l.ofSize(ctx, tx, size)
		if err != nil {
			return err
		}
		good, err := l.verifyLines(c, lines)
		if err != nil {
			return err
		}
		for key, line := range good {
			if err := l.storeLine(ctx, tx, size, key, line); err != nil {
				return err
			}
			stored++
		}
		return nil
	})
	return stored, err
}

// verifyLines picks the good cosignatures of known witnesses.
func (l *Log) verifyLines(c *logproof.Checkpoint, lines string) (map[logproof.Key]string, error) {
	own, err := logproof.Sign(c.Text(), l.key, l.opts.Key, l.opts.Now())
	if err != nil {
		return nil, err
	}
	good := make(map[logproof.Key]string)
	for line := range strings.Lines(lines) {
		opened, err := logproof.Open(c.Text()+"\n"+own+line, logproof.Policy{Log: l.key, Witnesses: l.opts.Witnesses})
		if err != nil {
			return nil, fmt.Errorf("cosignature: %w", err)
		}
		for _, cosignature := range opened.Cosignatures {
			good[cosignature.Key] = line
		}
	}
	return good, nil
}
