package carrier

import (
	"context"
	"crypto/rand"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/parleykit/parley/internal/database"
	"github.com/parleykit/parley/protocol/envelope"
	"github.com/parleykit/parley/protocol/message"
)

//go:embed migrations/*.sql
var migrations embed.FS

// triggers are the migrations that each kind of database spells its own way.
//
//go:embed triggers
var triggers embed.FS

// Options of New. DB, Keyer and Resolve are required.
type Options struct {
	DB       *database.DB   // the process's database; New adds its tables
	Keyer    envelope.Keyer // the agent's key
	Carriers []Carrier      // at most one for each scheme

	// Resolve names where an agent can be reached, from its card or from what
	// it told us. It may use the network. No address is an empty list; an
	// error is retried like a failed delivery.
	Resolve func(ctx context.Context, pubkey string) ([]Address, error)

	// Handle processes one stored message inside the transaction that marks it
	// done, so once. An error that wraps ErrPermanent fails the message, any
	// other is tried again until the message expires. nil marks all as done.
	Handle func(ctx context.Context, tx *sql.Tx, in *Incoming) error

	// IsMember reports whether the sender of m takes part in a room that m
	// belongs to. Members are acknowledged and processed like contacts. nil
	// means nobody.
	IsMember func(ctx context.Context, tx *sql.Tx, pubkey string, m *message.Message) bool

	// Stranger lets the application take a message from a stranger, such as a
	// proposal to an open venue. true hands it to Handle instead of the request
	// box, still without an ack, within the bounds of the request box for each
	// day. It decides on what in holds alone. nil takes nothing.
	Stranger func(ctx context.Context, in *Incoming) bool

	// Instance names this process among several on one PostgreSQL, the same in
	// every life: what it was sending when it died is due as soon as it runs
	// again. Empty is for a process that is the only one.
	Instance string

	Now        func() time.Time      // nil is time.Now
	Logger     *slog.Logger          // nil discards
	Registerer prometheus.Registerer // nil leaves the metrics unregistered

	Retry  Backoff // after a transient failure; zero is 2 s to 15 min
	Resend Backoff // of what a contact has not acknowledged; zero is 1 min to 6 h

	// Parallel is how many addresses of a contact get a message at once; 0 is 1.
	// Fallback is how long to wait for the ack before the next ones get it too;
	// 0 is 30 s. Where no ack is awaited every address gets the message.
	Parallel int
	Fallback time.Duration
	// BreakAfter is how many transient failures in a row open an address's
	// circuit; 0 is 5.
	BreakAfter int

	SendTimeout time.Duration // of one Send or Resolve; 0 is 30 s
	Senders     int           // messages sent at a time; 0 is 8
	Keep        time.Duration // how long outbox rows outlive their expiry; 0 is 30 days
	Limits      Limits        // zero fields have defaults
}

// Limits bound what others can make an agent store.
type Limits struct {
	Requests          int   // messages in the request box; 0 is 1000
	RequestBytes      int64 // their size; 0 is 64 MiB
	SenderRequests    int   // messages of one stranger; 0 is 20
	SenderBytes       int64 // their size; 0 is 4 MiB
	Parts             int   // stored parts, half of them of strangers; 0 is 1024
	ContactParts      int   // parts of one contact; 0 is 256
	StrangerParts     int   // parts of one stranger; 0 is 64
	Outbox            int   // messages that wait to be sent; 0 is 10000
	OutboxBytes       int64 // their size when sealed; 0 is 256 MiB
	OutboxOfPeer      int   // of them to one recipient; 0 is a tenth, but at least 100
	FrameBytes        int64 // frames of one carrier that wait for others; 0 is 16 MiB
	InletFrameBytes   int64 // of them by one inlet, see WithInlet; 0 is 4 MiB
	StrangerPartBytes int64 // size of all parts of strangers; 0 is 16 MiB
}

func (o *Options) check() error {
	switch {
	case o.DB == nil:
		return errors.New("carrier: Options.DB is required")
	case o.Keyer == nil:
		return errors.New("carrier: Options.Keyer is required")
	case o.Resolve == nil:
		return errors.New("carrier: Options.Resolve is required")
	}
	return nil
}

func (o *Options) setDefaults() {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.Retry.setDefaults(2*time.Second, 15*time.Minute)
	o.Resend.setDefaults(time.Minute, 6*time.Hour)
	setDefault(&o.Parallel, 1)
	setDefault(&o.Fallback, 30*time.Second)
	setDefault(&o.BreakAfter, 5)
	setDefault(&o.SendTimeout, 30*time.Second)
	setDefault(&o.Senders, 8)
	setDefault(&o.Keep, 30*24*time.Hour)
	l := &o.Limits
	setDefault(&l.Requests, 1000)
	setDefault(&l.RequestBytes, 64<<20)
	setDefault(&l.SenderRequests, 20)
	setDefault(&l.SenderBytes, 4<<20)
	setDefault(&l.Parts, 1024)
	setDefault(&l.ContactParts, 256)
	setDefault(&l.StrangerParts, envelope.MaxParts)
	setDefault(&l.StrangerPartBytes, 16<<20)
	setDefault(&l.FrameBytes, 16<<20)
	setDefault(&l.InletFrameBytes, 4<<20)
	setDefault(&l.Outbox, 10_000)
	setDefault(&l.OutboxBytes, 256<<20)
	setDefault(&l.OutboxOfPeer, max(100, l.Outbox/10))
}

