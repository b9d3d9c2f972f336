package database

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	_ "modernc.org/sqlite" // registers the driver "sqlite"
)

// Options of Open; the zero value is usable.
type Options struct {
	// Logger takes migration notes and batches that had to be run again; nil
	// discards them.
	Logger *slog.Logger
	// Registerer takes the metrics; nil keeps them unregistered.
	Registerer prometheus.Registerer
	// BusyTimeout is how long to wait for another process that holds the
	// database; 0 means 10 s.
	BusyTimeout time.Duration
	// Readers is the number of reader connections; 0 means 4 or the number of
	// CPUs, whichever is more.
	Readers int
	// MaxBatch is the most jobs one transaction of Write takes; 0 means 128.
	MaxBatch int
	// Queue is how many jobs may wait before Write and Tx block; 0 means 1024.
	Queue int
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
	return o
}

// DB is an open database.
type DB struct {
	path    string
	opts    Options
	logger  *slog.Logger
	metrics *metrics
	writer  *sql.DB // one connection, used by the writing goroutine only
	reader  *sql.DB

	mu     sync.RWMutex // guards closed and sends on jobs
	closed bool
	jobs   chan *job
	done   chan struct{} // closed when the writing goroutine has ended
}

// Open opens the database named by address, making file and folder when they
// are missing. The only form so far is "sqlite:PATH"; another one gives
// ErrUnsupported, a file that others may read ErrPermissions.
func Open(ctx context.Context, address string, opts Options) (*DB, error) {
	path, err := pathOf(address)
	if err != nil {
		return nil, err
	}
	if err := prepareFile(path); err != nil {
		return nil, err
	}
	opts = opts.withDefaults()
	db := &DB{
		path: path, opts: opts, logger: opts.Logger.With("component", "database"),
		metrics: newMetrics(opts.Registerer),
		jobs:    make(chan *job, opts.Queue), done: make(chan struct{}),
	}
	if err := db.connect(ctx); err != nil {
		db.closePools()
		return nil, err
	}
	go db.work()
	return db, nil
}

// pathOf reads an address: "sqlite:PATH".
func pathOf(address string) (string, error) {
	scheme, path, found := strings.Cut(address, ":")
	switch {
	case scheme == "postgres" || scheme == "postgresql":
		return "", fmt.Errorf("%w: PostgreSQL is not built in yet, use sqlite:PATH", ErrUnsupported)
	case !found || scheme != "sqlite":
		return "", fmt.Errorf("%w: database address must be sqlite:PATH", ErrUnsupported)
	case path == "" || strings.HasPrefix(path, ":") || strings.ContainsAny(path, "\x00"):
		return "", fmt.Errorf("%w: sqlite: needs the path of a file", ErrUnsupported)
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("resolving database path: %w", err)
	}
	return absolute, nil
}

// prepareFile makes folder and file. SQLite gives its -wal and -shm files the
// mode of the main file.
func prepareFile(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("making database folder: %w", err)
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("opening database file: %w", err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return fmt.Errorf("opening database file: %w", err)
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return fmt.Errorf("%w: %s has mode %04o, want 0600", ErrPermissions, path, mode)
	}
	return nil
}

// connect opens both pools and proves that the file is a database.
func (db *DB) connect(ctx context.Context) (err error) {
	if db.writer, err = sql.Open("sqlite", db.dsn("_txlock=immediate")); err != nil {
		return fmt.Errorf("opening database: %w", err)
	}
	db.writer.SetMaxOpenConns(1)
	if err := db.writer.PingContext(ctx); err != nil {
		return fmt.Errorf("opening database %s: %w", db.path, classify(err))
	}
	if db.reader, err = sql.Open("sqlite", db.dsn("_query_only=1")); err != nil {
		return fmt.Errorf("opening database: %w", err)
	}
	db.reader.SetMaxOpenConns(db.opts.Readers)
	db.reader.SetMaxIdleConns(db.opts.Readers)
	if err := db.reader.PingContext(ctx); err != nil {
		return fmt.Errorf("opening database %s: %w", db.path, classify(err))
	}
	return nil
}

// dsn is the driver's address of the file; the pragmas hold on every
// connection that the pool ever opens with it.
func (db *DB) dsn(extra string) string {
	file := url.URL{Scheme: "file", OmitHost: true, Path: db.path}
	pragmas := "_busy_timeout=" + strconv.FormatInt(db.opts.BusyTimeout.Milliseconds(), 10) +
		"&_journal_mode=WAL&_synchronous=FULL&_foreign_keys=1&_dqs=0&_defensive=1&_error_rc=1"
	return file.String() + "?" + pragmas + "&" + extra
}

// Path is the absolute path of the database file.
func (db *DB) Path() string { return db.path }

// Close refuses new jobs, runs the ones already accepted and closes the file.
// A View that is running is waited for. Closing twice is harmless.
func (db *DB) Close() error {
	db.mu.Lock()
	if !db.closed {
		db.closed = true
		close(db.jobs)
	}
	db.mu.Unlock()
	<-db.done
	return db.closePools()
}

func (db *DB) closePools() (err error) {
	for _, pool := range []*sql.DB{db.reader, db.writer} { // the writer last: it removes the WAL
		if pool == nil {
			continue
		}
		if e := pool.Close(); e != nil && err == nil {
			err = fmt.Errorf("closing database: %w", e)
		}
	}
	return err
}
