package database

import (
	"context"
	"database/sql"
	"io/fs"
	"log/slog"
	"runtime"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Options of Open; the zero value is usable.
type Options struct {
	// Logger takes migration notes and batches that had to be run again; nil
	// discards them.
	Logger *slog.Logger
	// Registerer takes the metrics; nil keeps them unregistered.
	Registerer prometheus.Registerer
	// BusyTimeout is how long to wait for another process that holds the
	// database (SQLite) or for a lock, and how long a job that others got in
	// the way of is run again (PostgreSQL); 0 means 10 s.
	BusyTimeout time.Duration
	// Readers is the number of reader connections; 0 means 4 or the number of
	// CPUs, whichever is more.
	Readers int
	// MaxBatch is the most jobs one transaction of Write takes; 0 means 128.
	// SQLite only.
	MaxBatch int
	// Queue is how many jobs may wait before Write and Tx block; 0 means 1024.
	// SQLite only.
	Queue int
	// Writers is the number of connections of Write and Tx; 0 means 16.
	// PostgreSQL only.
	Writers int
	// JobTimeout bounds one run of a job and each of its statements, so that a
	// server or network that fell silent gives ErrTransient; 0 means 30 s.
	// PostgreSQL only; migrations are not bounded.
	JobTimeout time.Duration
	// Heartbeat is how often the idle connection of Listen is tested; 0 means
	// 15 s. PostgreSQL only.
	Heartbeat time.Duration
	// PasswordFile holds the password of a PostgreSQL address that has none,
	// up to 1 KiB; white space around it is cut off. It is read for every new
	// connection, so a changed password needs no restart.
	PasswordFile string
}

func (o Options) withDefaults() Options {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.BusyTimeout <= 0 {
		o.BusyTimeout = 10 * time.Second
	}
	if o.Readers <= 0 {
		o.Readers = max(4, runtime.NumCPU())
	}
	if o.MaxBatch <= 0 {
		o.MaxBatch = 128
	}
	if o.Queue <= 0 {
		o.Queue = 1024
	}
	if o.Writers <= 0 {
		o.Writers = 16
	}
	if o.JobTimeout <= 0 {
		o.JobTimeout = 30 * time.Second
	}
	if o.Heartbeat <= 0 {
		o.Heartbeat = 15 * time.Second
	}
	return o
}

// backend is one kind of database.
type backend interface {
	write(ctx context.Context, fn Func) error
	tx(ctx context.Context, fn Func) error
	view(ctx context.Context, fn Func) error
	migrate(ctx context.Context, service string, fsys fs.FS) error
	// notify takes part in the transaction of the job that o belongs to.
	notify(ctx context.Context, tx *sql.Tx, o *outlet, n notice) error
	// listening makes sure that notices of other processes reach the hub.
	listening() error
	forUpdate() string
	close() error
}

// base is what both backends share.
type base struct {
	opts    Options
	logger  *slog.Logger
	metrics *metrics
	hub     *hub
}

// DB is an open database.
type DB struct {
	*base
	backend backend
}

// Open opens the database named by address.
//
// "sqlite:PATH" makes file and folder when they are missing; a file that others
// may read gives ErrPermissions. "postgres://USER@HOST:PORT/NAME?sslmode=…" is
// a PostgreSQL of version 13 or later that exists already; several hosts may
// be given, of which the one that takes writes is used. Any other form gives
// ErrUnsupported. A server that does not answer gives ErrTransient.
func Open(ctx context.Context, address string, opts Options) (*DB, error) {
	opts = opts.withDefaults()
	b := &base{opts: opts, logger: opts.Logger.With("component", "database"), hub: newHub()}
	var opened backend
	var err error
	if strings.HasPrefix(address, "postgres://") || strings.HasPrefix(address, "postgresql://") {
		opened, err = openPostgres(ctx, address, b)
	} else {
		opened, err = openSQLite(ctx, address, b)
	}
	if err != nil {
		return nil, err
	}
	return &DB{base: b, backend: opened}, nil
}

// Write runs fn in a transaction and returns after the commit. On SQLite
// callers who wait share a transaction, an error or panic of fn undoes fn
// alone. See the rules for a job in the package documentation. While the job
// waits, the end of ctx withdraws it; once it has begun, Write returns what
// became of it.
func (db *DB) Write(ctx context.Context, fn Func) error { return db.backend.write(ctx, fn) }

// Tx runs fn in a transaction of its own that acts as if no other ran beside
// it: what it reads cannot change before it commits. The end of ctx rolls back.
//
// On PostgreSQL fn is run again when others got in its way, so the rules for a
// job of Write hold for it too. Work that often meets on the same rows should
// lock them first, all in one order that every job keeps to, which saves runs:
//
//	SELECT … FROM rooms WHERE id IN ($1, $2) ORDER BY id` + db.ForUpdate()
func (db *DB) Tx(ctx context.Context, fn Func) error { return db.backend.tx(ctx, fn) }

// View runs fn on a read-only snapshot: all that was committed before View
// began, nothing that commits later. It may be called from within a job, where
// it does not see that job's own writes.
func (db *DB) View(ctx context.Context, fn Func) error { return db.backend.view(ctx, fn) }

// ForUpdate is " FOR UPDATE", or "" on SQLite, where a job is alone anyway.
// It goes to the end of a SELECT, after ORDER BY.
func (db *DB) ForUpdate() string { return db.backend.forUpdate() }

// Path is the absolute path of the file, "" on PostgreSQL.
func (db *DB) Path() string {
	if s, ok := db.backend.(*sqlite); ok {
		return s.path
	}
	return ""
}

// Close refuses new jobs, lets those already accepted end and closes the
// connections. A View that is running is waited for. Listeners end. Closing
// twice is harmless.
func (db *DB) Close() error {
	db.hub.close()
	return db.backend.close()
}

// failed classifies and counts an error on its way out.
func (b *base) failed(err error) error {
	err = classify(err)
	b.metrics.countError(err)
	return err
}
