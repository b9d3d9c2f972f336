package venue

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/parleykit/parley/internal/database"
	"github.com/parleykit/parley/protocol/agreement"
	"github.com/parleykit/parley/protocol/message"
)

//go:embed migrations/*.sql
var migrations embed.FS

// ErrConflict means that the room changed between reading and writing it. The
// transaction must be rolled back; trying again helps.
var ErrConflict = errors.New("venue: room changed meanwhile")

// ErrBroken means that a stored room no longer follows its own rules, so that
// someone changed the database. Nothing is done with such a room.
var ErrBroken = errors.New("venue: stored room does not verify")

// Outbox takes the venue's messages. carrier.Engine is one.
type Outbox interface {
	// SendTx stores m for delivery in the caller's transaction.
	SendTx(ctx context.Context, tx *sql.Tx, m *message.Message) error
	// Wake starts delivery after a commit.
	Wake()
}

// Options of New. DB, Outbox, Key and Origin are required.
type Options struct {
	DB     *database.DB // the process's database; New adds the venue's tables
	Outbox Outbox       // delivers to the members of rooms

	// Key is the venue's key: agreements name it, messages come from it and it
	// signs the end of every room.
	Key agreement.Signer
	// Origin is the http or https origin on which the agreements' schema ids
	// stand, without a path: "https://parley.example".
	Origin string

	// Hosts decides who may open rooms, by public key in lower-case hex. It may
	// read the database and must not write it. nil admits nobody.
	Hosts func(ctx context.Context, pubkey string) bool
	// DailyCap is how many rooms one key may open within 24 hours; 0 is 20.
	DailyCap int
	// Keep is how long a closed room stays after its last event; 0 is 365 days.
	// Its members hold the bundle themselves.
	Keep time.Duration

	// Receipts makes a receipt for every accepted act; nil makes none.
	Receipts Receipts

	Now        func() time.Time      // nil is time.Now
	Logger     *slog.Logger          // nil discards
	Registerer prometheus.Registerer // nil leaves the metrics unregistered
}

func (o *Options) check() error {
	switch {
	case o.DB == nil:
		return errors.New("venue: Options.DB is required")
	case o.Outbox == nil:
		return errors.New("venue: Options.Outbox is required")
	case o.Key == nil:
		return errors.New("venue: Options.Key is required")
	case !agreement.ValidOrigin(o.Origin):
		return errors.New("venue: Options.Origin must be an http or https origin without a path")
	}
	return nil
}

func (o *Options) setDefaults() {
	if o.Hosts == nil {
		o.Hosts = func(context.Context, string) bool { return false }
	}
	if o.DailyCap <= 0 {
		o.DailyCap = 20
	}
	if o.Keep <= 0 {
		o.Keep = 365 * 24 * time.Hour
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
}

// Venue hosts rooms for one key.
type Venue struct {
	opts    Options
	me      string // the venue's public key
	now     func() time.Time
	logger  *slog.Logger
	metrics *metrics
	store   store
	ration  *ration
	running sync.Mutex
	alarm   alarm
}

// New prepares a Venue and its tables. It sends nothing and starts nothing. The
// first one owns the database; one with another key gets ErrOtherVenue.
func New(ctx context.Context, opts Options) (*Venue, error) {
	if err := opts.check(); err != nil {
		return nil, err
	}
	opts.setDefaults()
	if err := Migrate(ctx, opts.DB); err != nil {
		return nil, fmt.Errorf("venue: %w", err)
	}
	me := opts.Key.PublicKey()
	if err := claim(ctx, opts.DB, me); err != nil {
		return nil, fmt.Errorf("venue: %w", err)
	}
	v := &Venue{
		opts: opts, me: me, now: opts.Now,
		logger: opts.Logger.With("component", "venue"),
		store:  store{cache: newRoomCache()}, ration: newRation(), alarm: newAlarm(),
	}
	v.metrics = newMetrics(opts.Registerer, v.outcomes)
	return v, nil
}

// outcomes counts the stored rooms by outcome, for the metrics.
func (v *Venue) outcomes() (counts map[string]int64, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	err = v.opts.DB.View(ctx, func(ctx context.Context, tx *sql.Tx) error {
		counts, err = v.store.outcomes(ctx, tx)
		return err
	})
	return counts, err
}
