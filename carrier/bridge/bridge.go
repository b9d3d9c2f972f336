package bridge

import (
	"context"
	"errors"
	"log/slog"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/internal/database"
	"github.com/parleykit/parley/protocol/card"
	"github.com/parleykit/parley/protocol/envelope"
)

// Item is one event on its way.
type Item struct {
	ID                   string // 64 hex digits
	Kind                 int
	PubKey, Recipient, D string // Recipient is the only p tag of a wrap, D the d tag of a card
	Event                []byte // exact NIP-01 bytes, at most MaxEvent
	Expires              time.Time
}

// MaxEvent bounds an event, in bytes.
const MaxEvent = 64 << 10

// Side is one of the two ends of a bridge.
type Side interface {
	// Name is a word: relay, mqtt, ntfy.
	Name() string
	// Read hands on what arrives after the cursor until ctx ends. When handle
	// returns nil the item is durable, or of no use, and may be acknowledged.
	Read(ctx context.Context, from carrier.Cursor, handle func(ctx context.Context, data []byte, next carrier.Cursor) error) error
	// Write gives one item to the side; errors are those of carrier.Carrier.Send.
	Write(ctx context.Context, item Item) error
}

// Options of New. DB, Name, A, B and Holder are required.
type Options struct {
	DB   *database.DB
	Name string // of the pair, a word
	A, B Side

	Kinds      []int    // moved; none is wraps and cards
	Authors    []string // whose events are moved; none is everybody's
	Recipients []string // whose wraps are moved; none is everybody's
	// Holder is this process. One that begins anew under its name takes its lease back at
	// once, so that no two that run may have the same.
	Holder string
	Lease  time.Duration // until another takes over from one that is silent; 0 is 30 s

	Window   int   // writes of one direction that are under way; 0 is 64
	MaxQueue int   // items that wait in one direction before its reading pauses; 0 is 100 000
	MaxBytes int64 // of them; 0 is 256 MiB

	Retry        carrier.Backoff // zero fields are 1 s and 5 min
	WriteTimeout time.Duration   // of one item; 0 is 30 s

	Logger     *slog.Logger          // nil discards
	Registerer prometheus.Registerer // nil leaves the metrics unregistered
	Now        func() time.Time      // nil is time.Now
}

var word = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,31}$`)

func (o *Options) setDefaults() error {
	if o.DB == nil || o.A == nil || o.B == nil || o.Holder == "" || !word.MatchString(o.Name) {
		return errors.New("bridge: Options.DB, A, B, Holder and Name, a word, are required")
	}
	setDefault(&o.Window, 64)
	setDefault(&o.MaxQueue, 100_000)
	setDefault(&o.MaxBytes, 256<<20)
	setDefault(&o.Retry.Base, time.Second)
	setDefault(&o.Retry.Cap, 5*time.Minute)
	setDefault(&o.WriteTimeout, 30*time.Second)
	setDefault(&o.Lease, 30*time.Second)
	if len(o.Kinds) == 0 {
		o.Kinds = []int{envelope.KindWrap, card.Kind}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return nil
}

func setDefault[T int | int64 | time.Duration](v *T, to T) {
	if *v <= 0 {
		*v = to
	}
}

// Bridge moves events between two sides.
type Bridge struct {
	opts    Options
	db      *database.DB
	logger  *slog.Logger
	metrics *metrics
	frames  *carrier.Assembler
	lanes   []*direction
	lease   atomic.Value // string: the holder's name in the table, of this holding
}

// New makes a bridge and its tables; it moves nothing before Run.
func New(ctx context.Context, opts Options) (*Bridge, error) {
	if err := opts.setDefaults(); err != nil {
		return nil, err
	}
	if err := Migrate(ctx, opts.DB); err != nil {
		return nil, err
	}
	frames, err := carrier.NewAssembler(ctx, opts.DB, opts.Now)
	if err != nil {
		return nil, err
	}
	b := &Bridge{opts: opts, db: opts.DB, frames: frames, logger: opts.Logger.With("component", "bridge", "bridge", opts.Name), metrics: newMetrics(opts.Registerer, opts.Name)}
	b.lanes = []*direction{newDirection(b, "a_to_b", opts.A, opts.B), newDirection(b, "b_to_a", opts.B, opts.A)}
	return b, nil
}

// Run moves events until ctx ends, whenever this process holds the bridge.
func (b *Bridge) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := b.hold(ctx, b.move); err != nil && ctx.Err() == nil {
			b.logger.WarnContext(ctx, "bridge stopped", "err", err)
			pause(ctx, time.Second)
		}
	}
	return nil
}

// move runs both directions until ctx ends.
func (b *Bridge) move(ctx context.Context) error {
	if err := b.purge(ctx); err != nil {
		return err
	}
	for _, d := range b.lanes {
		d.queue = newQueue(b.opts.Now)
		if err := d.scan(ctx); err != nil {
			return err
		}
	}
	var group sync.WaitGroup
	for _, d := range b.lanes {
		group.Go(func() { d.read(ctx) })
		group.Go(func() { d.drain(ctx) })
		group.Go(func() { d.rescan(ctx) })
	}
	group.Go(func() {
		for pause(ctx, time.Hour) {
			if err := b.purge(ctx); err != nil {
				b.logger.WarnContext(ctx, "forgetting old items", "err", err)
			}
		}
	})
	group.Wait()
	return nil
}

// wanted reports whether the options name an item.
func (b *Bridge) wanted(i Item) bool {
	return slices.Contains(b.opts.Kinds, i.Kind) &&
		(len(b.opts.Authors) == 0 || slices.Contains(b.opts.Authors, i.PubKey)) &&
		(i.Recipient == "" || len(b.opts.Recipients) == 0 || slices.Contains(b.opts.Recipients, i.Recipient))
}

// pause waits; false when ctx ended.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
