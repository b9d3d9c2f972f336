package relay

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// erasedPage is how many events Involving reads at once.
const erasedPage = 64

// involvingSQL are ids of events by a person ($1) or with its p tag ($2).
const involvingSQL = `SELECT id FROM relay_events WHERE pubkey = $1::bytea UNION SELECT id FROM relay_tags WHERE tag = $2::bytea`

// involvingKeys are the arguments of involvingSQL.
func involvingKeys(person string) (pubkey, tag []byte) {
	return unhex(person), tagPrefix('p', person)[1:]
}

// Involving implements Store.
func (s *postgresStore) Involving(ctx context.Context, person string) iter.Seq2[*Record, error] {
	return func(yield func(*Record, error) bool) {
		pubkey, tag := involvingKeys(person)
		for after := []byte{}; ; {
			rows, err := s.pool.Query(ctx, `SELECT id FROM (`+involvingSQL+`) found WHERE id > $3 ORDER BY id LIMIT $4`, pubkey, tag, after, erasedPage)
			if err != nil {
				yield(nil, s.failure(fmt.Errorf("reading events: %w", err)))
				return
			}
			ids, err := pgx.CollectRows(rows, pgx.RowTo[[]byte])
			if err == nil && len(ids) == 0 {
				return
			}
			var records []*Record
			if err == nil {
				records, err = s.fetch(ctx, ids)
			}
			if err != nil {
				yield(nil, s.failure(fmt.Errorf("reading events: %w", err)))
				return
			}
			for _, rec := range records {
				if !yield(rec, nil) {
					return
				}
			}
			after = ids[len(ids)-1]
		}
	}
}

// Erase implements Store.
func (s *postgresStore) Erase(ctx context.Context, person string, now time.Time, limit int) (int, error) {
	removed := 0
	err := s.transact(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
		removed, err = eraseFrom(ctx, tx, person, now.Unix(), limit)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("erasing events: %w", err)
	}
	return removed, nil
}

const erasedSQL = `SELECT id, pubkey, recipient, address, -age FROM relay_events WHERE id IN (` + involvingSQL + `) LIMIT $3`

// eraseFrom removes events of a person in the open transaction, and sets a
// tombstone for each.
func eraseFrom(ctx context.Context, tx pgx.Tx, person string, now int64, limit int) (removed int, err error) {
	erased := postgresSweep{words: map[string]struct{}{}}
	key, tag := involvingKeys(person)
	rows, err := tx.Query(ctx, erasedSQL, key, tag, limit)
	if err != nil {
		return 0, fmt.Errorf("reading events: %w", err)
	}
	stones := map[string]int64{}
	var id, pubkey, recipient, address []byte
	var createdAt int64
	_, err = pgx.ForEachRow(rows, []any{&id, &pubkey, &recipient, &address, &createdAt}, func() error {
		if len(address) > 0 {
			stones[string(address)] = max(now, createdAt)
		} else {
			stones[string(slices.Concat(id, pubkey))] = now
		}
		return erased.add(slices.Clone(id), slices.Clone(recipient), address, nil)
	})
	if err != nil || len(erased.ids) == 0 {
		return 0, err
	}
	if removed, err = erased.remove(ctx, tx); err != nil {
		return 0, err
	}
	graves := &pgx.Batch{}
	bury(graves, stones)
	return removed, tx.SendBatch(ctx, graves).Close()
}

const removedSQL = `SELECT id, recipient, address FROM relay_events WHERE id = ANY($1::bytea[])`

// Remove implements Store.
func (s *postgresStore) Remove(ctx context.Context, ids []string) (int, error) {
	removed := 0
	err := s.transact(ctx, func(ctx context.Context, tx pgx.Tx) error {
		gone := postgresSweep{words: map[string]struct{}{}}
		rows, err := tx.Query(ctx, removedSQL, unhexAll(ids))
		if err != nil {
			return fmt.Errorf("reading events: %w", err)
		}
		var id, recipient, address []byte
		_, err = pgx.ForEachRow(rows, []any{&id, &recipient, &address}, func() error {
			return gone.add(slices.Clone(id), slices.Clone(recipient), address, nil)
		})
		if removed = 0; err != nil || len(gone.ids) == 0 {
			return err
		}
		removed, err = gone.remove(ctx, tx)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("removing events: %w", err)
	}
	return removed, nil
}

// Compact implements Store. The server's autovacuum does that by itself.
func (s *postgresStore) Compact(context.Context) error { return nil }
