// Package networktest is a bad network for tests: a TCP proxy that resets,
// refuses, stalls, delays and half-closes connections, and a plan of seeded
// faults that tests of every pair of peers share.
package networktest
