// Package databasetest opens a real database for the tests of other packages.
//
// It is imported from test files only. Every database lies in a temporary
// folder and is closed when its test ends, so tests may run in parallel.
package databasetest
