package nostr

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nbd-wtf/go-nostr"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/protocol/envelope"
)

// Bounds of reading what is stored.
const (
	pageSize = 500     // events asked for at a time
	maxPages = 2000    // of one session
	maxSeen  = 200_000 // wraps of one session
)

// clockSet is by how much a clock must go wrong in clockPeriod to count as set.
const clockSet, clockPeriod = time.Minute, 30 * time.Second

// inlet reads one relay on one connection. The relay's mark moves only when
// everything stored has been dealt with: relays answer newest first, and a
// crash must not skip the rest.
type inlet struct {
	carrier  *Carrier
	conn     *connection
	at       *position
	handle   func(wrap []byte, next carrier.Cursor) error
	base     mark  // when the session began
	since    int64 // created_at from which it reads; 0 for the first wrap
	handlers *semaphore.Weighted
	width    int64

	mu     sync.Mutex
	newest int64 // created_at seen, up to the clock
	caught bool  // everything stored is dealt with
	seen   map[string]bool
	failed error
}

// newInlet prepares a session. Handlers run under ctx: what they have begun
// is not undone by the end of the connection.
func (c *Carrier) newInlet(ctx context.Context, conn *connection, at *position, handle carrier.Handler) *inlet {
	base, now := at.of(conn.url), c.own.now().Unix()
	since := base.since(now)
	if since == 0 {
		base = mark{whole: dayOf(now)}
	}
	width := int64(c.opts.Handlers)
	return &inlet{
		carrier: c, conn: conn, at: at, base: base, since: since, newest: base.newest,
		handle:   func(wrap []byte, next carrier.Cursor) error { return handle(ctx, wrap, next) },
		handlers: semaphore.NewWeighted(width), width: width, seen: make(map[string]bool),
	}
}

// run reads what is stored and, if live, what comes until the connection or
// ctx ends. When a wrap could not be handled the mark goes back to where it
// was.
func (in *inlet) run(ctx context.Context, live bool) error {
	if err := in.conn.authenticate(ctx); err != nil && !errors.Is(err, errNoChallenge) {
		return err
	}
	r, err := in.conn.openAuthenticated(ctx, in.filters(0))
	if err != nil {
		return err
	}
	defer r.stop()
	group, ctx := errgroup.WithContext(ctx)
	stored := make(chan page, 1)
	group.Go(func() error { return in.readFirst(ctx, r, stored, live) })
	group.Go(func() error { return in.readRest(ctx, stored) })
	if live {
		group.Go(func() error { return in.watch(ctx) })
	}
	err = group.Wait()
	in.drain()
	if in.failed != nil {
		in.at.set(in.conn.url, in.base)
		return fmt.Errorf("handling a wrap: %w", in.failed)
	}
	return err
}

// filters ask for the wraps of this agent; until 0 is the first question. What
// comes live is new whatever its date: a sender may have been offline for days.
func (in *inlet) filters(until int64) nostr.Filters {
	f := nostr.Filter{Kinds: []int{envelope.KindWrap}, Tags: nostr.TagMap{"p": {in.carrier.me}}}
	live := f
	live.LimitZero = true // nothing that is stored
	if in.since > 0 {
		since := nostr.Timestamp(in.since)
		f.Since = &since
	}
	if until > 0 {
		at := nostr.Timestamp(until)
		f.Until, f.Limit = &at, pageSize
	}
	if until > 0 || in.since == 0 {
		return nostr.Filters{f}
	}
	return nostr.Filters{f, live}
}

var (
	errClockSet = errors.New("nostr: the clock was set")
	errDayOver  = errors.New("nostr: a day is over")
)

// watch ends the session when the clock was set, and after a day: what was
// refused for its time is then read again.
func (in *inlet) watch(ctx context.Context) error {
	ticker := time.NewTicker(in.carrier.clockPeriod)
	defer ticker.Stop()
	began, wall := time.Now(), in.carrier.own.now().Round(0) // without its monotonic part
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		passed := time.Since(began)
		if off := in.carrier.own.now().Round(0).Sub(wall) - passed; off.Abs() > clockSet {
			return errClockSet
		}
		if passed > day {
			return errDayOver
		}
	}
}

// page is what one answer held.
type page struct {
	events, fresh int
	oldest        int64
}

