package relay

import (
	"container/heap"
	"errors"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/nbd-wtf/go-nostr"
)

// heldKinds are those held in memory: the current cards, profiles and relay
// lists, of which there are few.
var heldKinds = []int{kindProfile, kindRelayList, kindCard}

// errNotHeld says that the cards are not held in memory.
var errNotHeld = errors.New("relay: the cards are not held in memory")

// heldCard is one held event.
type heldCard struct {
	*Record
	text *text
}

// cardBytes is about what one event takes besides its text: the record, its
// parsed form and its places on the shelves.
const cardBytes = 1536

func (c *heldCard) size() int {
	n := cardBytes + 2*len(c.JSON)
	for _, part := range c.text {
		n += 2 * len(part)
	}
	return n
}

// shelf holds cards, the oldest first, so that a new one goes to the end.
type shelf []*heldCard

func (s shelf) place(c *heldCard) (int, bool) {
	if len(s) > 0 && compareRecords(c.Record, s[len(s)-1].Record) < 0 {
		return len(s), false
	}
	return slices.BinarySearchFunc(s, c, func(a, b *heldCard) int { return compareRecords(b.Record, a.Record) })
}

func (s shelf) with(c *heldCard) shelf {
	i, found := s.place(c)
	if found {
		return s
	}
	return slices.Insert(s, i, c)
}

func (s shelf) without(c *heldCard) shelf {
	i, found := s.place(c)
	if !found {
		return s
	}
	return slices.Delete(s, i, i+1)
}

// tagKey is a tag by which events are found.
type tagKey struct{ name, value string }

// cards holds the current events of heldKinds and finds them. When they
// outgrow the limit it lets all go and holds none until the next start.
type cards struct {
	limit int // bytes, as size estimates them

	mu        sync.RWMutex
	gone      bool
	bytes     int
	ids       map[string]*heldCard
	addresses map[address]*heldCard
	kinds     map[int]shelf
	authors   map[string]shelf
	tags      map[tagKey]shelf
	words     map[string]shelf // by wordKeys
}

func newCards(limit int) *cards {
	return &cards{
		limit: limit, gone: limit <= 0, ids: map[string]*heldCard{}, addresses: map[address]*heldCard{}, kinds: map[int]shelf{},
		authors: map[string]shelf{}, tags: map[tagKey]shelf{}, words: map[string]shelf{},
	}
}

// letGo drops everything.
func (c *cards) letGo() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop()
}

func (c *cards) drop() {
	c.gone, c.bytes = true, 0
	c.ids, c.addresses, c.kinds, c.authors, c.tags, c.words = nil, nil, nil, nil, nil, nil
}

// held returns the number of events and about how many bytes they take.
func (c *cards) held() (events, bytes int) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return len(c.ids), c.bytes
}

