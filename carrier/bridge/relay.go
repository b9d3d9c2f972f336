package bridge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	gonostr "github.com/nbd-wtf/go-nostr"
	"golang.org/x/sync/errgroup"

	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/carrier/nostr"
	"github.com/parleykit/parley/protocol/canonical"
	"github.com/parleykit/parley/protocol/card"
	"github.com/parleykit/parley/protocol/envelope"
)

const (
	lookBack     = 49 * time.Hour // wraps are dated up to 48 hours back
	roundPeriod  = time.Hour      // between two readings of what is stored
	wholePeriod  = 24 * time.Hour // between two of everything
	maxFollowed  = 1000           // recipients that are found by their cards
	maxNamed     = 100            // recipients in one question
	pageSize     = 500
	followPeriod = time.Second // collects new recipients before the question is asked anew
)

// RelayOptions of NewRelay. URL and Client are required.
type RelayOptions struct {
	URL string
	// Client authenticates with the bridge's key, which needs the relay's leave to
	// read the wraps of others.
	Client *nostr.Client
	// Scheme is that of the other side. Recipients are the keys whose wraps are read;
	// none is everybody whose card names a carrier of Scheme that Serves accepts.
	Scheme     string
	Recipients []string
	Serves     func(address string) bool // nil accepts every address
	Cards      bool                      // cards are read, too

	Logger *slog.Logger     // nil discards
	Now    func() time.Time // nil is time.Now
}

// Relay is a Nostr relay as one side of a bridge.
type Relay struct {
	opts RelayOptions

	mu      sync.Mutex
	targets map[string]string // address of each followed key at the other side
	dated   map[string]gonostr.Timestamp
	found   chan struct{} // signalled when a key is new
}

var _ Side = (*Relay)(nil)

// NewRelay makes a side; it connects to nothing.
func NewRelay(opts RelayOptions) (*Relay, error) {
	if opts.URL == "" || opts.Client == nil || opts.Scheme == "" {
		return nil, errors.New("bridge: RelayOptions.URL, Client and Scheme are required")
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	return &Relay{opts: opts, targets: map[string]string{}, dated: map[string]gonostr.Timestamp{}, found: make(chan struct{}, 1)}, nil
}

// Name implements Side.
func (r *Relay) Name() string { return "relay" }

// Verified reports that what is read was verified: the client checks id and signature.
func (r *Relay) Verified() bool { return true }

// Target is the address of a key at the other side, by its newest card; "" for none.
func (r *Relay) Target(_ context.Context, pubkey string) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.targets[pubkey], nil
}

// Write implements Side: it publishes the event.
func (r *Relay) Write(ctx context.Context, item Item) error {
	ev, err := canonical.DecodeEvent(item.Event)
	if err != nil {
		return fmt.Errorf("%w: %w", carrier.ErrPermanent, err)
	}
	return r.opts.Client.Publish(ctx, r.opts.URL, ev)
}

// Read implements Side. It follows cards of the other side's scheme and reads the wraps
// of its recipients: live, every hour what is dated within two days, and at the start
// and every day everything, since what was sent late may bear any date. There is no
// cursor; the bridge knows what it has moved.
func (r *Relay) Read(ctx context.Context, _ carrier.Cursor, handle func(ctx context.Context, data []byte, next carrier.Cursor) error) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	reading := newReading(ctx, fail, handle)
	defer reading.group.Wait()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return r.followCards(ctx, reading) })
	group.Go(func() error { return r.followWraps(ctx, reading) })
	return group.Wait()
}

// followCards learns where recipients are reached, and hands cards on.
func (r *Relay) followCards(ctx context.Context, reading *reading) error {
	f := gonostr.Filter{Kinds: []int{card.Kind}}
	if !r.opts.Cards {
		f.Tags = gonostr.TagMap{"l": {r.opts.Scheme}}
	}
	return r.opts.Client.Subscribe(ctx, r.opts.URL, func(ctx context.Context, ev *gonostr.Event) error {
		r.learn(ev)
		if !r.opts.Cards {
			return nil
		}
		return reading.take(ctx, ev)
	}, f)
}

