// Package carriertest is a network in memory for the tests of what uses
// carriers: it keeps every wrap, delivers in order, and fails on demand.
//
// It is imported from test files only. All its methods are safe for concurrent
// use, and work inside a testing/synctest bubble.
package carriertest
