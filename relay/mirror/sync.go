package mirror

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nbd-wtf/go-nostr"

	carriernostr "github.com/parleykit/parley/carrier/nostr"
)

const (
	fetchIDs   = 200              // events asked for by their ids at a time
	maxPassed  = 100_000          // ids remembered because the other relay does not take them
	maxIDs     = 1_000_000        // of one relay in one window of time
	roundPause = 10 * time.Minute // between two comparisons of a Sync that follows
	failPause  = 30 * time.Second // after one that failed
	aheadOfNow = 15 * time.Minute // that created_at may lie ahead
)

// negentropy is the number of NIP-77 in a relay's supported_nips.
const negentropy = 77

// SyncOptions configures Sync. From and To are required.
type SyncOptions struct {
	From, To *Wire
	Filter   nostr.Filter // of what is moved; its limit is ignored
	Both     bool         // what To has goes to From as well

	// Follow goes on with what comes new until ctx ends, and compares again now
	// and then: what a broken connection lost is found by that.
	Follow bool
	Every  time.Duration // between two comparisons; 0 is ten minutes

	// Progress is told how far the sync is. Nil for nobody.
	Progress func(SyncSummary)
	// Failed is told why a comparison or a batch did not succeed, of a Sync
	// that follows and tries again. Nil for nobody.
	Failed func(error)
	Now    func() time.Time // nil is time.Now
}

// SyncSummary counts what was moved.
type SyncSummary struct {
	To   Summary `json:"to"`
	From Summary `json:"from"` // the other way, with Both
	// Negentropy tells whether both relays were compared by NIP-77 and not by
	// reading all of one or both.
	Negentropy bool `json:"negentropy"`
	Rounds     int  `json:"rounds"`  // comparisons
	Missing    int  `json:"missing"` // ids the last comparison found, both ways
}

// Sync brings the events of one relay that another one lacks to it: it learns
// the ids of both (NIP-77, or page by page), and fetches and gives what differs.
// Nothing is kept between two calls: one that was cut off is simply called
// again, and finds what is left. Wraps are never moved; a filter that names
// them gives ErrWraps.
func Sync(ctx context.Context, o SyncOptions) (SyncSummary, error) {
	filter, err := open(o.Filter)
	if err != nil {
		return SyncSummary{}, err
	}
	filter.Limit = 0
	o.Filter = filter
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Every <= 0 {
		o.Every = roundPause
	}
	s := &syncing{SyncOptions: o, toward: newDirection(o.From, o.To), back: newDirection(o.To, o.From), fetch: map[*Wire]int{}}
	if o.Follow {
		err = s.follow(ctx)
	} else {
		err = s.round(ctx)
	}
	return s.summary(), err
}

// direction is one way that events go.
type direction struct {
	from, to *Wire
	passed   map[string]struct{} // not offered again
	sum      Summary
}

func newDirection(from, to *Wire) *direction {
	return &direction{from: from, to: to, passed: map[string]struct{}{}}
}

// syncing is one Sync; its methods are called by one goroutine.
type syncing struct {
	SyncOptions
	toward, back *direction
	quick        bool          // both have NIP-77
	fetch        map[*Wire]int // how many ids each is asked for at a time
	rounds       int
	missing      int
}

func (s *syncing) summary() SyncSummary {
	return SyncSummary{
		To: s.toward.sum.clone(), From: s.back.sum.clone(),
		Negentropy: s.quick, Rounds: s.rounds, Missing: s.missing,
	}
}

func (s *syncing) tell() {
	if s.Progress != nil {
		s.Progress(s.summary())
	}
}

// round is one comparison with what follows from it.
func (s *syncing) round(ctx context.Context) error {
	byNegentropy := map[*Wire]bool{}
	for _, w := range []*Wire{s.From, s.To} {
		info, err := w.Client.Information(ctx, w.URL)
		byNegentropy[w] = err == nil && slices.Contains(info.SupportedNIPs, negentropy)
		s.fetch[w] = fetchIDs
		if limit := info.Limitation.MaxLimit; limit > 0 {
			s.fetch[w] = min(fetchIDs, limit)
		}
	}
	s.quick = byNegentropy[s.From] && byNegentropy[s.To]
	s.missing = 0
	since, until := int64(0), s.Now().Add(aheadOfNow).Unix()
	if s.Filter.Since != nil {
		since = int64(*s.Filter.Since)
	}
	if s.Filter.Until != nil {
		until = int64(*s.Filter.Until)
	}
	if err := s.window(ctx, since, until, byNegentropy); err != nil {
		return err
	}
	s.rounds++
	s.tell()
	return nil
}

