// Package crashtest kills processes in the middle of their work, for the tests
// of other packages.
//
// A test runs a child: the same test binary, in which only one named test runs.
// That test calls Begin and does the work to be interrupted. Both speak in
// lines. A child says only what it has been answered for, and what it said
// before it died is still read, so a test knows exactly what was promised.
//
// Drill says how often to kill and by which chance: 20 times, or 200 times with
// PARLEY_DRILL=1. PARLEY_SEED repeats the choices of a run; its log names the
// seed.
//
// It is imported from test files only. Children end with the test that started
// them, in whatever way that ends. A Child is for one goroutine, its lines and
// Tell for any.
package crashtest
