// Package databasetest opens real databases for the tests of other packages.
//
// It is imported from test files only. Every database is new and is closed
// when its test ends, so tests may run in parallel. Each runs a test on every
// kind of database. PostgreSQL is the one of the system, such as Debian's
// package postgresql: one server for each test binary, on a free loopback port
// with a temporary folder, stopped when the test binary ends in whatever way.
// Where it is not installed the tests that need it are skipped.
package databasetest
