package mirror

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/parleykit/parley/carrier"
	carriernostr "github.com/parleykit/parley/carrier/nostr"
)

// Bounds of the wire.
const (
	answerWait = 30 * time.Second // for the OK of an event
	attempts   = 6                // to reach a relay, and to have an event taken that is rate-limited
	pageSize   = 500              // events asked for at a time
)

// retry is the pause between attempts.
var retry = carrier.Backoff{Base: 500 * time.Millisecond, Cap: 15 * time.Second}

// Errors of the wire.
var (
	// ErrWraps says that a filter asks for wraps, which are never moved over
	// the wire: they are their recipients' alone.
	ErrWraps = errors.New("mirror: sealed messages are not moved over the wire")
	// ErrIncomplete says that a relay holds more events of one second than it
	// shows at a time, so that some may be missing.
	ErrIncomplete = errors.New("mirror: more events of one second than the relay shows at a time")
)

// Wire is a relay that is reached over the network. It is a Target.
type Wire struct {
	Client *carriernostr.Client
	URL    string
	// Waiting is told that a relay wants a pause. Nil for nobody.
	Waiting func(pause time.Duration, why string)
}

// Put implements Target. The events go out together. What the relay says is
// too fast, or does not answer because the connection broke, goes out again
// after a pause; a relay that cannot be reached for long is an error.
func (w *Wire) Put(ctx context.Context, events []Event) ([]Outcome, error) {
	outcomes := make([]Outcome, len(events))
	for attempt := 0; ; attempt++ {
		failure := w.offer(ctx, events, outcomes)
		limited := slices.Contains(outcomes, RateLimited)
		if failure == nil && !limited || attempt == attempts-1 {
			return outcomes, failure
		}
		if errors.Is(failure, carrier.ErrPermanent) || ctx.Err() != nil {
			return nil, failure
		}
		why := "the relay asks to slow down"
		if failure != nil {
			why = failure.Error()
		}
		if err := w.pause(ctx, attempt, why); err != nil {
			return nil, err
		}
	}
}

func (w *Wire) pause(ctx context.Context, attempt int, why string) error {
	d := retry.Delay(attempt)
	if w.Waiting != nil {
		w.Waiting(d, why)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// offer sends every event that has no lasting outcome yet, in their order.
func (w *Wire) offer(ctx context.Context, events []Event, outcomes []Outcome) error {
	ctx, cancel := context.WithTimeout(ctx, answerWait)
	defer cancel()
	var again []*nostr.Event
	var places []int
	first := map[string]int{}
	for n, ev := range events {
		if at, twice := first[ev.ID]; twice && at != n {
			outcomes[n] = Duplicate
			continue
		}
		first[ev.ID] = n
		if outcomes[n] == "" || outcomes[n] == RateLimited {
			again, places = append(again, ev.Event), append(places, n)
		}
	}
	answers, err := w.Client.Offer(ctx, w.URL, again)
	for i, answer := range answers {
		if answer.Given {
			outcomes[places[i]] = outcomeOf(answer)
		}
	}
	return err
}

// outcomeOf reads the OK of a relay: the flag, the prefix (NIP-01), and the
// words in which relays say that a newer version is stored.
func outcomeOf(a carriernostr.Answer) Outcome {
	prefix, text, _ := strings.Cut(a.Text, ":")
	if prefix == "replaced" || prefix == "duplicate" && strings.Contains(text, "newer") {
		return Stale
	}
	if prefix == "duplicate" {
		return Duplicate
	}
	if a.OK {
		return Accepted
	}
	switch prefix {
	case "invalid":
		if strings.Contains(text, "expired") {
			return Expired
		}
		return Invalid
	case "blocked", "mute":
		if strings.Contains(text, "deleted") {
			return Deleted
		}
		return Blocked
	case "restricted":
		return Restricted
	case "auth-required":
		return AuthRequired
	case "rate-limited":
		return RateLimited
	case "pow":
		return NeedsWork
	}
	return Failed
}

// open cuts a filter to what is moved over the wire.
func open(f nostr.Filter) (nostr.Filter, error) {
	if slices.Contains(f.Kinds, kindWrap) {
		return f, ErrWraps
	}
	return f.Clone(), nil
}

// Read yields the stored events of a relay that match a filter, newest first
// and each once, page by page. It asks again after a broken connection. The
// filter's limit bounds the whole. With ErrIncomplete it goes on.
func (w *Wire) Read(ctx context.Context, filter nostr.Filter) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		f, err := open(filter)
		if err != nil {
			yield(Event{}, err)
			return
		}
		p := &pages{wire: w, filter: f, left: -1}
		if f.Limit > 0 {
			p.left = f.Limit
		}
		p.learn(ctx)
		for p.left != 0 {
			more, err := p.next(ctx, yield)
			if err != nil && (!errors.Is(err, ErrIncomplete) || !yield(Event{}, err)) {
				if !errors.Is(err, ErrIncomplete) {
					yield(Event{}, err)
				}
				return
			}
			if !more {
				return
			}
		}
	}
}

