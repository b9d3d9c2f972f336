package relay

import (
	"context"
	"encoding/hex"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/jackc/pgx/v5"
	"github.com/nbd-wtf/go-nostr"
)

const (
	wholeRows  = 4         // events named directly whose JSON is read at once
	bodyBytes  = 256 << 10 // JSON read at one time for one query
	bodyEvents = 64        // events read at one time for one query
)

// postgresReading is one running query. It reads a page of index entries at a
// time, then the events it wants of them, and holds no connection while the
// caller has an event: a peer that reads slowly costs no connection. An event
// that is removed in between is left out.
type postgresReading struct {
	store  *postgresStore
	ctx    context.Context
	filter nostr.Filter
	now    time.Time
	scan   int
	yield  func(*Record, error) bool
	left   int // records that may still be yielded, -1 for any number

	age, last int64 // entries after (age, id) up to the age last are unread
	id        []byte
}

// Query implements Store.
func (s *postgresStore) Query(ctx context.Context, f nostr.Filter, now time.Time, scan int) iter.Seq2[*Record, error] {
	return func(yield func(*Record, error) bool) {
		if f.LimitZero || (f.Until != nil && *f.Until < 0) {
			return
		}
		q := &postgresReading{store: s, ctx: ctx, filter: f, now: now, scan: scan, yield: yield, left: -1, id: []byte{}}
		q.age, q.last = span(f)
		if f.Limit > 0 {
			q.left = f.Limit
		}
		if err := q.run(); err != nil {
			yield(nil, s.failure(err))
		}
	}
}

// run picks the way to the events: direct keys when the filter names them,
// else the index that holds the fewest entries for it.
func (q *postgresReading) run() error {
	if impossible(q.filter) {
		return q.ping()
	}
	if q.filter.IDs != nil {
		return q.direct("id", unhexAll(q.filter.IDs))
	}
	if addresses, ok := addressesOf(q.filter); ok {
		keys := make([][]byte, len(addresses))
		for i, a := range addresses {
			keys[i] = []byte(a.column())
		}
		return q.direct("address", keys)
	}
	src, err := q.plan()
	if err != nil {
		return err
	}
	return q.walk(src)
}

// impossible reports whether a list of the filter is empty.
func impossible(f nostr.Filter) bool {
	empty := (f.IDs != nil && len(f.IDs) == 0) || (f.Authors != nil && len(f.Authors) == 0) || (f.Kinds != nil && len(f.Kinds) == 0)
	for _, values := range f.Tags {
		empty = empty || len(values) == 0
	}
	return empty
}

// ping asks nothing; only a closed store is an error.
func (q *postgresReading) ping() error {
	if q.store.closed.Load() {
		return ErrStoreClosed
	}
	return nil
}

// row is an index entry with what the filter asks for.
type row struct {
	entry
	age       int64
	key       []byte
	kind      int
	pubkey    string
	expires   int64
	size      int
	json      []byte // or nil
	recipient []byte
}

// rows runs a query for index entries.
func (q *postgresReading) rows(sql string, args ...any) ([]row, error) {
	result, err := q.store.pool.Query(q.ctx, sql, args...)
	if err != nil {
		return nil, fmt.Errorf("reading index: %w", err)
	}
	rows, err := pgx.CollectRows(result, func(r pgx.CollectableRow) (row, error) {
		var one row
		var pubkey []byte
		err := r.Scan(&one.age, &one.key, &one.kind, &pubkey, &one.expires, &one.size, &one.json, &one.recipient)
		one.entry = entry{nostr.Timestamp(-one.age), hex.EncodeToString(one.key)}
		one.pubkey = hex.EncodeToString(pubkey)
		return one, err
	})
	if err != nil {
		return nil, fmt.Errorf("reading index: %w", err)
	}
	return rows, nil
}

// direct yields the events that are named by unique keys.
func (q *postgresReading) direct(column string, keys [][]byte) error {
	rows, err := q.rows(directSQL(column, len(keys) <= wholeRows), keys)
	if err != nil {
		return err
	}
	_, err = q.emitRows(rows)
	return err
}

