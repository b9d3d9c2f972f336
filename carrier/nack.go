package carrier

import (
	"context"
	"database/sql"
	"encoding/json"
	"time"

	"github.com/parleykit/parley/protocol/message"
)

// Bounds of nacks. The first is sent when no part has come for nackPause, the
// next after twice as long, and so on; maxNacks are sent, and heeded, for one
// message.
const (
	nackPause = time.Minute
	maxNacks  = 5
	nackTTL   = time.Hour
)

// nackLoop asks contacts for the parts that are missing.
func (e *Engine) nackLoop(ctx context.Context) {
	for ctx.Err() == nil {
		sleep(ctx, nackPause)
		if err := e.nackParts(ctx); err != nil && ctx.Err() == nil {
			e.logger.WarnContext(ctx, "asking for missing parts", "err", err)
		}
	}
}

// incomplete is a contact's message of which parts are missing.
type incomplete struct {
	sender, digest string
	total, times   int
}

// nackParts queues a nack for every incomplete message that is due for one.
func (e *Engine) nackParts(ctx context.Context) error {
	now := e.now()
	sent := 0
	err := e.db.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		sent = 0
		due, err := dueNacks(ctx, tx, now)
		if err != nil {
			return err
		}
		for _, waiting := range due {
			if err := e.queueNack(ctx, tx, waiting, now); err != nil {
				return err
			}
			sent++
		}
		return nil
	})
	if err == nil && sent > 0 {
		e.metrics.nacks.WithLabelValues("queued").Add(float64(sent))
		wake(e.wakeOut)
	}
	return err
}

func dueNacks(ctx context.Context, tx *sql.Tx, now time.Time) (due []incomplete, err error) {
	rows, err := tx.QueryContext(ctx, `SELECT p.sender, p.digest, max(p.total), coalesce(max(n.times), 0),
		max(p.received_at), coalesce(max(n.sent_at), 0)
		FROM carrier_parts p LEFT JOIN carrier_nacks n ON n.sender = p.sender AND n.digest = p.digest
		JOIN carrier_contacts c ON c.pubkey = p.sender
		GROUP BY p.sender, p.digest ORDER BY min(p.received_at), p.digest LIMIT 64`)
	if err != nil {
		return nil, err
	}
	all, err := scanAll(rows, func(rows *sql.Rows) (*incomplete, error) {
		var w incomplete
		var received, sent int64
		if err := rows.Scan(&w.sender, &w.digest, &w.total, &w.times, &received, &sent); err != nil {
			return nil, err
		}
		quiet := now.Add(-nackPause).Unix() >= received
		if !quiet || w.times >= maxNacks || sent > 0 && now.Add(-nackPause<<w.times).Unix() < sent {
			return nil, nil
		}
		return &w, nil
	})
	for _, w := range all {
		if w != nil {
			due = append(due, *w)
		}
	}
	return due, err
}

func (e *Engine) queueNack(ctx context.Context, tx *sql.Tx, w incomplete, now time.Time) error {
	parts, _, err := storedParts(ctx, tx, w.sender, w.digest)
	if err != nil {
		return err
	}
	here := make(map[int]bool)
	for _, part := range parts {
		here[part.Index] = true
	}
	body := message.Nack{Digest: w.digest, Reason: "parts are missing", Missing: missingRanges(here, w.total)}
	m, err := message.New(message.TypeNack, e.me, w.sender, body, now, nackTTL)
	if err != nil {
		return err
	}
	if _, err := e.enqueue(ctx, tx, m, route{}); err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO carrier_nacks (sender, digest, times, sent_at) VALUES ($1, $2, 1, $3)
		ON CONFLICT (sender, digest) DO UPDATE SET times = carrier_nacks.times + 1, sent_at = excluded.sent_at`,
		w.sender, w.digest, now.Unix())
	return err
}

// missingRanges lists what is not here of 1 to total.
func missingRanges(here map[int]bool, total int) (ranges []message.Range) {
	for i := 1; i <= total; i++ {
		switch {
		case here[i]:
		case len(ranges) > 0 && ranges[len(ranges)-1].To == i-1:
			ranges[len(ranges)-1].To = i
		default:
			ranges = append(ranges, message.Range{From: i, To: i})
		}
	}
	return ranges
}

// expireNacks forgets nacks for parts that have long expired.
func expireNacks(ctx context.Context, tx *sql.Tx, now time.Time) error {
	_, err := tx.ExecContext(ctx, "DELETE FROM carrier_nacks WHERE sent_at <= $1", now.Add(-partsLifetime).Unix())
	return err
}

// applyNack notes which parts of a sent message its recipient misses, to send
// exactly those again. What is still being sent, or acked, is left alone.
func (e *Engine) applyNack(ctx context.Context, tx *sql.Tx, in *arrival, body message.Nack) (matched bool, err error) {
	var known int
	err = tx.QueryRowContext(ctx, "SELECT count(*) FROM carrier_outbox WHERE recipient = $1 AND digest = $2", in.Sender, body.Digest).Scan(&known)
	if err != nil || known == 0 {
		return false, err
	}
	wanted, err := json.Marshal(body.Missing)
	if err != nil {
		return false, err
	}
	e.metrics.nacks.WithLabelValues("received").Inc()
	_, err = tx.ExecContext(ctx, `UPDATE carrier_outbox SET wanted = $1, nacks = nacks + 1, due_ms = $2
		WHERE recipient = $3 AND digest = $4 AND state = 'sent' AND nacks < $5 AND expires_at > $6`,
		string(wanted), in.now.UnixMilli(), in.Sender, body.Digest, maxNacks, in.now.Unix())
	return true, err
}

// wantedParts reads the indexes of the wraps that a recipient asked for.
func wantedParts(wanted string, total int) map[int]bool {
	var ranges []message.Range
	if wanted == "" || json.Unmarshal([]byte(wanted), &ranges) != nil {
		return nil
	}
	parts := make(map[int]bool)
	for _, r := range ranges {
		for i := max(r.From, 1); i <= min(r.To, total); i++ {
			parts[i-1] = true
		}
	}
	return parts
}