// pages walks back through the time of a relay.
type pages struct {
	wire   *Wire
	filter nostr.Filter
	left   int             // events that may still be yielded; -1 is any number
	seen   map[string]bool // ids of the second that the next page begins with

	reconciles bool // the relay offers NIP-77
}

// next yields what is new in one page and says whether there may be another.
func (p *pages) next(ctx context.Context, yield func(Event, error) bool) (more bool, err error) {
	page, err := p.wire.query(ctx, p.filter)
	if err != nil || len(page) == 0 {
		return false, err
	}
	oldest, newest, fresh := page[0].CreatedAt, page[0].CreatedAt, 0
	for _, ev := range page {
		oldest, newest = min(oldest, ev.CreatedAt), max(newest, ev.CreatedAt)
	}
	seen := map[string]bool{}
	for _, ev := range page {
		if ev.CreatedAt == oldest {
			seen[ev.ID] = true
		}
		if p.seen[ev.ID] || ev.Kind == kindWrap {
			continue
		}
		fresh++
		encoded, err := encode(ev)
		if err != nil {
			continue
		}
		if p.left == 0 || !yield(encoded, nil) {
			return false, nil
		}
		p.left--
	}
	if fresh > 0 && oldest < newest || p.filter.Until == nil || *p.filter.Until > oldest {
		p.seen, p.filter.Until = seen, &oldest
		return true, nil
	}
	// All of the page lies in the second that was asked for last: what the
	// relay has of it besides cannot be asked for.
	if oldest == 0 {
		return false, nil
	}
	before := oldest - 1
	maps.Copy(seen, p.seen)
	p.seen, p.filter.Until = nil, &before
	if len(page) >= p.filter.Limit {
		return p.crowded(ctx, oldest, seen, yield)
	}
	return true, nil
}

// crowded yields the events of a second that holds more than a page, but for
// those that were shown: by their ids, where the relay offers NIP-77.
func (p *pages) crowded(ctx context.Context, second nostr.Timestamp, shown map[string]bool, yield func(Event, error) bool) (more bool, err error) {
	if !p.reconciles {
		return true, fmt.Errorf("%w: %d", ErrIncomplete, second)
	}
	f := p.filter.Clone()
	f.Since, f.Until, f.Limit = &second, &second, 0
	all, err := p.wire.reconcile(ctx, f)
	if err != nil {
		return true, fmt.Errorf("%w: %d: %w", ErrIncomplete, second, err)
	}
	ids := slices.DeleteFunc(all.Need, func(id string) bool { return shown[id] })
	for some := range slices.Chunk(ids, p.filter.Limit) {
		events, err := p.wire.query(ctx, nostr.Filter{IDs: some, Limit: len(some)})
		if err != nil {
			return false, err
		}
		for _, ev := range events {
			encoded, err := encode(ev)
			if err != nil || ev.Kind == kindWrap || !f.Matches(ev) {
				continue
			}
			if p.left == 0 || !yield(encoded, nil) {
				return false, nil
			}
			p.left--
		}
	}
	return true, nil
}

// learn asks how many events the relay shows at a time, and for NIP-77. Where
// it does not say, a page of less than pageSize is taken to be all of a second.
func (p *pages) learn(ctx context.Context) {
	p.filter.Limit = pageSize
	info, err := p.wire.Client.Information(ctx, p.wire.URL)
	if err != nil {
		return
	}
	p.reconciles = slices.Contains(info.SupportedNIPs, negentropy)
	if limit := info.Limitation.MaxLimit; limit > 0 {
		p.filter.Limit = min(pageSize, limit)
	}
}

// query is Client.Query with patience.
func (w *Wire) query(ctx context.Context, filters ...nostr.Filter) (events []*nostr.Event, err error) {
	err = w.patiently(ctx, func() (err error) {
		events, err = w.Client.Query(ctx, w.URL, filters...)
		return err
	})
	return events, err
}

// patiently tries until it succeeds, the error is lasting or the attempts are
// over.
func (w *Wire) patiently(ctx context.Context, try func() error) error {
	for attempt := 0; ; attempt++ {
		err := try()
		if err == nil || errors.Is(err, carrier.ErrPermanent) || ctx.Err() != nil || attempt == attempts-1 {
			return err
		}
		if err := w.pause(ctx, attempt, err.Error()); err != nil {
			return err
		}
	}
}
