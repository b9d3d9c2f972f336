// Package filelock is the exclusive lock on a file by which one process keeps
// others out of a folder.
//
// Standards: flock(2). Not implemented: systems without it, where both functions
// do nothing and the stores' own locks remain.
//
// Trust: the lock is advisory. It ends with the process, however that ends, so
// there is nothing to clean up; the file itself stays, since removing it would
// let two processes lock two files of one name.
//
// Concurrency: two open files of one process exclude each other as well.
package filelock
