package negentropy

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"fmt"
	"iter"
	"slices"

	"github.com/nbd-wtf/go-nostr"
	upstream "github.com/nbd-wtf/go-nostr/nip77/negentropy"
	"github.com/nbd-wtf/go-nostr/nip77/negentropy/storage"
)

const idSize = 32

// MaxTime is the first created_at, in Unix seconds, that cannot take part.
const MaxTime = 1 << 53

// item is one event; a million take 40 MB.
type item struct {
	at int64
	id [idSize]byte
}

func (a item) compare(b item) int {
	return cmp.Or(cmp.Compare(a.at, b.at), bytes.Compare(a.id[:], b.id[:]))
}

// Set holds the events of one side. Add all of them, then Seal it.
type Set struct{ items []item }

// Add puts in the event of this created_at (Unix seconds, below 2^53) and id
// (64 hex digits). One that comes twice counts once.
func (s *Set) Add(createdAt nostr.Timestamp, id string) error {
	it := item{at: int64(createdAt)}
	if it.at < 0 || it.at >= MaxTime || len(id) != 2*idSize {
		return fmt.Errorf("negentropy: event %.64q of %d cannot take part", id, createdAt)
	}
	if _, err := hex.Decode(it.id[:], []byte(id)); err != nil {
		return fmt.Errorf("negentropy: event %.64q: %w", id, err)
	}
	s.items = append(s.items, it)
	return nil
}

// Seal ends the adding.
func (s *Set) Seal() {
	slices.SortFunc(s.items, item.compare)
	s.items = slices.Compact(s.items)
}

// Size is the number of events.
func (s *Set) Size() int { return len(s.items) }

// shelf is a sealed set as go-nostr reads it.
type shelf struct{ items []item }

func (s shelf) Size() int { return len(s.items) }

func (s shelf) at(i int) upstream.Item {
	return upstream.Item{Timestamp: nostr.Timestamp(s.items[i].at), ID: hex.EncodeToString(s.items[i].id[:])}
}

// Range yields the items from begin up to, without, end.
func (s shelf) Range(begin, end int) iter.Seq2[int, upstream.Item] {
	return func(yield func(int, upstream.Item) bool) {
		for i := begin; i < end; i++ {
			if !yield(i, s.at(i)) {
				return
			}
		}
	}
}

// FindLowerBound returns the place of the first item that is not below the
// bound, whose id may be the beginning of one.
func (s shelf) FindLowerBound(begin, end int, bound upstream.Bound) int {
	prefix, _ := hex.DecodeString(bound.ID) // its form was checked
	at := int64(bound.Timestamp)
	i, _ := slices.BinarySearchFunc(s.items[begin:end], prefix, func(it item, prefix []byte) int {
		return cmp.Or(cmp.Compare(it.at, at), bytes.Compare(it.id[:], prefix))
	})
	return begin + i
}

// GetBound is the bound below which exactly the first i items lie.
func (s shelf) GetBound(i int) upstream.Bound {
	if i < len(s.items) {
		return upstream.Bound{Item: s.at(i)}
	}
	return upstream.InfiniteBound
}

// Fingerprint is that of the items from begin up to, without, end.
func (s shelf) Fingerprint(begin, end int) string {
	var sum storage.Accumulator
	for i := begin; i < end; i++ {
		sum.AddBytes(s.items[i].id[:])
	}
	return sum.GetFingerprint(end - begin)
}
