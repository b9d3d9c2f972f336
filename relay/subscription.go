package relay

import (
	"slices"
	"sync"

	"github.com/nbd-wtf/go-nostr"
)

// maxWaiting bounds the live events held back while stored ones are sent.
const maxWaiting = 4096

// live is a stored event on its way to subscriptions.
type live struct {
	rec    *Record
	before position // everything up to it was offered earlier
}

// position is a point in the streams of events that are offered.
type position struct {
	commits uint64 // of this process
	rounds  uint64 // of reading what other processes stored (Follower)
}

// reaches reports whether nothing up to seam can come after p.
func (p position) reaches(seam position) bool {
	return p.commits >= seam.commits && p.rounds >= seam.rounds
}

// subscription is one REQ of one connection. While its stored events are
// being sent it holds live ones back; then it passes on those the stored
// ones did not contain already.
type subscription struct {
	id      string
	head    []byte // of its EVENT messages
	filters []nostr.Filter
	keys    []string // authenticated when it was opened
	weight  int      // of filters
	deliver func(*subscription, *Record)

	last *Record // touched by the fan-out goroutine only

	mu       sync.Mutex
	storing  bool // stored events are being sent
	closed   bool
	overflow bool
	waiting  []live
	seen     map[string]struct{} // ids sent as stored events
	seam     position            // what was offered up to it may be in seen
}

// newSubscription starts in the state of sending stored events.
func newSubscription(id string, filters []nostr.Filter, keys []string, deliver func(*subscription, *Record)) *subscription {
	return &subscription{
		id: id, head: eventHead(id), filters: filters, keys: slices.Clone(keys), deliver: deliver,
		storing: true, seen: map[string]struct{}{},
	}
}

// offer passes a live event on, or holds it back. It never waits for a peer.
func (s *subscription) offer(l live) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed || s.overflow:
	case s.storing && len(s.waiting) >= maxWaiting:
		s.overflow, s.waiting = true, nil
	case s.storing:
		s.waiting = append(s.waiting, l)
	case s.isNew(l):
		s.deliver(s, l.rec)
	}
}

// isNew reports whether l was not sent as a stored event. Once the seam is
// reached, none of them can come any more.
func (s *subscription) isNew(l live) bool {
	if l.before.reaches(s.seam) {
		s.seen = nil
	}
	_, sent := s.seen[l.rec.Event.ID]
	return !sent
}

// sent notes a stored event and reports false when it was sent before.
func (s *subscription) sent(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.seen[id]; ok {
		return false
	}
	s.seen[id] = struct{}{}
	return true
}

// stored ends the sending of stored events, which may have contained what is
// offered up to seam.
func (s *subscription) stored(seam position) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seam = seam
}

// take returns the live events held back so far that are new. When there are
// none the subscription passes live events on by itself from now on and done
// is true. Everything up to offered was offered.
func (s *subscription) take(offered position) (records []*Record, done, overflow bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.overflow {
		return nil, true, true
	}
	if len(s.waiting) == 0 {
		s.storing = false
		if offered.reaches(s.seam) {
			s.seen = nil
		}
		return nil, true, false
	}
	for _, l := range s.waiting {
		if s.isNew(l) {
			records = append(records, l.rec)
		}
	}
	s.waiting = nil
	return records, false, false
}

// close stops deliveries; none begins after it returned.
func (s *subscription) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed, s.waiting, s.seen = true, nil, nil
}

// visible reports whether the record may be sent to a connection that is
// authenticated as keys. The filters were cut to that already (scopeOf); this
// is the second lock on the door.
func visible(rec *Record, keys []string) bool {
	return rec.Event.Kind != kindWrap || slices.Contains(keys, rec.Recipient)
}

// Memory that a filter and each value of it take, their places in the index
// included.
const (
	filterWeight = 512
	valueWeight  = 256
	searchWeight = 8 << 10 // it costs time with every event rather than memory
)

