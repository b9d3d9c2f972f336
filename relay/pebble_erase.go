package relay

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/nbd-wtf/go-nostr"
)

// Involving implements Store.
func (s *pebbleStore) Involving(ctx context.Context, person string) iter.Seq2[*Record, error] {
	return func(yield func(*Record, error) bool) {
		if err := s.enter(); err != nil {
			yield(nil, err)
			return
		}
		defer s.life.RUnlock()
		snap := s.db.NewSnapshot()
		defer snap.Close()
		stopped := false
		err := involving(ctx, snap, person, func(rec *Record) (more bool, err error) {
			stopped = !yield(rec, nil)
			return !stopped, nil
		})
		if err != nil && !stopped {
			yield(nil, err)
		}
	}
}

// involving visits every event by or for a person once, until visit wants no
// more.
func involving(ctx context.Context, r pebble.Reader, person string, visit func(*Record) (more bool, err error)) error {
	for _, prefix := range [][]byte{appendHex([]byte{tableAuthor}, person), tagPrefix('p', person)} {
		it, err := r.NewIterWithContext(ctx, &pebble.IterOptions{LowerBound: prefix, UpperBound: successor(prefix)})
		if err != nil {
			return fmt.Errorf("reading index: %w", err)
		}
		more, err := visitAll(r, it, func(rec *Record) (bool, error) {
			if prefix[0] == tableTag && rec.Event.PubKey == person { // came as its author's
				return true, nil
			}
			return visit(rec)
		})
		if closing := it.Close(); err == nil && closing != nil {
			err = fmt.Errorf("reading index: %w", closing)
		}
		if err != nil || !more {
			return err
		}
	}
	return nil
}

// visitAll visits the events that the entries of an index lead to.
func visitAll(r pebble.Reader, it *pebble.Iterator, visit func(*Record) (more bool, err error)) (more bool, err error) {
	for valid := it.First(); valid; valid = it.Next() {
		v, found, err := get(r, eventKey(entryOf(it.Key()).id))
		if err != nil {
			return false, err
		}
		if !found {
			continue
		}
		rec, err := decodeRecord(v)
		if err != nil {
			return false, err
		}
		if more, err := visit(rec); err != nil || !more {
			return false, err
		}
	}
	return true, nil
}

// Erase implements Store.
func (s *pebbleStore) Erase(ctx context.Context, person string, now time.Time, limit int) (int, error) {
	if err := s.enter(); err != nil {
		return 0, err
	}
	defer s.life.RUnlock()
	s.writing.Lock()
	defer s.writing.Unlock()

	tx := pebbleTx{s.db.NewIndexedBatch()}
	defer tx.Close()
	n := 0
	err := involving(ctx, s.db, person, func(rec *Record) (bool, error) {
		if n == limit {
			return false, nil
		}
		n++
		return n < limit, tx.erase(rec, now.Unix())
	})
	if err != nil {
		return 0, err
	}
	return n, s.commit(tx)
}

// erase takes out an event so that it does not come back. Of a replaceable one
// no older version comes back either.
func (tx pebbleTx) erase(rec *Record, now int64) error {
	if err := tx.takeOut(rec); err != nil {
		return err
	}
	ev := rec.Event
	if a, ok := addressOf(ev); ok {
		return tx.bury(a, max(now, int64(ev.CreatedAt)))
	}
	return tx.Set(deletedIDKey(ev.ID, ev.PubKey), number(now), nil)
}

// vanish removes what the request takes along, in the transaction of the
// request, and remembers it for good (NIP-62): all that the key published by one
// mark, the wraps for it one by one.
func (tx pebbleTx) vanish(request *nostr.Event) error {
	var gone []*Record // first read, then removed: an iterator does not see later writes
	err := involving(context.Background(), tx, request.PubKey, func(rec *Record) (bool, error) {
		if vanishes(request, rec.Event.PubKey, rec.Recipient, rec.Event.CreatedAt) {
			gone = append(gone, rec)
		}
		return true, nil
	})
	if err != nil {
		return err
	}
	for _, rec := range gone {
		if rec.Event.PubKey == request.PubKey {
			err = tx.takeOut(rec)
		} else {
			err = tx.erase(rec, int64(request.CreatedAt))
		}
		if err != nil {
			return err
		}
	}
	return tx.Set(vanishedKey(request.PubKey), number(int64(request.CreatedAt)), nil)
}

// Remove implements Store.
func (s *pebbleStore) Remove(_ context.Context, ids []string) (int, error) {
	if err := s.enter(); err != nil {
		return 0, err
	}
	defer s.life.RUnlock()
	s.writing.Lock()
	defer s.writing.Unlock()

	tx := pebbleTx{s.db.NewIndexedBatch()}
	defer tx.Close()
	n := 0
	for _, id := range ids {
		v, found, err := get(tx, eventKey(id))
		if err != nil {
			return 0, err
		}
		if !found {
			continue
		}
		rec, err := decodeRecord(v)
		if err != nil {
			return 0, err
		}
		if err := tx.takeOut(rec); err != nil {
			return 0, err
		}
		n++
	}
	return n, s.commit(tx)
}

// Compact implements Store: it rewrites all files without the removed events.
func (s *pebbleStore) Compact(ctx context.Context) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.life.RUnlock()
	if err := s.db.Compact(ctx, []byte{0}, []byte{0xff}, false); err != nil {
		return fmt.Errorf("compacting event store: %w", err)
	}
	return nil
}
