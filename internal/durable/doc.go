// Package durable writes files and names that are still there after a power
// cut, once their writing was reported as done.
//
// Trust: a file is made for its owner alone and never in place of another, nor
// through a link. Paths come from the program or from its user.
//
// Concurrency: the functions keep nothing; of two that make one file, one does.
package durable
