// Package database is the one SQL database of a process: SQLite in WAL mode
// through modernc.org/sqlite, one writer connection, many readers.
//
// Every connection runs with synchronous=FULL: what Write, Tx or Migrate
// reported as done survives a crash of the process and of the machine.
// PostgreSQL is not implemented yet; its address gives ErrUnsupported.
//
// Write batches the jobs of concurrent callers into one transaction, a
// SAVEPOINT each, and answers after the commit. Tx runs one job alone under
// BEGIN IMMEDIATE. View reads one snapshot and never waits for a writer.
// Migrate runs a service's goose migrations under a version table of its own.
// Placeholders are $1, $2, … in the order they are numbered.
//
// Rules for a job given to Write: it has no effect outside its transaction, it
// may be run again after a failed batch, it may commit although its caller's
// context ended, and it calls neither Commit nor Rollback.
//
// Trust: SQL text comes from the program, values only through placeholders.
// The file is made with mode 0600, its folder with 0700; a file that others
// may read is refused. The address is not to be taken from a stranger.
//
// A DB is safe for concurrent use. A job runs while no other job of the same
// DB runs. Calling Write, Tx or Migrate from within a job gives ErrNested
// instead of a deadlock, as long as the job passes its context on.
package database
