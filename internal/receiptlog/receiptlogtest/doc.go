// Package receiptlogtest starts a log of receipts for the tests of other
// packages: with a database, a key, checkpoints that are made as entries come,
// and an HTTP server on loopback.
//
// It is imported from test files only. A Server is safe for concurrent use.
package receiptlogtest