func setDefault[N int | int64 | time.Duration](value *N, def N) {
	if *value <= 0 {
		*value = def
	}
}

// Engine is a durable outbox and inbox.
type Engine struct {
	opts     Options
	db       *database.DB
	keyer    envelope.Keyer
	me       string
	carriers map[string]Carrier
	logger   *slog.Logger
	metrics  *metrics
	now      func() time.Time

	running   sync.Mutex
	endpoints *endpoints
	changes   *broadcast
	wakeOut   chan struct{} // the outbox has work
	wakeIn    chan struct{} // the inbox has work

	shared     bool   // the database may have other processes
	self       string // marks the own notices to them
	announcing atomic.Bool
	pollPeriod time.Duration // longest time to notice what another process left behind

	probes probes

	storing  chan struct{} // a slot for each outcome on its way to the disk
	sendMu   sync.Mutex
	inFlight map[int64]int64 // outbox rows being sent, with the end of the lease on a shared database
}

// New prepares an Engine and its tables. It connects to nothing.
func New(ctx context.Context, opts Options) (*Engine, error) {
	if err := opts.check(); err != nil {
		return nil, err
	}
	opts.setDefaults()
	e := &Engine{
		opts: opts, db: opts.DB, keyer: opts.Keyer, me: opts.Keyer.PublicKey(),
		carriers: make(map[string]Carrier), logger: opts.Logger.With("component", "carrier"), now: opts.Now,
		changes: newBroadcast(),
		wakeOut: make(chan struct{}, 1), wakeIn: make(chan struct{}, 1),
		inFlight: make(map[int64]int64), storing: make(chan struct{}, opts.Senders),
		shared: opts.DB.Path() == "", self: rand.Text(), pollPeriod: 5 * time.Second,
	}
	var schemes []string
	for _, c := range opts.Carriers {
		if _, twice := e.carriers[c.Scheme()]; twice {
			return nil, fmt.Errorf("carrier: two carriers of scheme %q", c.Scheme())
		}
		e.carriers[c.Scheme()] = c
		schemes = append(schemes, c.Scheme())
	}
	if err := Migrate(ctx, e.db); err != nil {
		return nil, err
	}
	e.metrics = newMetrics(opts.Registerer, schemes)
	e.endpoints = newEndpoints(&opts, e.metrics.circuit)
	return e, nil
}

// PublicKey is the agent's key, 64 lowercase hex characters.
func (e *Engine) PublicKey() string { return e.me }

// Run receives, processes, sends and purges until ctx ends, and returns nil
// then. Nothing it had acknowledged is lost if the process dies instead.
func (e *Engine) Run(ctx context.Context) error {
	if !e.running.TryLock() {
		return ErrRunning
	}
	defer e.running.Unlock()
	if err := e.listen(ctx); err != nil {
		return fmt.Errorf("carrier: %w", err)
	}
	if err := e.takeBack(ctx); err != nil && ctx.Err() == nil {
		e.logger.WarnContext(ctx, "leases of an earlier life stay until they run out", "err", err)
	}
	var group sync.WaitGroup
	for _, c := range e.opts.Carriers {
		group.Go(func() { e.receiveLoop(ctx, c) })
	}
	group.Go(func() { e.dispatchLoop(ctx) })
	group.Go(func() { e.renewLoop(ctx) })
	group.Go(func() { e.processLoop(ctx) })
	group.Go(func() { e.nackLoop(ctx) })
	group.Go(func() { e.purgeLoop(ctx) })
	group.Go(func() { e.measureLoop(ctx) })
	group.Wait()
	return nil
}

// receiveLoop keeps one carrier receiving.
func (e *Engine) receiveLoop(ctx context.Context, c Carrier) {
	for failures := 0; ctx.Err() == nil; failures++ {
		began := e.now()
		cursor, err := e.cursor(ctx, c.Scheme())
		if err == nil {
			err = c.Receive(ctx, cursor, e.handler(c.Scheme()))
		}
		if ctx.Err() != nil {
			return
		}
		if e.now().Sub(began) > time.Minute {
			failures = 0
		}
		e.metrics.receiveFailures.WithLabelValues(c.Scheme()).Inc()
		e.logger.WarnContext(ctx, "receiving stopped", "scheme", c.Scheme(), "err", err)
		sleep(ctx, e.opts.Retry.Delay(failures))
	}
}

// sleep waits for d or until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// wake signals a loop without ever blocking.
func wake(loop chan struct{}) {
	select {
	case loop <- struct{}{}:
	default:
	}
}

// Wake makes Run look at the outbox now, here and in every process of the
// database. Call it after the commit of a transaction in which SendTx was used;
// without it the message leaves with the next one.
func (e *Engine) Wake() {
	wake(e.wakeOut)
	e.announce()
}

// waitFor blocks until the loop is woken, the time has come or ctx ends. A zero
// time is never, but on a shared database others may leave work behind.
func (e *Engine) waitFor(ctx context.Context, loop chan struct{}, at time.Time) {
	if poll := e.now().Add(e.pollPeriod); e.shared && (at.IsZero() || at.After(poll)) {
		at = poll
	}
	var due <-chan time.Time
	if !at.IsZero() {
		timer := time.NewTimer(max(0, at.Sub(e.now())))
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-ctx.Done():
	case <-loop:
	case <-due:
	}
}
