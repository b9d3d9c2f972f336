// Package receiptlog is the log of receipts: each entry is the 32 bytes of a
// receipt's reference, the SHA-256 of the receipt, and nothing else of it. An
// entry says that a receipt existed when a checkpoint was signed; it tells
// nobody who does not have the receipt what is in it. docs/spec/receipt-log.md
// is the page of the format.
//
// Standards: those of package merklelog, served at /receipts/log/; besides them
// a proof for a reference at /receipts/log/proof/.
//
// Append takes part in the transaction of the act that the receipt is about, so
// both are there or neither. A proof is there once a checkpoint covers the
// entry, which Run makes within about a second. Run also asks the witnesses for
// their cosignatures. A Notary issues receipts, appends them and proves them, for
// a venue.
//
// Trust: paths come from anyone and are bounded. What is served is public: it
// names nobody. References come from the program.
//
// Concurrency: a Log, and a Notary whose fields are not changed, are safe for
// concurrent use, also by several processes with one database and one key; Run
// may be called once at a time.
package receiptlog