// learn notes the address on a card.
func (r *Relay) learn(ev *gonostr.Event) {
	c, err := card.Parse(ev, r.opts.Now())
	if err != nil {
		return
	}
	address := ""
	for _, one := range c.Carriers {
		if one.Scheme == r.opts.Scheme && (r.opts.Serves == nil || r.opts.Serves(one.Address)) {
			address = cmp.Or(address, one.Address)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if ev.CreatedAt < r.dated[ev.PubKey] {
		return
	}
	_, known := r.targets[ev.PubKey]
	if !known && (address == "" || len(r.targets) >= maxFollowed) {
		return
	}
	r.dated[ev.PubKey] = ev.CreatedAt
	if address == "" {
		delete(r.targets, ev.PubKey)
		delete(r.dated, ev.PubKey)
	} else {
		r.targets[ev.PubKey] = address
	}
	if known == (address == "") {
		select {
		case r.found <- struct{}{}:
		default:
		}
	}
}

// recipients are the keys whose wraps are read now.
func (r *Relay) recipients() []string {
	if len(r.opts.Recipients) > 0 {
		return r.opts.Recipients
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []string
	for pubkey := range r.targets {
		all = append(all, pubkey)
	}
	slices.Sort(all)
	return all
}

// followWraps reads the wraps of the recipients, anew when there are others.
func (r *Relay) followWraps(ctx context.Context, reading *reading) error {
	for ctx.Err() == nil {
		asked, changed := context.WithCancel(ctx)
		group, asking := errgroup.WithContext(asked)
		for some := range slices.Chunk(r.recipients(), maxNamed) {
			group.Go(func() error { return r.live(asking, some, reading) })
			group.Go(func() error { return r.rounds(asking, some, reading) })
		}
		group.Go(func() error {
			select {
			case <-r.found:
				pause(asking, followPeriod)
			case <-asking.Done():
			}
			changed()
			return nil
		})
		err := group.Wait()
		changed()
		if err != nil && ctx.Err() == nil && !errors.Is(err, context.Canceled) {
			return err
		}
	}
	return context.Cause(ctx)
}

// wrapsOf asks for what is stored since a time; nil is everything.
func wrapsOf(recipients []string, since *gonostr.Timestamp) gonostr.Filter {
	return gonostr.Filter{Kinds: []int{envelope.KindWrap}, Tags: gonostr.TagMap{"p": recipients}, Since: since}
}

// lately is from when on wraps are read again.
func (r *Relay) lately() *gonostr.Timestamp {
	since := gonostr.Timestamp(r.opts.Now().Add(-lookBack).Unix())
	return &since
}

// live reads what comes, whatever its date.
func (r *Relay) live(ctx context.Context, recipients []string, reading *reading) error {
	f := wrapsOf(recipients, nil)
	f.LimitZero = true // nothing that is stored
	return r.opts.Client.Subscribe(ctx, r.opts.URL, reading.take, wrapsOf(recipients, r.lately()), f)
}

// rounds read what is stored.
func (r *Relay) rounds(ctx context.Context, recipients []string, reading *reading) error {
	for ctx.Err() == nil {
		unread, read := reading.split(recipients, r.opts.Now())
		if len(unread) > 0 {
			if err := r.backlog(ctx, wrapsOf(unread, nil), reading); err != nil {
				return err
			}
			reading.mark(unread, r.opts.Now())
		}
		if len(read) > 0 {
			if err := r.backlog(ctx, wrapsOf(read, r.lately()), reading); err != nil {
				return err
			}
		}
		pause(ctx, roundPeriod)
	}
	return context.Cause(ctx)
}

// backlog reads page by page, newest first, since relays answer with a part.
func (r *Relay) backlog(ctx context.Context, f gonostr.Filter, reading *reading) error {
	f.Limit = pageSize
	var last map[string]bool // ids of the page before, whose oldest second is read again
	for {
		events, err := r.opts.Client.Query(ctx, r.opts.URL, f)
		if err != nil {
			return err
		}
		if len(events) == 0 {
			return nil
		}
		oldest, fresh, page := events[0].CreatedAt, false, make(map[string]bool, len(events))
		for _, ev := range events {
			oldest, page[ev.ID] = min(oldest, ev.CreatedAt), true
			if last[ev.ID] {
				continue
			}
			fresh = true
			if err := reading.take(ctx, ev); err != nil {
				return err
			}
		}
		if !fresh {
			oldest--
		}
		f.Until, last = &oldest, page
	}
}