// apply takes over what was stored, in the order of commits. It reports false
// when the cards were let go by that.
func (c *cards) apply(records []*Record) bool {
	made := make([]*heldCard, len(records)) // reading the text needs no lock
	for i, rec := range records {
		if slices.Contains(heldKinds, rec.Event.Kind) {
			made[i] = &heldCard{rec, textOf(rec.Event)}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone {
		return true
	}
	for i, rec := range records {
		switch {
		case made[i] != nil:
			c.put(made[i])
		case rec.Event.Kind == kindDeletion:
			c.applyDeletion(rec.Event)
		case rec.Event.Kind == kindVanish:
			c.applyVanish(rec.Event)
		}
	}
	if c.bytes <= c.limit {
		return true
	}
	c.drop()
	return false
}

// put holds the card in the place of an older version. Events of other
// processes may come in another order than they were stored in.
func (c *cards) put(it *heldCard) {
	a, _ := addressOf(it.Event)
	if old := c.addresses[a]; old != nil {
		if !newer(it.Event.CreatedAt, it.Event.ID, old.Event.CreatedAt, old.Event.ID) {
			return
		}
		c.remove(old)
	}
	c.ids[it.Event.ID], c.addresses[a] = it, it
	c.bytes += it.size()
	c.file(it, shelf.with)
}

func (c *cards) remove(it *heldCard) {
	if it == nil {
		return
	}
	a, _ := addressOf(it.Event)
	delete(c.ids, it.Event.ID)
	delete(c.addresses, a)
	c.bytes -= it.size()
	c.file(it, shelf.without)
}

// file changes every shelf the card belongs on.
func (c *cards) file(it *heldCard, change func(shelf, *heldCard) shelf) {
	refile(c.kinds, it.Event.Kind, it, change)
	refile(c.authors, it.Event.PubKey, it, change)
	for _, tag := range it.Event.Tags {
		if len(tag) >= 2 && isTagLetter(tag[0]) {
			refile(c.tags, tagKey{tag[0], tag[1]}, it, change)
		}
	}
	for _, key := range it.text.wordKeys() {
		refile(c.words, key, it, change)
	}
}

func refile[K comparable](shelves map[K]shelf, key K, it *heldCard, change func(shelf, *heldCard) shelf) {
	if s := change(shelves[key], it); len(s) > 0 {
		shelves[key] = s
	} else {
		delete(shelves, key)
	}
}

// applyDeletion removes what the request names (NIP-09).
func (c *cards) applyDeletion(del *nostr.Event) {
	ids, addresses := deletionTargets(del)
	for _, id := range ids {
		if it := c.ids[id]; it != nil && it.Event.PubKey == del.PubKey {
			c.remove(it)
		}
	}
	for _, a := range addresses {
		if it := c.addresses[a]; it != nil && it.Event.CreatedAt <= del.CreatedAt {
			c.remove(it)
		}
	}
}

// applyVanish removes what the key published (NIP-62).
func (c *cards) applyVanish(request *nostr.Event) {
	for _, it := range slices.Clone(c.authors[request.PubKey]) {
		if vanishes(request, it.Event.PubKey, it.Recipient, it.Event.CreatedAt) {
			c.remove(it)
		}
	}
}

// removeIDs removes the events of these ids.
func (c *cards) removeIDs(ids []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range ids {
		c.remove(c.ids[id])
	}
}

// expire removes what expired.
func (c *cards) expire(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, it := range c.ids {
		if it.expired(now) {
			c.remove(it)
		}
	}
}

// involving returns the ids of events by the person or with it in a p tag.
func (c *cards) involving(person string) (ids []string) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, s := range []shelf{c.authors[person], c.tags[tagKey{"p", person}]} {
		for _, it := range s {
			ids = append(ids, it.Event.ID)
		}
	}
	return ids
}

// find returns the cards that match f, its search included, and are not
// expired at now, in the order of answers and at most f.Limit when that is
// positive. The error is errNotHeld, or ErrTooBroad after looking at scan
// cards, with those found until then.
func (c *cards) find(f nostr.Filter, now time.Time, scan int) (found []*heldCard, err error) {
	if f.LimitZero {
		return nil, nil
	}
	search := newSearch(f.Search)
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.gone {
		return nil, errNotHeld
	}
	for it := range newestFirst(c.plan(f, search)) {
		if scan--; scan < 0 {
			return found, ErrTooBroad
		}
		if it.expired(now) || !f.Matches(it.Event) || (f.Search != "" && search.score(it.text) == 0) {
			continue
		}
		if found = append(found, it); len(found) == f.Limit {
			break
		}
	}
	return found, nil
}

// plan returns shelves that hold every card the filter matches, those with the
// fewest cards.
func (c *cards) plan(f nostr.Filter, search search) []shelf {
	if f.IDs != nil {
		return pickShelves(f.IDs, func(id string) shelf { return single(c.ids[id]) })
	}
	if addresses, ok := addressesOf(f); ok {
		return pickShelves(addresses, func(a address) shelf { return single(c.addresses[a]) })
	}
	best := pickShelves(f.Kinds, func(k int) shelf { return c.kinds[k] })
	consider := func(shelves []shelf) {
		if total(shelves) < total(best) {
			best = shelves
		}
	}
	if f.Authors != nil {
		consider(pickShelves(f.Authors, func(a string) shelf { return c.authors[a] }))
	}
	for name, values := range f.Tags {
		consider(pickShelves(values, func(v string) shelf { return c.tags[tagKey{name, v}] }))
	}
	for _, key := range search.keys() {
		consider(pickShelves([]string{key}, func(k string) shelf { return c.words[k] }))
	}
	return best
}

func pickShelves[K any](keys []K, shelfOf func(K) shelf) []shelf {
	shelves := make([]shelf, 0, len(keys))
	for _, key := range keys {
		if s := shelfOf(key); len(s) > 0 {
			shelves = append(shelves, s)
		}
	}
	return shelves
}

func single(it *heldCard) shelf {
	if it == nil {
		return nil
	}
	return shelf{it}
}

func total(shelves []shelf) (n int) {
	for _, s := range shelves {
		n += len(s)
	}
	return n
}

// stacks is a heap of shelves whose top has the newest card.
type stacks []shelf

func (h stacks) Len() int { return len(h) }
func (h stacks) Less(i, j int) bool {
	return compareRecords(h[i][len(h[i])-1].Record, h[j][len(h[j])-1].Record) < 0
}
func (h stacks) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *stacks) Push(x any)   { *h = append(*h, x.(shelf)) }
func (h *stacks) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// newestFirst yields the cards of shelves that are not empty in the order of
// answers, each once.
func newestFirst(shelves []shelf) iter.Seq[*heldCard] {
	return func(yield func(*heldCard) bool) {
		h := stacks(shelves)
		heap.Init(&h)
		var last *heldCard
		for len(h) > 0 {
			top := h[0]
			it := top[len(top)-1]
			if h[0] = top[:len(top)-1]; len(h[0]) == 0 {
				heap.Pop(&h)
			} else {
				heap.Fix(&h, 0)
			}
			if it != last && !yield(it) {
				return
			}
			last = it
		}
	}
}
