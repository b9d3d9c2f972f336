package database

import (
	"context"
	"errors"
	"fmt"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// Errors of this package; test with errors.Is.
var (
	// ErrBusy means that another process held the database longer than
	// Options.BusyTimeout. Nothing was written; trying again may help.
	ErrBusy = errors.New("database: busy")
	// ErrTransient means that the disk was full or failed. Nothing can be said
	// about the job except that it was not reported as written.
	ErrTransient = errors.New("database: storage trouble")
	// ErrUnique means that a unique key exists already.
	ErrUnique = errors.New("database: unique key exists")
	// ErrConstraint means another broken constraint, such as a foreign key.
	ErrConstraint = errors.New("database: constraint broken")
	// ErrPanic means that a job panicked or ended its goroutine.
	ErrPanic = errors.New("database: job panicked")
	// ErrNested means that a job called Write, Tx or Migrate of its own DB.
	ErrNested = errors.New("database: write within a job")
	// ErrClosed means that the DB was closed.
	ErrClosed = errors.New("database: closed")
	// ErrUnsupported means an address that this build cannot open.
	ErrUnsupported = errors.New("database: unsupported address")
	// ErrPermissions means that others than its owner may read the file.
	ErrPermissions = errors.New("database: readable by others than its owner")
)

// classify puts one of the sentinels in front of a driver's error.
func classify(err error) error {
	var driver *sqlite.Error
	if !errors.As(err, &driver) || errors.Is(err, context.Canceled) {
		return err
	}
	sentinel := sentinelOf(driver.Code())
	if sentinel == nil || errors.Is(err, sentinel) {
		return err
	}
	return fmt.Errorf("%w: %w", sentinel, err)
}

func sentinelOf(code int) error {
	switch code {
	case sqlite3.SQLITE_CONSTRAINT_UNIQUE, sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY, sqlite3.SQLITE_CONSTRAINT_ROWID:
		return ErrUnique
	}
	switch code & 0xff {
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return ErrBusy
	case sqlite3.SQLITE_CONSTRAINT:
		return ErrConstraint
	case sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PROTOCOL:
		return ErrTransient
	}
	return nil
}
