package merklelog

import (
	"context"
	"crypto"
	"crypto/ed25519"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/parleykit/parley/internal/database"
	"github.com/parleykit/parley/protocol/logproof"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Errors of this package; test with errors.Is.
var (
	// ErrUnknown means an entry that was never appended, or a size of which
	// there is no checkpoint.
	ErrUnknown = errors.New("merklelog: not in the log")
	// ErrWaiting means an entry that was appended and that no checkpoint
	// covers yet. It will be covered; asking again helps.
	ErrWaiting = errors.New("merklelog: no checkpoint covers the entry yet")
	// ErrBroken means that the stored tree is not the one that was signed, so
	// that someone changed the database. Nothing is signed any more.
	ErrBroken = errors.New("merklelog: stored tree is not the signed one")
	// ErrRunning means a second Run.
	ErrRunning = errors.New("merklelog: already running")
	// ErrInvalid means an entry or an option that cannot be.
	ErrInvalid = errors.New("merklelog: invalid")
)

// LeafSize is the size of an entry, in bytes.
const LeafSize = 32

// maxBatch is how many entries one checkpoint adds at most, so that its
// transaction stays short.
const maxBatch = 4096

// Options of New. DB, Origin and Key are required.
type Options struct {
	DB *database.DB // New adds the tables

	// Origin names the log for good: the address at which it is served without
	// its scheme, such as "parley.example/receipts/log". It holds no space, no
	// plus sign and at most 256 bytes.
	Origin string
	// Key is the Ed25519 key that signs checkpoints. After a rotation the
	// newest checkpoint is signed by the new key as well.
	Key crypto.Signer
	// Witnesses are the keys whose cosignatures are kept. They are at most 32.
	Witnesses []logproof.Key

	// Every is how often Run looks for entries that other processes appended;
	// 0 is a second. Wake makes it look at once.
	Every time.Duration
	// Made is told of every checkpoint that this Log made, and of every failure
	// of Run, where c is empty. It must not block. nil is told nothing.
	Made func(c logproof.Checkpoint, err error)

	Now    func() time.Time // nil is time.Now
	Logger *slog.Logger     // nil discards
}

func (o *Options) setDefaults() {
	if o.Every <= 0 {
		o.Every = time.Second
	}
	if o.Made == nil {
		o.Made = func(logproof.Checkpoint, error) {}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
}

// Log is one log.
type Log struct {
	opts    Options
	key     logproof.Key
	id      int64 // of the log in the tables
	forLock string
	wake    chan struct{}
	running sync.Mutex
}

// maxWitnesses keeps a checkpoint with all its signatures below MaxNote.
const maxWitnesses = 32

// Migrate adds the tables to a database, or brings them up to date, as New and
// NewWitness do.
func Migrate(ctx context.Context, db *database.DB) error {
	return db.Migrate(ctx, "merklelog", migrations)
}

// New opens the log of that origin and makes it when it is not there. Whatever
// was appended before has a checkpoint when New returns, signed by the key: of
// an empty log too. ErrInvalid for options that cannot be.
func New(ctx context.Context, opts Options) (*Log, error) {
	if opts.DB == nil || opts.Key == nil || len(opts.Witnesses) > maxWitnesses {
		return nil, fmt.Errorf("%w: a log needs a database, a key and at most %d witnesses", ErrInvalid, maxWitnesses)
	}
	opts.setDefaults()
	public, _ := opts.Key.Public().(ed25519.PublicKey)
	key, err := logproof.LogKey(opts.Origin, public)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	l := &Log{opts: opts, key: key, forLock: opts.DB.ForUpdate(), wake: make(chan struct{}, 1)}
	l.opts.Logger = opts.Logger.With("component", "merklelog", "origin", opts.Origin)
	if err := Migrate(ctx, opts.DB); err != nil {
		return nil, fmt.Errorf("merklelog: %w", err)
	}
	if err := l.open(ctx); err != nil {
		return nil, fmt.Errorf("merklelog: opening log: %w", err)
	}
	if err := l.CatchUp(ctx); err != nil {
		return nil, err
	}
	return l, nil
}

// open finds the log's number.
func (l *Log) open(ctx context.Context) error {
	return l.opts.DB.Tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO merklelog_logs (origin, size) VALUES ($1, 0) ON CONFLICT (origin) DO NOTHING`, l.opts.Origin)
		if err != nil {
			return err
		}
		return tx.QueryRowContext(ctx, `SELECT log FROM merklelog_logs WHERE origin = $1`, l.opts.Origin).Scan(&l.id)
	})
}

// Key is the public key of the log, with its origin as its name.
func (l *Log) Key() logproof.Key { return l.key }

// Append stores an entry of LeafSize bytes in the caller's transaction; it is
// in the log when that commits, and durable as it is. Call Wake afterwards. An
// entry that is there already stays where it is: nothing happens then.
// ErrInvalid for another size.
//
// The transaction is one of database.DB's Tx or Write. Transactions that
// append do not wait for each other.
func (l *Log) Append(ctx context.Context, tx *sql.Tx, leaf []byte) error {
	if len(leaf) != LeafSize {
		return fmt.Errorf("%w: entry of %d bytes", ErrInvalid, len(leaf))
	}
	if _, err := tx.ExecContext(ctx, `INSERT INTO merklelog_waiting (log, leaf) VALUES ($1, $2)`, l.id, leaf); err != nil {
		return fmt.Errorf("storing log entry: %w", err)
	}
	return nil
}

// Index is the place of an entry, which never changes. ErrUnknown, ErrWaiting.
func (l *Log) Index(ctx context.Context, tx *sql.Tx, leaf []byte) (index int64, err error) {
	err = tx.QueryRowContext(ctx, `SELECT idx FROM merklelog_leaves WHERE log = $1 AND leaf = $2`, l.id, leaf).Scan(&index)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, l.missing(ctx, tx, leaf)
	}
	if err != nil {
		return 0, fmt.Errorf("reading log entry: %w", err)
	}
	return index, nil
}

// missing tells why an entry has no place.
func (l *Log) missing(ctx context.Context, tx *sql.Tx, leaf []byte) error {
	var waits bool
	err := tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM merklelog_waiting WHERE log = $1 AND leaf = $2)`, l.id, leaf).Scan(&waits)
	switch {
	case err != nil:
		return fmt.Errorf("reading log entry: %w", err)
	case waits:
		return ErrWaiting
	}
	return ErrUnknown
}