// window compares the events of a stretch of time, in halves where they are
// too many for a relay.
func (s *syncing) window(ctx context.Context, since, until int64, byNegentropy map[*Wire]bool) error {
	f := s.Filter.Clone()
	from, to := nostr.Timestamp(since), nostr.Timestamp(until)
	f.Since, f.Until = &from, &to
	held := map[*Wire]map[string]struct{}{}
	for _, w := range []*Wire{s.From, s.To} {
		ids, err := w.ids(ctx, f, byNegentropy[w])
		if errors.Is(err, carriernostr.ErrTooBig) && until-since > 1 {
			middle := since + (until-since)/2
			if err := s.window(ctx, middle+1, until, byNegentropy); err != nil {
				return err
			}
			return s.window(ctx, since, middle, byNegentropy)
		}
		if err != nil {
			return fmt.Errorf("comparing: %w", err)
		}
		held[w] = ids
	}
	if err := s.move(ctx, s.toward, lacking(held[s.From], held[s.To], s.toward.passed)); err != nil || !s.Both {
		return err
	}
	return s.move(ctx, s.back, lacking(held[s.To], held[s.From], s.back.passed))
}

// lacking are the ids of one set that neither other set has.
func lacking(of, in, passed map[string]struct{}) (ids []string) {
	for id := range of {
		_, there := in[id]
		if _, known := passed[id]; !there && !known {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// ids learns which events a relay has.
func (w *Wire) ids(ctx context.Context, f nostr.Filter, byNegentropy bool) (map[string]struct{}, error) {
	if byNegentropy {
		found, err := w.reconcile(ctx, f)
		if err != nil {
			return nil, err
		}
		ids := make(map[string]struct{}, len(found.Need))
		for _, id := range found.Need {
			ids[id] = struct{}{}
		}
		return ids, nil
	}
	ids := map[string]struct{}{}
	for ev, err := range w.Read(ctx, f) {
		if err != nil {
			return nil, err
		}
		if ids[ev.ID] = struct{}{}; len(ids) > maxIDs {
			return nil, carriernostr.ErrTooBig
		}
	}
	return ids, nil
}

// move fetches events by their ids and gives them to the other relay.
func (s *syncing) move(ctx context.Context, d *direction, ids []string) error {
	s.missing += len(ids)
	for some := range slices.Chunk(ids, s.fetch[d.from]) {
		events, err := d.from.query(ctx, nostr.Filter{IDs: some, Limit: len(some)})
		if err != nil {
			return fmt.Errorf("fetching events: %w", err)
		}
		if err := d.give(ctx, s.Filter, events); err != nil {
			return err
		}
		s.tell()
	}
	return nil
}

// give offers verified events and remembers those that are not taken.
func (d *direction) give(ctx context.Context, filter nostr.Filter, events []*nostr.Event) error {
	var batch []Event
	for _, ev := range events {
		if ev.Kind == kindWrap || !filter.Matches(ev) {
			continue
		}
		if encoded, err := encode(ev); err == nil {
			batch = append(batch, encoded)
		}
	}
	if len(batch) == 0 {
		return nil
	}
	outcomes, err := d.to.Put(ctx, batch)
	if err != nil {
		return fmt.Errorf("giving events: %w", err)
	}
	for i, o := range outcomes {
		d.sum.add(o)
		if o != Accepted && o != RateLimited && o != Failed {
			d.pass(batch[i].ID)
		}
	}
	return nil
}

// pass remembers an event that need not be offered again; when too many are
// remembered all are forgotten, and offered once more.
func (d *direction) pass(id string) {
	if len(d.passed) >= maxPassed {
		clear(d.passed)
	}
	d.passed[id] = struct{}{}
}

// reconcile is Client.Reconcile of nothing with patience: it gives all ids.
func (w *Wire) reconcile(ctx context.Context, f nostr.Filter) (carriernostr.Difference, error) {
	nothing := func(func(nostr.Timestamp, string) bool) {}
	var found carriernostr.Difference
	err := w.patiently(ctx, func() (err error) {
		found, err = w.Client.Reconcile(ctx, w.URL, f, nothing)
		return err
	})
	return found, err
}
