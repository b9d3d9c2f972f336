// Package database is the SQL database of a process: SQLite in WAL mode
// through modernc.org/sqlite, one writer connection, many readers; or a
// PostgreSQL server through pgx, shared by any number of processes.
//
// What Write, Tx or Migrate reported as done survives a crash of the process
// and of the machine: SQLite runs with synchronous=FULL on every connection,
// and on PostgreSQL synchronous_commit is never off.
//
// Write is for many small jobs. On SQLite the jobs of concurrent callers share
// one transaction and are answered after its commit; when one fails, all are
// undone and run again, now with a SAVEPOINT each. On PostgreSQL each has its
// own transaction, the server groups the commits, and a job runs in its
// caller's goroutine. Tx runs a job in a transaction of its own, BEGIN IMMEDIATE
// on SQLite. On PostgreSQL both are SERIALIZABLE. View reads one snapshot and
// never waits for a writer. Migrate runs a service's goose migrations under a
// version table of its own. Notify and Listen tell other processes that
// something was committed. Compact and Copy work on a SQLite file, open or not.
//
// Rules for a job: it has no effect outside its transaction, and a variable
// outside that it sets is set anew in each run, since it may be run again; a
// job of Write may commit although its caller's context ended; it calls neither
// Commit nor Rollback, and ends when one of its statements fails. Placeholders
// are $1, $2, … in the order they are numbered.
//
// An error tells what happened. ErrUnknownOutcome: the answer to a commit was
// lost, the job may have been written. Any other error on PostgreSQL: it was
// not. ErrBusy and ErrTransient may be tried again. A lost server is found
// again without a restart; connections that died idle cost no job.
//
// Not supported: PostgreSQL before version 13, poolers that change the
// connection between transactions, encodings other than UTF8.
//
// Trust: SQL text comes from the program, values only through placeholders.
// SQLite's file is made with mode 0600, its folder with 0700; a file that
// others may read is refused. Whoever controls the server or the way to it
// controls the data: use sslmode=verify-full beyond the own machine. The
// password is in no log and in no error. The address is not to be taken from a
// stranger.
//
// A DB is safe for concurrent use. Jobs act as if no other job ran beside
// them. Calling Write, Tx or Migrate from within a job gives ErrNested, as long
// as the job passes its context on.
package database