// readFirst reads the first answer and then, if live, what comes.
func (in *inlet) readFirst(ctx context.Context, r *request, stored chan<- page, live bool) error {
	first, err := in.readPage(ctx, r)
	if err != nil {
		return err
	}
	stored <- first
	for live {
		f, err := r.next(ctx)
		switch {
		case err != nil:
			return err
		case f.label == labelClosed:
			return closedError(f)
		case f.label == labelEvent:
			if _, _, err := in.take(ctx, f.event, r.filters); err != nil {
				return err
			}
		}
	}
	return nil
}

// readPage reads one answer up to its EOSE.
func (in *inlet) readPage(ctx context.Context, r *request) (p page, err error) {
	for {
		f, err := r.nextStored(ctx)
		switch {
		case err != nil:
			return p, err
		case f.label == labelEOSE:
			return p, nil
		case f.label == labelClosed:
			return p, closedError(f)
		}
		at, fresh, err := in.take(ctx, f.event, r.filters)
		if err != nil {
			return p, err
		}
		if at == 0 {
			continue
		}
		p.events++
		if fresh {
			p.fresh++
		}
		if p.oldest == 0 || at < p.oldest {
			p.oldest = at
		}
	}
}

// readRest asks for older wraps until there are none, waits until all are
// dealt with and moves the mark.
func (in *inlet) readRest(ctx context.Context, stored <-chan page) error {
	var last page
	select {
	case last = <-stored:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	for n := 0; last.events > 0 && n < maxPages; n++ {
		until := last.oldest
		if last.fresh == 0 {
			until-- // nothing but known ones: step over this second
		}
		next, err := in.ask(ctx, until)
		if err != nil {
			return err
		}
		if last.fresh == 0 && next.fresh == 0 {
			break
		}
		last = next
	}
	return in.catchUp(ctx)
}

func (in *inlet) ask(ctx context.Context, until int64) (page, error) {
	r, err := in.conn.open(ctx, in.filters(until))
	if err != nil {
		return page{}, err
	}
	defer r.stop()
	return in.readPage(ctx, r)
}

// catchUp moves the mark once every wrap taken so far is dealt with.
func (in *inlet) catchUp(ctx context.Context) error {
	if err := in.handlers.Acquire(ctx, in.width); err != nil {
		return context.Cause(ctx)
	}
	in.mu.Lock()
	failed, moved := in.failed, in.newest > in.base.newest
	in.caught = failed == nil
	if in.caught {
		in.mark()
	}
	in.mu.Unlock()
	in.handlers.Release(in.width)
	if failed != nil || !moved {
		return failed
	}
	return in.handle(nil, in.at.cursor())
}

// take verifies one event and starts its handling. It returns its created_at,
// 0 if it is not valid, and whether the session had not seen it.
func (in *inlet) take(ctx context.Context, data []byte, filters nostr.Filters) (at int64, fresh bool, err error) {
	ev, exact, ok := in.carrier.own.verify(data, filters)
	if !ok {
		return 0, false, nil
	}
	at = int64(ev.CreatedAt)
	if !in.note(ev.ID, at) {
		return at, false, nil
	}
	if err := in.handlers.Acquire(ctx, 1); err != nil {
		return at, true, context.Cause(ctx)
	}
	if err := in.failure(); err != nil {
		in.handlers.Release(1)
		return at, true, err
	}
	cursor := in.at.cursor()
	go func() {
		defer in.handlers.Release(1)
		if err := in.handle(exact, cursor); err != nil {
			in.fail(err)
		}
	}()
	return at, true, nil
}

// note remembers a wrap and its time; false when it was seen before. The time
// is a stranger's word and counts up to the present only.
func (in *inlet) note(id string, at int64) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.seen[id] {
		return false
	}
	if len(in.seen) >= maxSeen {
		clear(in.seen) // a repetition is only work for the inbox
	}
	in.seen[id] = true
	in.newest = max(in.newest, min(at, in.carrier.own.now().Unix()))
	if in.caught {
		in.mark()
	}
	return true
}

// mark moves the relay's mark; the caller holds mu.
func (in *inlet) mark() { in.at.set(in.conn.url, mark{in.newest, in.base.whole}) }

func (in *inlet) failure() error {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.failed
}

// fail ends the session: the wrap must be read again.
func (in *inlet) fail(err error) {
	in.mu.Lock()
	if in.failed == nil {
		in.failed = err
	}
	in.mu.Unlock()
	in.conn.close(err)
}

// drain waits for the handlers that still run; they end with their context.
func (in *inlet) drain() {
	if err := in.handlers.Acquire(context.Background(), in.width); err == nil {
		in.handlers.Release(in.width)
	}
}
