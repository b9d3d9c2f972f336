// Package drilltest says how long the tests that kill, cut and fill go on.
//
// They visit 20 points in an ordinary run, 200 with PARLEY_DRILL=1 and three
// with -short, where another run beside it visits the others: the race
// detector's.
//
// Concurrency: the functions read the process's environment and flags only.
package drilltest
