package relay

import (
	"bytes"
	"container/heap"
	"encoding/binary"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

const (
	maxRanges  = 1024 // ranges of one plan
	probeDepth = 256  // entries counted to compare two plans
)

// keyRange is a part of an index in the order of answers: lower inclusive,
// upper exclusive.
type keyRange struct{ lower, upper []byte }

// within cuts the index of a prefix to the filter's since and until, both
// inclusive (NIP-01).
func (q *reading) within(prefix []byte) keyRange {
	r := keyRange{lower: bytes.Clone(prefix), upper: successor(prefix)}
	if until := q.filter.Until; until != nil {
		r.lower = binary.BigEndian.AppendUint64(r.lower, invert(*until))
	}
	if since := q.filter.Since; since != nil && *since > 0 {
		r.upper = binary.BigEndian.AppendUint64(bytes.Clone(prefix), invert(*since)+1)
	}
	return r
}

// successor is the smallest key after every key of the prefix. The first byte
// of a prefix is a letter, so there always is one.
func successor(prefix []byte) []byte {
	next := bytes.Clone(prefix)
	for i := len(next) - 1; i >= 0; i-- {
		if next[i]++; next[i] != 0 {
			return next[:i+1]
		}
	}
	return next
}

// plan returns the ranges of the index with the fewest entries for the
// filter. Up to probeDepth entries of each candidate are counted.
func (q *reading) plan(it *pebble.Iterator) ([]keyRange, error) {
	candidates, err := q.candidates(it)
	if err != nil {
		return nil, err
	}
	best, least := candidates[0], probeDepth
	if len(candidates) == 1 {
		return best, nil
	}
	for _, ranges := range candidates {
		if n := count(it, ranges, least); n < least {
			best, least = ranges, n
		}
	}
	if err := it.Error(); err != nil {
		return nil, fmt.Errorf("reading index: %w", err)
	}
	return best, nil
}

// candidates are the usable indexes, the one that is most selective as a rule
// first. There is at least one.
func (q *reading) candidates(it *pebble.Iterator) ([][]keyRange, error) {
	f := q.filter
	var plans [][]keyRange
	if f.Authors != nil {
		ranges, err := q.authorRanges(it)
		if err != nil {
			return nil, err
		}
		if len(ranges) <= maxRanges {
			plans = append(plans, ranges)
		}
	}
	for name, values := range f.Tags {
		if !isTagLetter(name) || len(values) > maxRanges {
			continue
		}
		ranges := make([]keyRange, 0, len(values))
		for _, v := range values {
			ranges = append(ranges, q.within(tagPrefix(name[0], v)))
		}
		plans = append(plans, ranges)
	}
	if f.Kinds != nil && len(f.Kinds) <= maxRanges {
		ranges := make([]keyRange, 0, len(f.Kinds))
		for _, k := range f.Kinds {
			ranges = append(ranges, q.within(kindPrefix(k)))
		}
		plans = append(plans, ranges)
	}
	if len(plans) == 0 {
		plans = append(plans, []keyRange{q.within([]byte{tableCreated})})
	}
	return plans, nil
}

// authorRanges are the ranges of each author and kind. Without kinds in the
// filter the kinds an author has are found by jumping over each.
func (q *reading) authorRanges(it *pebble.Iterator) ([]keyRange, error) {
	var ranges []keyRange
	for _, author := range q.filter.Authors {
		if len(ranges) > maxRanges {
			break
		}
		if q.filter.Kinds != nil {
			for _, k := range q.filter.Kinds {
				ranges = append(ranges, q.within(authorPrefix(author, k)))
			}
			continue
		}
		prefix := appendHex([]byte{tableAuthor}, author)
		for it.SeekGE(prefix); it.Valid() && bytes.HasPrefix(it.Key(), prefix) && len(ranges) <= maxRanges; {
			one := bytes.Clone(it.Key()[:len(prefix)+4])
			ranges = append(ranges, q.within(one))
			it.SeekGE(successor(one))
		}
	}
	if err := it.Error(); err != nil {
		return nil, fmt.Errorf("reading index: %w", err)
	}
	return ranges, nil
}

// count returns the number of entries in the ranges, at most limit.
func count(it *pebble.Iterator, ranges []keyRange, limit int) int {
	n := 0
	for _, r := range ranges {
		for it.SeekGE(r.lower); it.Valid() && bytes.Compare(it.Key(), r.upper) < 0; it.Next() {
			if n++; n >= limit {
				return n
			}
		}
	}
	return n
}

// cursor reads one range a page at a time, so that a query over many ranges
// needs a single iterator.
type cursor struct {
	keyRange
	page []entry
	size int // entries of the next page
}

// fill reads the next page; it stays empty at the end of the range.
func (c *cursor) fill(it *pebble.Iterator) {
	c.size = min(max(8, 2*c.size), 128)
	for it.SeekGE(c.lower); it.Valid() && len(c.page) < c.size; it.Next() {
		if bytes.Compare(it.Key(), c.upper) >= 0 {
			c.lower = c.upper
			return
		}
		c.page = append(c.page, entryOf(it.Key()))
		c.lower = append(append(c.lower[:0:0], it.Key()...), 0)
	}
}

// cursors is a heap whose top has the next entry in the order of answers.
type cursors []*cursor

func (h cursors) Len() int           { return len(h) }
func (h cursors) Less(i, j int) bool { return h[i].page[0].compare(h[j].page[0]) < 0 }
func (h cursors) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *cursors) Push(x any)        { *h = append(*h, x.(*cursor)) }
func (h *cursors) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	return last
}

// merge yields the matching events of all ranges in order and stops as soon
// as enough are found or too many entries were read.
func (q *reading) merge(it *pebble.Iterator, ranges []keyRange) error {
	var h cursors
	for _, r := range ranges {
		c := &cursor{keyRange: r}
		if c.fill(it); len(c.page) > 0 {
			h = append(h, c)
		}
	}
	heap.Init(&h)
	var last entry
	for len(h) > 0 {
		next := h[0].page[0]
		advance(&h, it)
		if err := q.spend(); err != nil {
			return err
		}
		if next == last {
			continue
		}
		last = next
		rec, err := q.fetch(next.id)
		if err != nil {
			return err
		}
		if rec != nil && !q.emit(rec) {
			return nil
		}
	}
	if err := it.Error(); err != nil {
		return fmt.Errorf("reading index: %w", err)
	}
	return nil
}

// advance moves the top cursor on by one entry.
func advance(h *cursors, it *pebble.Iterator) {
	c := (*h)[0]
	if c.page = c.page[1:]; len(c.page) == 0 {
		c.page = nil
		c.fill(it)
	}
	if len(c.page) == 0 {
		heap.Pop(h)
		return
	}
	heap.Fix(h, 0)
}

// spend takes one entry from what the query may read.
func (q *reading) spend() error {
	if q.scan--; q.scan < 0 {
		return ErrTooBroad
	}
	return q.ctx.Err()
}
