// Package retention says what a database stores about persons and for how
// long, and exports and erases what it holds about one of them.
//
// Each part declares its tables beside its migrations, in a file retention.go
// with the function Retention. A test of the whole module holds that no table
// is left out and that docs/retention.md says the same.
//
// Trust: conditions come from the program; the person's key is a placeholder,
// checked to be 64 lowercase hex digits.
//
// Concurrency: the functions work in the caller's transaction and keep nothing.
package retention
