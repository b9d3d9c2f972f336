package relay

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Errors of the embedded store.
var (
	// ErrStoreClosed is returned by the methods of a closed store.
	ErrStoreClosed = errors.New("relay: store is closed")
	// ErrDiskFull says that too little space is left to store events. Nothing
	// was written; with space again the next event is stored.
	ErrDiskFull = errors.New("relay: the disk of the event store is full")
)

// diskReserve is the space in bytes that the store leaves free: a write that
// fails in its middle ends the process, and it needs room to tidy up.
const diskReserve = 64 << 20

// pebbleStore is the embedded Store.
type pebbleStore struct {
	db      *pebble.DB
	fs      vfs.FS
	dir     string
	reserve uint64
	logger  pebbleLogger
	writing sync.Mutex   // held by the one running Commit or Sweep
	life    sync.RWMutex // read-locked by every running call
	closed  bool
}

// OpenPebble opens, or creates, an embedded store in the folder dir. One
// process at a time may hold it open. A nil logger discards. With less than 64
// MiB of free space Commit and Sweep give ErrDiskFull. An error of the disk in
// the middle of a write ends the process with exit code 1 or 2, since the store
// shows events by then that are not durable; all that was committed is there
// after the next start.
func OpenPebble(dir string, logger *slog.Logger) (Store, error) {
	return openPebble(dir, logger, vfs.Default)
}

// openPebble is OpenPebble on any file system.
func openPebble(dir string, logger *slog.Logger, fs vfs.FS) (*pebbleStore, error) {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	lines := pebbleLogger{logger}
	opts := &pebble.Options{
		FormatMajorVersion: pebble.FormatColumnarBlocks,
		CacheSize:          64 << 20,
		MemTableSize:       16 << 20,
		Logger:             lines,
		FS:                 fs,
	}
	for i := range opts.Levels {
		opts.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	db, err := openDB(dir, opts)
	if errors.Is(err, syscall.EAGAIN) {
		return nil, fmt.Errorf("opening event store: another process uses %s", dir)
	}
	if err != nil {
		return nil, fmt.Errorf("opening event store: %w", err)
	}
	if err := checkFormat(db); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &pebbleStore{db: db, fs: fs, dir: dir, reserve: diskReserve, logger: lines}, nil
}

// openDB is pebble.Open, which panics when it cannot sync a new store's folder.
func openDB(dir string, opts *pebble.Options) (db *pebble.DB, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
	}()
	return pebble.Open(dir, opts)
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

// exit ends the process; tests put something else here that does not return.
var exit = os.Exit

// Fatalf must not return (pebble.Logger). A panic would not do: who contains
// it goes on with a store that reads back what it could not sync.
func (l pebbleLogger) Fatalf(format string, args ...any) {
	l.logger.Error("the event store failed and ends the process; see to the disk and start again, nothing that was answered is lost",
		"detail", fmt.Sprintf(format, args...))
	exit(1)
}

// commit makes a transaction durable.
func (s *pebbleStore) commit(tx pebbleTx) error {
	usage, err := s.fs.GetDiskUsage(s.dir)
	if err == nil && usage.AvailBytes < s.reserve {
		return fmt.Errorf("%w: %d MiB are free, %d are needed", ErrDiskFull, usage.AvailBytes>>20, s.reserve>>20)
	}
	defer func() { // Pebble panics where it cannot begin a new log, and stands still then
		if p := recover(); p != nil {
			s.logger.Fatalf("%v", p)
		}
	}()
	return tx.commit()
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
	if err := s.commit(tx); err != nil {
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
	outcome, err := decide(s.db, rec, quota)
	if outcome == Stored || err != nil {
		return outcome, err
	}
	s.writing.Lock() // a commit shows its events before they are synced
	defer s.writing.Unlock()
	return outcome, nil
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
	return n, s.commit(tx)
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
