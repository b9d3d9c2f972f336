package database

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"path/filepath"
	"time"
)

// compactPatience bounds the wait for others that read or write the file.
const compactPatience = 10 * time.Second

// Compact rewrites a SQLite file without what was deleted and empties its
// write-ahead log, so that deleted bytes are in neither. Others may have the
// file open; ErrBusy means that they kept the bytes in the log for too long. It
// needs as much free space again as the file has.
func Compact(ctx context.Context, path string) error {
	db, err := openFile(path, "&_synchronous=FULL")
	if err != nil {
		return err
	}
	defer db.Close()
	if _, err := db.ExecContext(ctx, "VACUUM"); err != nil {
		return fmt.Errorf("rewriting the database: %w", classify(err))
	}
	for begun := time.Now(); ; {
		var busy, frames, moved int
		if err := db.QueryRowContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &frames, &moved); err != nil {
			return fmt.Errorf("emptying the write-ahead log: %w", classify(err))
		}
		if busy == 0 {
			return nil
		}
		if time.Since(begun) > compactPatience {
			return fmt.Errorf("emptying the write-ahead log: %w", ErrBusy)
		}
		select { // SQLite does not wait for another checkpoint
		case <-ctx.Done():
			return fmt.Errorf("emptying the write-ahead log: %w", ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Copy writes a SQLite file as of one moment into a new one, whose folder is to
// be closed to others. Others may have the file open.
func Copy(ctx context.Context, path, to string) error {
	db, err := openFile(path, "")
	if err != nil {
		return err
	}
	defer db.Close()
	if _, err := db.ExecContext(ctx, "VACUUM INTO ?", to); err != nil {
		return fmt.Errorf("copying the database: %w", classify(err))
	}
	return nil
}

// openFile opens a SQLite file for statements that no transaction may hold.
func openFile(path, pragmas string) (*sql.DB, error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("resolving database path: %w", err)
	}
	file := url.URL{Scheme: "file", OmitHost: true, Path: absolute}
	driver, err := newDriver(fmt.Sprintf("%s?_busy_timeout=%d%s", file.String(), compactPatience.Milliseconds(), pragmas))
	if err != nil {
		return nil, fmt.Errorf("opening database: %w", err)
	}
	db := sql.OpenDB(driver)
	db.SetMaxOpenConns(1)
	return db, nil
}
