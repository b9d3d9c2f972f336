package agent

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"path/filepath"
	"time"
)

// compactTries bounds the attempts to empty the write-ahead log beside readers.
const compactTries = 100

// compact writes the database anew without what was deleted and empties its
// write-ahead log, so that deleted bytes are in neither file. Package database
// offers no statement outside a transaction, which VACUUM needs; its driver is
// used as it registers it.
func (a *Agent) compact(ctx context.Context) error {
	path, err := filepath.Abs(filepath.Join(a.home, databaseName))
	if err != nil {
		return fmt.Errorf("compacting the database: %w", err)
	}
	file := url.URL{Scheme: "file", OmitHost: true, Path: path}
	db, err := sql.Open("sqlite", file.String()+"?_busy_timeout=10000&_synchronous=FULL")
	if err != nil {
		return fmt.Errorf("compacting the database: %w", err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	if _, err := db.ExecContext(ctx, `VACUUM`); err != nil {
		return fmt.Errorf("compacting the database: %w", err)
	}
	for range compactTries {
		var busy, inLog, moved int
		if err := db.QueryRowContext(ctx, `PRAGMA wal_checkpoint(TRUNCATE)`).Scan(&busy, &inLog, &moved); err != nil {
			return fmt.Errorf("emptying the write-ahead log: %w", err)
		}
		if busy == 0 {
			return nil
		}
		pause(ctx, 50*time.Millisecond) // a reader holds an old state
		if ctx.Err() != nil {
			return fmt.Errorf("emptying the write-ahead log: %w", ctx.Err())
		}
	}
	return unavailable("the deleted bytes are still in the write-ahead log: others are reading").hint("erase again")
}
