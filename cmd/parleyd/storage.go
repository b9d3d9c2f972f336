package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/carrier/bridge"
	"github.com/parleykit/parley/carrier/https"
	"github.com/parleykit/parley/internal/config"
	"github.com/parleykit/parley/internal/database"
	"github.com/parleykit/parley/internal/keys"
	"github.com/parleykit/parley/relay"
	"github.com/parleykit/parley/venue"
)

// Bounds of one transaction, and of its running again where a running server
// gets in its way.
const (
	maintenanceTimeout = 10 * time.Minute // PostgreSQL only
	busyTimeout        = time.Minute
)

// storage is what a server keeps, opened without one.
type storage struct {
	cfg      *config.Config
	logger   *slog.Logger
	lock     io.Closer    // of the data folder; nil beside a running server
	db       *database.DB // nil when there is none
	events   relay.Store  // nil when there is none
	venueKey *keys.Nostr  // nil when there is none
}

// openStorage opens what the server of a configuration keeps. Another process
// may use it at the same time only where all of it is in PostgreSQL.
func openStorage(ctx context.Context, cfg *config.Config, logger *slog.Logger) (s *storage, err error) {
	if _, err := os.Stat(cfg.KeysDir()); err != nil {
		return nil, fmt.Errorf("there is no server in %s: %w", cfg.Data, err)
	}
	s = &storage{cfg: cfg, logger: logger}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if lock, err := lockData(cfg.Data); err == nil {
		s.lock = lock
	} else if !errors.Is(err, errDataInUse) || !s.shared() {
		if errors.Is(err, errDataInUse) {
			err = fmt.Errorf("%w: stop it first", err)
		}
		return s, err
	}
	dir, err := keys.Open(cfg.KeysDir())
	if err != nil {
		return s, err
	}
	if s.venueKey, err = dir.Nostr(keys.Venue); err != nil && !errors.Is(err, keys.ErrNoKey) {
		return s, err
	}
	if err := s.openDatabase(ctx); err != nil {
		return s, err
	}
	return s, s.openEvents(ctx)
}

// shared tells whether everything is in PostgreSQL.
func (s *storage) shared() bool {
	return s.sqlite() == "" && (!s.cfg.Relay.Enabled || s.cfg.Relay.Store == config.StoreDatabase)
}

// sqlite is the path of the SQLite file; empty on PostgreSQL.
func (s *storage) sqlite() string {
	path, _ := strings.CutPrefix(s.cfg.DatabaseURL(), "sqlite:")
	if path == s.cfg.DatabaseURL() {
		return ""
	}
	return path
}

// openDatabase opens the database; a file that is not there is not made.
func (s *storage) openDatabase(ctx context.Context) (err error) {
	if path := s.sqlite(); path != "" {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return nil // a relay alone has none
		}
	}
	s.db, err = database.Open(ctx, s.cfg.DatabaseURL(), database.Options{
		Logger: s.logger, PasswordFile: s.cfg.DatabasePasswordFile, JobTimeout: maintenanceTimeout, BusyTimeout: busyTimeout,
	})
	if err != nil {
		return err
	}
	return errors.Join(carrier.Migrate(ctx, s.db), https.Migrate(ctx, s.db), bridge.Migrate(ctx, s.db), venue.Migrate(ctx, s.db))
}

// openEvents opens the relay's events, where there are any.
func (s *storage) openEvents(ctx context.Context) (err error) {
	if s.cfg.Relay.Store == config.StoreDatabase {
		if s.sqlite() != "" {
			return nil // no relay runs with this configuration
		}
		s.events, err = relay.OpenPostgres(ctx, s.cfg.Database, relay.PostgresOptions{PasswordFile: s.cfg.DatabasePasswordFile, Logger: s.logger})
		return err
	}
	if _, err := os.Stat(s.cfg.RelayDir()); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	s.events, err = relay.OpenPebble(s.cfg.RelayDir(), s.logger)
	return err
}

// close releases what is open, the latest first.
func (s *storage) close() (err error) {
	if s.events != nil {
		err = s.events.Close()
	}
	if s.db != nil {
		err = errors.Join(err, s.db.Close())
	}
	if s.lock != nil {
		err = errors.Join(err, s.lock.Close())
	}
	s.events, s.db, s.lock = nil, nil, nil
	return err
}

// vacuum gives the space of removed rows and events back, so that their bytes
// are in no file of the server any more. It closes the database.
func (s *storage) vacuum(ctx context.Context, progress func(string, ...any)) error {
	if path := s.sqlite(); path != "" && s.db != nil {
		progress("rewriting the database")
		err := s.db.Close()
		s.db = nil
		if err != nil {
			return err
		}
		if err := database.Compact(ctx, path); err != nil {
			return err
		}
	}
	if s.events == nil {
		return nil
	}
	progress("compacting the relay's events")
	return s.events.Compact(ctx)
}

// errorsOnly is a logger for what no error tells.
func (in *invocation) errorsOnly() *slog.Logger {
	return slog.New(slog.NewTextHandler(in.stderr, &slog.HandlerOptions{Level: slog.LevelError}))
}

// runVacuum is the verb.
func runVacuum(ctx context.Context, in *invocation) (err error) {
	cfg, err := loadConfig(in.arguments, nil)
	if err != nil {
		return err
	}
	s, err := openStorage(ctx, cfg, in.errorsOnly())
	if err != nil {
		return in.refused(err)
	}
	defer func() { err = errors.Join(err, s.close()) }()
	before := s.sizes()
	if err := s.vacuum(ctx, in.progress); err != nil {
		return err
	}
	in.progress("")
	for i, after := range s.sizes() {
		fmt.Fprintf(in.stdout, "%-10s %s, was %s\n", after.name, mebibytes(after.bytes), mebibytes(before[i].bytes))
	}
	if s.sqlite() == "" {
		fmt.Fprintln(in.stdout, "PostgreSQL  left to its autovacuum")
	}
	return nil
}

// size is how much disk a store takes.
type size struct {
	name  string
	bytes int64
}

// sizes measures what vacuum may make smaller.
func (s *storage) sizes() (all []size) {
	if path := s.sqlite(); path != "" {
		n := size{name: "database"}
		for _, end := range []string{"", "-wal", "-shm"} {
			if info, err := os.Stat(path + end); err == nil {
				n.bytes += info.Size()
			}
		}
		all = append(all, n)
	}
	if s.cfg.Relay.Store == config.StorePebble {
		n := size{name: "relay"}
		_ = filepath.WalkDir(s.cfg.RelayDir(), func(_ string, entry fs.DirEntry, err error) error {
			if err == nil && entry.Type().IsRegular() {
				if info, err := entry.Info(); err == nil {
					n.bytes += info.Size()
				}
			}
			return nil
		})
		all = append(all, n)
	}
	return all
}

func mebibytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

// progress rewrites one line on standard error where that is a terminal; an
// empty text removes the line.
func (in *invocation) progress(format string, args ...any) {
	if isTerminal(in.stderr) {
		fmt.Fprintf(in.stderr, "\r\x1b[K"+format, args...)
	}
}

// isTerminal reports whether w is a character device that is not the null
// device.
func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && file.Name() != os.DevNull
}