// walk yields the matching events of a source page by page, and stops as soon
// as enough are found or too many entries were read.
func (q *postgresReading) walk(src source) error {
	sql, size := src.entries(), src.pageSize()
	for {
		rows, err := q.rows(sql, append([]any{q.age, q.id, q.last}, src.lists...)...)
		if err != nil {
			return err
		}
		full := len(rows) == size
		broad := len(rows) > q.scan
		if full {
			q.age, q.id = rows[size-1].age, rows[size-1].key
		}
		rows = rows[:min(len(rows), q.scan)]
		q.scan -= len(rows)
		if more, err := q.emitRows(rows); err != nil || !more {
			return err
		}
		switch {
		case broad:
			return ErrTooBroad
		case !full:
			return nil
		}
	}
}

// emitRows yields the events of the rows that match, and reports whether more
// are wanted. It reads no more JSON at a time than it must.
func (q *postgresReading) emitRows(rows []row) (more bool, err error) {
	rows = slices.DeleteFunc(rows, func(r row) bool { return !q.wants(r) })
	for len(rows) > 0 {
		n, size := 0, 0
		for n < len(rows) && n < bodyEvents && (q.left < 0 || n < q.left) && (n == 0 || size+rows[n].size <= bodyBytes) {
			size += rows[n].size
			n++
		}
		records, err := q.fetch(rows[:n])
		if err != nil {
			return false, err
		}
		for _, rec := range records {
			if !q.emit(rec) {
				return false, nil
			}
		}
		rows = rows[n:]
	}
	return true, nil
}

// wants compares what the index row tells with the filter.
func (q *postgresReading) wants(r row) bool {
	f := q.filter
	return (r.expires == 0 || r.expires > q.now.Unix()) &&
		(f.Kinds == nil || slices.Contains(f.Kinds, r.kind)) &&
		(f.Authors == nil || slices.Contains(f.Authors, r.pubkey)) &&
		(f.Since == nil || r.at >= *f.Since) && (f.Until == nil || r.at <= *f.Until)
}

// emit yields rec and reports whether another one is wanted.
func (q *postgresReading) emit(rec *Record) bool {
	if !q.filter.Matches(rec.Event) {
		return true
	}
	if q.left > 0 {
		q.left--
	}
	return q.yield(rec, nil) && q.left != 0
}

// fetch reads the events of the rows that are still stored, in their order.
func (q *postgresReading) fetch(rows []row) ([]*Record, error) {
	if rows[0].json != nil {
		return decodeRows(rows)
	}
	keys := make([][]byte, len(rows))
	for i, r := range rows {
		keys[i] = r.key
	}
	return q.store.fetch(q.ctx, keys)
}

func decodeRows(rows []row) ([]*Record, error) {
	var records []*Record
	for _, r := range rows {
		rec, err := recordOf(r.json, r.expires, r.recipient)
		if err != nil {
			return nil, err
		}
		records = append(records, rec)
	}
	return records, nil
}

const fetchSQL = `SELECT json, coalesce(expires, 0), recipient FROM relay_events WHERE id = ANY($1::bytea[]) ORDER BY age, id`

// fetch reads events by their ids, those that are stored, in the order of
// answers.
func (s *postgresStore) fetch(ctx context.Context, ids [][]byte) ([]*Record, error) {
	result, err := s.pool.Query(ctx, fetchSQL, ids)
	if err != nil {
		return nil, fmt.Errorf("reading events: %w", err)
	}
	records, err := pgx.CollectRows(result, func(r pgx.CollectableRow) (*Record, error) {
		var data, recipient []byte
		var expires int64
		if err := r.Scan(&data, &expires, &recipient); err != nil {
			return nil, err
		}
		return recordOf(data, expires, recipient)
	})
	if err != nil {
		return nil, fmt.Errorf("reading events: %w", err)
	}
	return records, nil
}

// recordOf reads a stored event.
func recordOf(data []byte, expires int64, recipient []byte) (*Record, error) {
	rec := &Record{JSON: data, Expires: expires, Recipient: hex.EncodeToString(recipient)}
	var w wireEvent
	if err := json.Unmarshal(data, &w); err != nil {
		return nil, fmt.Errorf("reading stored event: %w", err)
	}
	rec.Event = w.event()
	return rec, nil
}
