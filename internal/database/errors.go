package database

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	sqlite3 "modernc.org/sqlite"
	codes "modernc.org/sqlite/lib"
)

// Errors of this package; test with errors.Is.
var (
	// ErrBusy means that others held the database or a lock longer than
	// Options.BusyTimeout. Nothing was written; trying again may help.
	ErrBusy = errors.New("database: busy")
	// ErrTransient means trouble of the storage: the disk was full or failed,
	// the server was not reached or went away. On PostgreSQL nothing was
	// written unless it is ErrUnknownOutcome; on SQLite nothing can be said
	// about the job except that it was not reported as written.
	ErrTransient = errors.New("database: storage trouble")
	// ErrDiskFull means that the disk of the database has no space left: of this
	// machine, or of the server. It is an ErrTransient as well; with space again
	// the next job succeeds.
	ErrDiskFull = fmt.Errorf("%w: the disk of the database is full", ErrTransient)
	// ErrUnknownOutcome means that the answer to a commit was lost: the job
	// may have been written or not. It is an ErrTransient as well.
	ErrUnknownOutcome = fmt.Errorf("%w: outcome unknown", ErrTransient)
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
	var sentinel error
	var driver *sqlite3.Error
	switch {
	case errors.As(err, &driver):
		if errors.Is(err, context.Canceled) {
			return err
		}
		sentinel = sentinelOf(driver.Code())
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		sentinel = ErrDiskFull
	case errors.Is(err, syscall.EIO), errors.Is(err, syscall.EROFS):
		sentinel = ErrTransient
	default:
		sentinel = sentinelOfPostgres(err)
	}
	if sentinel == nil || errors.Is(err, sentinel) {
		return err
	}
	return fmt.Errorf("%w: %w", sentinel, err)
}

func sentinelOf(code int) error {
	switch code {
	case codes.SQLITE_CONSTRAINT_UNIQUE, codes.SQLITE_CONSTRAINT_PRIMARYKEY, codes.SQLITE_CONSTRAINT_ROWID:
		return ErrUnique
	case codes.SQLITE_IOERR_SHMSIZE: // the -shm file cannot be made longer
		return ErrDiskFull
	}
	switch code & 0xff {
	case codes.SQLITE_BUSY, codes.SQLITE_LOCKED:
		return ErrBusy
	case codes.SQLITE_CONSTRAINT:
		return ErrConstraint
	case codes.SQLITE_FULL:
		return ErrDiskFull
	case codes.SQLITE_IOERR, codes.SQLITE_READONLY, codes.SQLITE_NOMEM, codes.SQLITE_CANTOPEN, codes.SQLITE_PROTOCOL:
		return ErrTransient
	}
	return nil
}
