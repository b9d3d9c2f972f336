package relay

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nbd-wtf/go-nostr"
)

const (
	// A deletion request is read whole, since what it asked for goes with it.
	expiredSQL = `SELECT id, recipient, address, CASE WHEN kind = 5 THEN json END
		FROM relay_events WHERE expires <= $1 ORDER BY expires, id LIMIT $2`
	// A later request for the same target has moved the time on, and holds.
	exhumeSQL = `DELETE FROM relay_tombstones t USING unnest($1::bytea[], $2::bigint[]) AS gone (key, created_at)
		WHERE t.key = gone.key AND t.created_at = gone.created_at`
)

// postgresSweep is what one removal of expired events takes along.
type postgresSweep struct {
	ids, recipients [][]byte
	stones          [][]byte            // keys of tombstones
	stoneTimes      []int64             // when the request of each was made
	words           map[string]struct{} // to lock
}

// sweepFrom removes expired events in the open transaction.
func sweepFrom(ctx context.Context, tx pgx.Tx, now time.Time, limit int) (int, error) {
	sweep := postgresSweep{words: map[string]struct{}{}}
	rows, err := tx.Query(ctx, expiredSQL, now.Unix(), limit)
	if err != nil {
		return 0, fmt.Errorf("reading expirations: %w", err)
	}
	var id, recipient, address, request []byte
	_, err = pgx.ForEachRow(rows, []any{&id, &recipient, &address, &request}, func() error {
		return sweep.add(slices.Clone(id), slices.Clone(recipient), address, request)
	})
	if err != nil || len(sweep.ids) == 0 {
		return 0, err
	}
	return sweep.remove(ctx, tx)
}

func (s *postgresSweep) add(id, recipient, address, request []byte) error {
	s.ids = append(s.ids, id)
	s.lock(id, recipient, address)
	if len(recipient) > 0 {
		s.recipients = append(s.recipients, recipient)
	}
	if request == nil {
		return nil
	}
	rec, err := recordOf(request, 0, nil)
	if err != nil {
		return err
	}
	s.exhume(rec.Event)
	return nil
}

// exhume notes the tombstones that a deletion request set.
func (s *postgresSweep) exhume(del *nostr.Event) {
	ids, addresses := deletionTargets(del)
	for _, id := range ids {
		s.lock(unhex(id))
		s.stones = append(s.stones, []byte(tombstoneOfID(id, del.PubKey)))
	}
	for _, a := range addresses {
		s.lock([]byte(a.column()))
		s.stones = append(s.stones, []byte(a.column()))
	}
	for len(s.stoneTimes) < len(s.stones) {
		s.stoneTimes = append(s.stoneTimes, int64(del.CreatedAt))
	}
}

func (s *postgresSweep) lock(words ...[]byte) {
	for _, w := range words {
		if len(w) > 0 {
			s.words[string(w)] = struct{}{}
		}
	}
}

func (s *postgresSweep) remove(ctx context.Context, tx pgx.Tx) (removed int, err error) {
	batch := &pgx.Batch{}
	lockWords(batch, s.words)
	batch.Queue(removeSQL, s.ids).QueryRow(func(row pgx.Row) error { return row.Scan(&removed) })
	if len(s.recipients) > 0 {
		batch.Queue(forgetSQL, s.recipients)
	}
	if len(s.stones) > 0 {
		batch.Queue(exhumeSQL, s.stones, s.stoneTimes)
	}
	return removed, tx.SendBatch(ctx, batch).Close()
}
