package relay

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/nbd-wtf/go-nostr"
)

// reading is one running query on a snapshot.
type reading struct {
	ctx    context.Context
	snap   *pebble.Snapshot
	filter nostr.Filter
	now    time.Time
	scan   int // index entries that may still be read
	yield  func(*Record, error) bool
	left   int // records that may still be yielded, -1 for any number
}

// Query implements Store.
func (s *pebbleStore) Query(ctx context.Context, f nostr.Filter, now time.Time, scan int) iter.Seq2[*Record, error] {
	return func(yield func(*Record, error) bool) {
		if f.LimitZero || (f.Until != nil && *f.Until < 0) {
			return
		}
		if err := s.enter(); err != nil {
			yield(nil, err)
			return
		}
		defer s.life.RUnlock()
		q := &reading{ctx: ctx, snap: s.db.NewSnapshot(), filter: f, now: now, scan: scan, yield: yield, left: -1}
		defer q.snap.Close()
		if f.Limit > 0 {
			q.left = f.Limit
		}
		if err := q.run(); err != nil {
			yield(nil, err)
		}
	}
}

// run picks the way to the events: direct keys when the filter names them,
// else the index that holds the fewest entries for it.
func (q *reading) run() error {
	if q.filter.IDs != nil {
		found, err := q.identified()
		if err != nil {
			return err
		}
		return q.direct(found)
	}
	if found, ok, err := q.addressed(); ok || err != nil {
		if err != nil {
			return err
		}
		return q.direct(found)
	}
	it, err := q.snap.NewIterWithContext(q.ctx, &pebble.IterOptions{})
	if err != nil {
		return fmt.Errorf("reading index: %w", err)
	}
	defer it.Close()
	ranges, err := q.plan(it)
	if err != nil {
		return err
	}
	return q.merge(it, ranges)
}

// entry is a position in the order of answers.
type entry struct {
	at nostr.Timestamp
	id string
}

// compare sorts newer entries first and those of one second by id.
func (e entry) compare(o entry) int {
	switch {
	case e == o:
		return 0
	case newer(e.at, e.id, o.at, o.id):
		return -1
	}
	return 1
}

// identified returns the entries of the filter's ids that are stored.
func (q *reading) identified() ([]entry, error) {
	var found []entry
	for _, id := range q.filter.IDs {
		at, ok, err := createdAt(q.snap, id)
		if err != nil {
			return nil, err
		}
		if ok {
			found = append(found, entry{at, id})
		}
	}
	return found, nil
}

// createdAt reads the time of a stored event from its header.
func createdAt(r pebble.Reader, id string) (nostr.Timestamp, bool, error) {
	v, closer, err := r.Get(eventKey(id))
	if errors.Is(err, pebble.ErrNotFound) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, fmt.Errorf("reading stored event: %w", err)
	}
	defer closer.Close()
	if len(v) < headerSize {
		return 0, false, errShortValue
	}
	return nostr.Timestamp(binary.BigEndian.Uint64(v[8:])), true, nil
}

// maxDirect bounds the direct keys of one query.
const maxDirect = 1024

// addressed returns the entries of all addresses the filter names, and false
// when it does not name whole addresses.
func (q *reading) addressed() ([]entry, bool, error) {
	addresses, ok := addressesOf(q.filter)
	if !ok {
		return nil, false, nil
	}
	var found []entry
	for _, a := range addresses {
		at, id, ok, err := currentVersion(q.snap, a)
		if err != nil {
			return nil, false, err
		}
		if ok {
			found = append(found, entry{at, id})
		}
	}
	return found, true, nil
}

// addressesOf returns all addresses a filter names, and false when it does
// not name whole addresses.
func addressesOf(f nostr.Filter) ([]address, bool) {
	ds := []string{""}
	switch {
	case len(f.Authors) == 0 || len(f.Kinds) == 0:
		return nil, false
	case all(f.Kinds, nostr.IsAddressableKind) && f.Tags["d"] != nil:
		ds = f.Tags["d"]
	case !all(f.Kinds, nostr.IsReplaceableKind):
		return nil, false
	}
	if len(f.Authors)*len(f.Kinds)*len(ds) > maxDirect {
		return nil, false
	}
	var addresses []address
	for _, kind := range f.Kinds {
		for _, author := range f.Authors {
			for _, d := range ds {
				addresses = append(addresses, address{kind, author, d})
			}
		}
	}
	return addresses, true
}

func all(kinds []int, is func(int) bool) bool {
	return !slices.ContainsFunc(kinds, func(k int) bool { return !is(k) })
}

// direct yields the events of the entries that match, in order, reading one
// at a time.
func (q *reading) direct(entries []entry) error {
	slices.SortFunc(entries, entry.compare)
	for _, e := range slices.Compact(entries) {
		if err := q.ctx.Err(); err != nil {
			return err
		}
		rec, err := q.fetch(e.id)
		if err != nil {
			return err
		}
		if rec != nil && !q.emit(rec) {
			return nil
		}
	}
	return nil
}

// compareRecords is the order of answers (NIP-01).
func compareRecords(a, b *Record) int {
	return entry{a.Event.CreatedAt, a.Event.ID}.compare(entry{b.Event.CreatedAt, b.Event.ID})
}

// emit yields rec and reports whether another one is wanted.
func (q *reading) emit(rec *Record) bool {
	if q.left == 0 {
		return false
	}
	if q.left > 0 {
		q.left--
	}
	return q.yield(rec, nil) && q.left != 0
}

// fetch reads the event and returns nil when it is not stored, expired or
// not matched. The header spares most of those the parsing of their JSON.
func (q *reading) fetch(id string) (*Record, error) {
	v, closer, err := q.snap.Get(eventKey(id))
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading stored event: %w", err)
	}
	defer closer.Close()
	h, err := decodeHeader(v)
	if err != nil {
		return nil, err
	}
	f := q.filter
	if (h.expires != 0 && h.expires <= q.now.Unix()) ||
		(f.Kinds != nil && !slices.Contains(f.Kinds, h.kind)) ||
		(f.Authors != nil && !slices.Contains(f.Authors, h.pubkey)) {
		return nil, nil
	}
	rec, err := decodeRecord(v)
	if err != nil || !f.Matches(rec.Event) {
		return nil, err
	}
	return rec, nil
}

// entryOf reads the tail of an index key.
func entryOf(key []byte) entry {
	tail := key[len(key)-tailSize:]
	return entry{nostr.Timestamp(^binary.BigEndian.Uint64(tail)), hex.EncodeToString(tail[8:])}
}