// weight is about how many bytes open filters take. A peer pays a few bytes for
// a value that costs hundreds, so their sum is bounded for each connection.
func weight(filters []nostr.Filter) int {
	total := 0
	for _, f := range filters {
		total += filterWeight + valueWeight*(len(f.IDs)+len(f.Authors)+len(f.Kinds))
		if f.Search != "" {
			total += searchWeight
		}
		for _, values := range f.Tags {
			for _, v := range values {
				total += valueWeight + len(v)
			}
		}
	}
	return total
}

// postings are the filters filed under one word of the index.
type postings map[*posting]struct{}

type posting struct {
	sub    *subscription
	filter *nostr.Filter
	search *search // nil without one
}

// index finds the subscriptions an event may match without looking at the
// others. Each filter is filed under its most selective list only.
type index struct {
	mu      sync.RWMutex
	ids     map[string]postings
	authors map[string]postings
	tags    map[string]postings // letter and value
	kinds   map[int]postings
	filed   map[*subscription][]*posting
}

func newIndex() *index {
	return &index{
		ids: map[string]postings{}, authors: map[string]postings{}, tags: map[string]postings{},
		kinds: map[int]postings{}, filed: map[*subscription][]*posting{},
	}
}

// add files the subscription. Every filter has kinds (scopeOf).
func (x *index) add(s *subscription) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for i := range s.filters {
		p := &posting{sub: s, filter: &s.filters[i]}
		if f := p.filter; f.Search != "" {
			wanted := newSearch(f.Search)
			p.search = &wanted
		}
		x.filed[s] = append(x.filed[s], p)
		x.file(p, func(p *posting, set postings) { set[p] = struct{}{} })
	}
}

// remove takes the subscription out; it is not offered anything afterwards.
func (x *index) remove(s *subscription) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, p := range x.filed[s] {
		x.file(p, func(p *posting, set postings) { delete(set, p) })
	}
	delete(x.filed, s)
}

// file applies change to each set the filter belongs to.
func (x *index) file(p *posting, change func(*posting, postings)) {
	f := p.filter
	letter, values := fewestValues(f.Tags)
	switch {
	case f.IDs != nil:
		fileUnder(x.ids, f.IDs, p, change)
	case letter != "" && (f.Authors == nil || len(values) < len(f.Authors)):
		words := make([]string, len(values))
		for i, v := range values {
			words[i] = letter + v
		}
		fileUnder(x.tags, words, p, change)
	case f.Authors != nil:
		fileUnder(x.authors, f.Authors, p, change)
	default:
		fileUnder(x.kinds, f.Kinds, p, change)
	}
}

// fileUnder applies change to the set of each word and drops empty sets.
func fileUnder[W comparable](sets map[W]postings, words []W, p *posting, change func(*posting, postings)) {
	for _, w := range words {
		set := sets[w]
		if set == nil {
			set = postings{}
			sets[w] = set
		}
		if change(p, set); len(set) == 0 {
			delete(sets, w)
		}
	}
}

// fewestValues returns the tag with the shortest list of values, of equals
// the first letter.
func fewestValues(tags nostr.TagMap) (letter string, values []string) {
	for l, v := range tags {
		if letter == "" || len(v) < len(values) || (len(v) == len(values) && l < letter) {
			letter, values = l, v
		}
	}
	return letter, values
}

// offer gives the event to every subscription it matches, once to each. Only
// one goroutine calls it.
func (x *index) offer(l live) {
	ev := l.rec.Event
	t := sync.OnceValue(func() *text { return textOf(ev) }) // only when a search asks
	x.mu.RLock()
	defer x.mu.RUnlock()
	offerTo(x.ids[ev.ID], l, t)
	offerTo(x.authors[ev.PubKey], l, t)
	offerTo(x.kinds[ev.Kind], l, t)
	for _, tag := range ev.Tags {
		if len(tag) >= 2 && isTagLetter(tag[0]) {
			offerTo(x.tags[tag[0]+tag[1]], l, t)
		}
	}
}

func offerTo(set postings, l live, t func() *text) {
	for p := range set {
		if p.sub.last != l.rec && p.filter.Matches(l.rec.Event) && visible(l.rec, p.sub.keys) &&
			(p.search == nil || p.search.score(t()) > 0) {
			p.sub.last = l.rec
			p.sub.offer(l)
		}
	}
}
