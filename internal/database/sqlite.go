package database

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/pressly/goose/v3"

	"github.com/parleykit/parley/internal/durable"
)

// sqlite is a file with one writing goroutine and many readers.
type sqlite struct {
	*base
	path   string
	writer *sql.DB // one connection, used by the writing goroutine only
	reader *sql.DB

	mu     sync.RWMutex // guards closed and sends on jobs
	closed bool
	jobs   chan *job
	done   chan struct{} // closed when the writing goroutine has ended

	savepoints bool // of each job in a batch; the writing goroutine's own
}

func openSQLite(ctx context.Context, address string, b *base) (*sqlite, error) {
	path, err := pathOf(address)
	if err != nil {
		return nil, err
	}
	if err := prepareFile(path); err != nil {
		return nil, classify(err)
	}
	b.metrics = newMetrics(b.opts.Registerer)
	s := &sqlite{base: b, path: path, jobs: make(chan *job, b.opts.Queue), done: make(chan struct{})}
	if err := s.connect(ctx); err != nil {
		s.closePools()
		return nil, err
	}
	go s.work()
	return s, nil
}

// pathOf reads an address: "sqlite:PATH".
func pathOf(address string) (string, error) {
	scheme, path, found := strings.Cut(address, ":")
	switch {
	case !found || scheme != "sqlite":
		return "", fmt.Errorf("%w: database address must be sqlite:PATH or postgres://…", ErrUnsupported)
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
	if info.Size() == 0 { // new, and its folders may be
		if err := syncFolders(filepath.Dir(path)); err != nil {
			return fmt.Errorf("making database folder: %w", err)
		}
	}
	return nil
}

// syncFolders makes the names in a folder and in those above it last. A folder
// that may not be read holds no name of this process.
func syncFolders(path string) error {
	if err := durable.SyncFolder(path); err != nil && !errors.Is(err, fs.ErrPermission) {
		return err
	}
	if parent := filepath.Dir(path); parent != path {
		return syncFolders(parent)
	}
	return nil
}

// connect opens both pools and proves that the file is a database.
func (s *sqlite) connect(ctx context.Context) (err error) {
	if s.writer, err = s.pool("_txlock=immediate"); err != nil {
		return err
	}
	s.writer.SetMaxOpenConns(1)
	if err := s.writer.PingContext(ctx); err != nil {
		return fmt.Errorf("opening database %s: %w", s.path, classify(err))
	}
	if s.reader, err = s.pool("_query_only=1"); err != nil {
		return err
	}
	s.reader.SetMaxOpenConns(s.opts.Readers)
	s.reader.SetMaxIdleConns(s.opts.Readers)
	if err := s.reader.PingContext(ctx); err != nil {
		return fmt.Errorf("opening database %s: %w", s.path, classify(err))
	}
	// The log stands under its name now and keeps it until the end. SQLite syncs
	// the folder too, but takes a failure for success.
	if err := durable.SyncFolder(filepath.Dir(s.path)); err != nil {
		return fmt.Errorf("opening database %s: %w", s.path, classify(err))
	}
	return nil
}

func (s *sqlite) pool(extra string) (*sql.DB, error) {
	driver, err := newDriver(s.dsn(extra))
	if err != nil {
		return nil, fmt.Errorf("opening database: %w", err)
	}
	return sql.OpenDB(driver), nil
}

// dsn is the driver's address of the file; the pragmas hold on every
// connection that the pool ever opens with it.
func (s *sqlite) dsn(extra string) string {
	file := url.URL{Scheme: "file", OmitHost: true, Path: s.path}
	pragmas := "_busy_timeout=" + strconv.FormatInt(s.opts.BusyTimeout.Milliseconds(), 10) +
		"&_journal_mode=WAL&_synchronous=FULL&_foreign_keys=1&_dqs=0&_defensive=1&_error_rc=1"
	return file.String() + "?" + pragmas + "&" + extra
}

func (s *sqlite) close() error {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.jobs)
	}
	s.mu.Unlock()
	<-s.done
	return s.closePools()
}

func (s *sqlite) closePools() (err error) {
	for _, pool := range []*sql.DB{s.reader, s.writer} { // the writer last: it removes the WAL
		if pool == nil {
			continue
		}
		if e := pool.Close(); e != nil && err == nil {
			err = fmt.Errorf("closing database: %w", e)
		}
	}
	return err
}

func (s *sqlite) forUpdate() string { return "" }

func (s *sqlite) listening() error { return nil }

func (s *sqlite) notify(_ context.Context, _ *sql.Tx, o *outlet, n notice) error {
	o.add(n)
	return nil
}

func (s *sqlite) migrate(ctx context.Context, service string, fsys fs.FS) error {
	return s.submit(&job{mode: bare, ctx: ctx, bare: func(ctx context.Context) error {
		return s.up(ctx, goose.DialectSQLite3, s.writer, service, fsys)
	}})
}
