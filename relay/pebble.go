package relay

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// ErrStoreClosed is returned by the methods of a closed store.
var ErrStoreClosed = errors.New("relay: store is closed")

// pebbleStore is the embedded Store.
type pebbleStore struct {
	db      *pebble.DB
	writing sync.Mutex   // held by the one running Commit or Sweep
	life    sync.RWMutex // read-locked by every running call
	closed  bool
}

// OpenPebble opens, or creates, an embedded store in the folder dir. One
// process at a time may hold it open. A nil logger discards. An error of the
// disk that leaves the store unusable ends the process: its commits could no
// longer be trusted.
func OpenPebble(dir string, logger *slog.Logger) (Store, error) {
	return openPebble(dir, logger, vfs.Default)
}

// openPebble is OpenPebble on any file system.
func openPebble(dir string, logger *slog.Logger, fs vfs.FS) (*pebbleStore, error) {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	opts := &pebble.Options{
		FormatMajorVersion: pebble.FormatColumnarBlocks,
		CacheSize:          64 << 20,
		MemTableSize:       16 << 20,
		Logger:             pebbleLogger{logger},
		FS:                 fs,
	}
	for i := range opts.Levels {
		opts.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	db, err := pebble.Open(dir, opts)
	if errors.Is(err, syscall.EAGAIN) {
		return nil, fmt.Errorf("opening event store: another process uses %s", dir)
	}
	if err != nil {
		return nil, fmt.Errorf("opening event store: %w", err)
	}
	if err := checkFormat(db); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &pebbleStore{db: db}, nil
}

// checkFormat writes the format number into a new store and refuses a store
// that has another one.
func checkFormat(db *pebble.DB) error {
	key := []byte{tableFormat}
	v, found, err := get(db, key)
	switch {
	case err != nil:
		return err
	case !found:
		return db.Set(key, []byte{storeFormat}, pebble.Sync)
	case len(v) != 1 || v[0] != storeFormat:
		return fmt.Errorf("%w: %x", ErrStoreFormat, v)
	}
	return nil
}

// pebbleLogger passes Pebble's own lines on at the debug level.
type pebbleLogger struct{ logger *slog.Logger }

func (l pebbleLogger) Infof(format string, args ...any) {
	if l.logger.Enabled(context.Background(), slog.LevelDebug) {
		l.logger.Debug("event store", "detail", fmt.Sprintf(format, args...))
	}
}

func (l pebbleLogger) Errorf(format string, args ...any) {
	l.logger.Error("event store", "detail", fmt.Sprintf(format, args...))
}

// Fatalf must not return (pebble.Logger).
func (l pebbleLogger) Fatalf(format string, args ...any) {
	l.Errorf(format, args...)
	panic("relay: event store: " + fmt.Sprintf(format, args...))
}

// get copies the value of key; found is false when there is none.
func get(r pebble.Reader, key []byte) (value []byte, found bool, err error) {
	v, closer, err := r.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("reading event store: %w", err)
	}
	value = append([]byte(nil), v...)
	return value, true, closer.Close()
}

// getNumber is get for the eight bytes of a number; 0 when there is none.
func getNumber(r pebble.Reader, key []byte) (int64, bool, error) {
	v, found, err := get(r, key)
	if err != nil || !found || len(v) < 8 {
		return 0, false, err
	}
	return int64(binary.BigEndian.Uint64(v)), true, nil
}

func number(n int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n)) }

// enter read-locks the store's life; the caller unlocks it unless there is an
// error.
func (s *pebbleStore) enter() error {
	s.life.RLock()
	if s.closed {
		s.life.RUnlock()
		return ErrStoreClosed
	}
	return nil
}

// Commit implements Store.
func (s *pebbleStore) Commit(_ context.Context, batch []*Record, quota int) ([]Outcome, error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.life.RUnlock()
	s.writing.Lock()
	defer s.writing.Unlock()

	tx := pebbleTx{s.db.NewIndexedBatch()}
	defer tx.Close()
	outcomes := make([]Outcome, len(batch))
	for i, rec := range batch {
		var err error
		if outcomes[i], err = tx.add(rec, quota); err != nil {
			return nil, err
		}
	}
	if err := tx.commit(); err != nil {
		return nil, err
	}
	return outcomes, nil
}

// Check implements Store.
func (s *pebbleStore) Check(_ context.Context, rec *Record, quota int) (Outcome, error) {
	if err := s.enter(); err != nil {
		return 0, err
	}
	defer s.life.RUnlock()
	return decide(s.db, rec, quota)
}

// Sweep implements Store.
func (s *pebbleStore) Sweep(ctx context.Context, now time.Time, limit int) (int, error) {
	if err := s.enter(); err != nil {
		return 0, err
	}
	defer s.life.RUnlock()
	s.writing.Lock()
	defer s.writing.Unlock()

	it, err := s.db.NewIterWithContext(ctx, &pebble.IterOptions{
		LowerBound: []byte{tableExpires},
		UpperBound: binary.BigEndian.AppendUint64([]byte{tableExpires}, uint64(now.Unix()+1)),
	})
	if err != nil {
		return 0, fmt.Errorf("reading expirations: %w", err)
	}
	defer it.Close()
	tx := pebbleTx{s.db.NewIndexedBatch()}
	defer tx.Close()
	n := 0
	for valid := it.First(); valid && n < limit; valid = it.Next() {
		if err := tx.sweep(it.Key()); err != nil {
			return 0, err
		}
		n++
	}
	if err := it.Error(); err != nil {
		return 0, fmt.Errorf("reading expirations: %w", err)
	}
	return n, tx.commit()
}

// Close implements Store.
func (s *pebbleStore) Close() error {
	s.life.Lock()
	defer s.life.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	if err := s.db.Close(); err != nil {
		return fmt.Errorf("closing event store: %w", err)
	}
	return nil
}
