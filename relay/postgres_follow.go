package relay

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/parleykit/parley/protocol/canonical"
)

const (
	hexID         = 2 * idSize
	notifyChannel = "relay_events"
	notifiedIDs   = 7999 / hexID    // of one notification; its text is below 8000 bytes
	followPage    = 1000            // ids read at one time
	followRound   = 5 * time.Second // between two readings of what a notification may have missed
	followPause   = 5 * time.Second // the longest one before connecting again
	maxKnown      = 1 << 16         // ids remembered to drop what comes twice
)

// horizonSQL is the oldest transaction still running: every earlier one is
// over, and what it stored can be seen.
const horizonSQL = `SELECT pg_snapshot_xmin(pg_current_snapshot())::text`

// Follow implements SharedStore. Notifications carry ids only; the events are
// read from the table. What notifications miss, because the connection was
// lost or the server restarted, is found in rounds: each reads the ids of all
// transactions that were not over when the last round began.
func (s *postgresStore) Follow(ctx context.Context, to Follower) {
	pause := followPause / 64
	for ctx.Err() == nil {
		heard, err := s.listen(ctx, to)
		if ctx.Err() != nil || s.closed.Load() {
			return
		}
		if heard {
			pause = followPause / 64
		}
		s.log.WarnContext(ctx, "following events of other processes", "err", err, "again_in", pause)
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		pause = min(2*pause, followPause)
	}
}

// listen follows on one connection until it fails; heard tells that it worked
// at first.
func (s *postgresStore) listen(ctx context.Context, to Follower) (heard bool, err error) {
	cfg := s.pool.Config().ConnConfig.Copy()
	cfg.RuntimeParams["application_name"] = "parley relay follow"
	if err := s.opts.authenticate(ctx, cfg); err != nil {
		return false, err
	}
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return false, fmt.Errorf("connecting: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // It is given up.
	if _, err := conn.Exec(ctx, "LISTEN "+notifyChannel); err != nil {
		return false, fmt.Errorf("listening: %w", err)
	}
	for {
		if err := s.round(ctx, to); err != nil {
			return heard, err
		}
		heard = true
		if err := s.hear(ctx, conn, to); err != nil {
			return heard, err
		}
	}
}

// hear takes notifications until the next round is due.
func (s *postgresStore) hear(ctx context.Context, conn *pgx.Conn, to Follower) error {
	due, cancel := context.WithTimeout(ctx, followRound)
	defer cancel()
	for {
		n, err := conn.WaitForNotification(due)
		switch {
		case err != nil && ctx.Err() == nil && errors.Is(due.Err(), context.DeadlineExceeded) && !conn.IsClosed():
			return nil
		case err != nil:
			return fmt.Errorf("waiting for notifications: %w", err)
		}
		if err := s.take(ctx, splitIDs(n.Payload), to); err != nil {
			return err
		}
	}
}

// splitIDs reads a notification; anybody with the right to connect to the
// database can send one, so another text is nothing.
func splitIDs(payload string) []string {
	var ids []string
	for len(payload) >= hexID {
		if id := payload[:hexID]; canonical.IsHex(id, idSize) {
			ids = append(ids, id)
		}
		payload = payload[hexID:]
	}
	return ids
}

// round offers what the transactions since the last round stored.
func (s *postgresStore) round(ctx context.Context, to Follower) error {
	settled := to.Round()
	var next string
	if err := s.pool.QueryRow(ctx, horizonSQL).Scan(&next); err != nil {
		return fmt.Errorf("reading transactions: %w", err)
	}
	for xact, id := s.horizon, []byte{}; ; {
		ids, lastXact, err := s.since(ctx, xact, id)
		if err != nil {
			return err
		}
		if err := s.take(ctx, ids, to); err != nil {
			return err
		}
		if len(ids) < followPage {
			break
		}
		xact, id = lastXact, unhex(ids[len(ids)-1])
	}
	s.horizon = next
	settled()
	return nil
}

const sinceSQL = `SELECT xact::text, id FROM relay_events
	WHERE (xact, id) > ($1::text::xid8, $2::bytea) ORDER BY xact, id LIMIT $3`

// since reads the next ids in the order of transactions.
func (s *postgresStore) since(ctx context.Context, xact string, after []byte) (ids []string, last string, err error) {
	rows, err := s.pool.Query(ctx, sinceSQL, xact, after, followPage)
	if err != nil {
		return nil, "", fmt.Errorf("reading transactions: %w", err)
	}
	var id []byte
	_, err = pgx.ForEachRow(rows, []any{&last, &id}, func() error {
		ids = append(ids, hex.EncodeToString(id))
		return nil
	})
	if err != nil {
		return nil, "", fmt.Errorf("reading transactions: %w", err)
	}
	return ids, last, nil
}

// take offers the events of the ids that are not known yet.
func (s *postgresStore) take(ctx context.Context, ids []string, to Follower) error {
	fresh := s.known.add(ids)
	for len(fresh) > 0 {
		part := fresh[:min(len(fresh), bodyEvents)]
		records, err := s.fetch(ctx, unhexAll(part))
		if err != nil {
			s.known.forget(fresh) // the next round finds them
			return err
		}
		fresh = fresh[len(part):]
		if len(records) > 0 {
			to.Offer(records)
		}
	}
	return nil
}

// knownIDs remembers the latest ids.
type knownIDs struct {
	mu   sync.Mutex
	set  map[string]struct{} // 32 bytes each
	ring []string
	next int
}

func newKnownIDs(limit int) *knownIDs {
	return &knownIDs{set: map[string]struct{}{}, ring: make([]string, limit)}
}

// add returns the ids that were not known and remembers them.
func (k *knownIDs) add(ids []string) (fresh []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, id := range ids {
		key := string(unhex(id))
		if _, found := k.set[key]; found {
			continue
		}
		delete(k.set, k.ring[k.next])
		k.ring[k.next] = key
		k.next = (k.next + 1) % len(k.ring)
		k.set[key] = struct{}{}
		fresh = append(fresh, id)
	}
	return fresh
}

// forget takes ids out again.
func (k *knownIDs) forget(ids []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, id := range ids {
		delete(k.set, string(unhex(id)))
	}
}
