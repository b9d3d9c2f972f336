package relay

import (
	"context"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"
)

const (
	rulingVersionSQL = `SELECT coalesce((SELECT at FROM relay_rulings WHERE list = 'version'), 0)`
	rulingsSQL       = `SELECT list, subject, text, admin, at FROM relay_rulings`
	withdrawSQL      = `DELETE FROM relay_rulings WHERE list = $1 AND subject = $2`
	recordSQL        = `INSERT INTO relay_rulings (list, subject, text, admin, at) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (list, subject) DO UPDATE SET text = excluded.text, admin = excluded.admin, at = excluded.at`
	// It comes first, so that transactions that rule follow each other.
	nextVersionSQL = `INSERT INTO relay_rulings (list, subject, text, admin, at) VALUES ('version', '', '', '', 1)
		ON CONFLICT (list, subject) DO UPDATE SET at = relay_rulings.at + 1`
)

// Rulings implements Store.
func (s *postgresStore) Rulings(ctx context.Context, since string) (all []Ruling, version string, err error) {
	var n int64
	if err := s.failure(s.pool.QueryRow(ctx, rulingVersionSQL).Scan(&n)); err != nil {
		return nil, "", fmt.Errorf("reading rulings: %w", err)
	}
	if version = strconv.FormatInt(n, 10); version == since {
		return nil, version, nil
	}
	rows, err := s.pool.Query(ctx, rulingsSQL)
	if err != nil {
		return nil, "", s.failure(fmt.Errorf("reading rulings: %w", err))
	}
	var one Ruling
	_, err = pgx.ForEachRow(rows, []any{&one.List, &one.Subject, &one.Text, &one.Admin, &one.At}, func() error {
		if one.List == "version" { // of what is read here, which may be later than n
			version = strconv.FormatInt(one.At, 10)
			return nil
		}
		all = append(all, one)
		return nil
	})
	if err != nil {
		return nil, "", s.failure(fmt.Errorf("reading rulings: %w", err))
	}
	return all, version, nil
}

// Rule implements Store.
func (s *postgresStore) Rule(ctx context.Context, record, withdraw []Ruling) error {
	err := s.transact(ctx, func(ctx context.Context, tx pgx.Tx) error {
		batch := &pgx.Batch{}
		batch.Queue(nextVersionSQL)
		for _, one := range withdraw {
			batch.Queue(withdrawSQL, string(one.List), one.Subject)
		}
		for _, one := range record {
			batch.Queue(recordSQL, string(one.List), one.Subject, one.Text, one.Admin, one.At)
		}
		return tx.SendBatch(ctx, batch).Close()
	})
	if err != nil {
		return fmt.Errorf("recording rulings: %w", err)
	}
	return nil
}
