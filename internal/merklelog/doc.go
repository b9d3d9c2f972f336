// Package merklelog keeps append-only logs of 32-byte entries in a SQL
// database, signs their checkpoints, proves what is in them, and cosigns the
// checkpoints of other logs as a witness. A log is known by its origin; several
// lie beside each other in one database. docs/spec/receipt-log.md is the page
// of the format.
//
// Standards: RFC 6962 section 2.1 (through golang.org/x/mod), C2SP
// tlog-checkpoint, tlog-tiles, tlog-proof, tlog-cosignature with Ed25519 and
// tlog-witness, the last on both sides. Not implemented: pruning, ML-DSA-44.
//
// An entry is made in two steps. Append stores it in the transaction of
// whoever has something to log, without a place in the log yet, so that callers
// do not wait for each other. Integrate gives the entries that wait their
// places, extends the tree and signs a checkpoint, all in one transaction. A
// checkpoint is shown to anybody only after that transaction was committed, so
// no crash can make the log sign two trees of one size. Before the tree is
// extended it is held against the checkpoint that was signed last.
//
// Tree and checkpoints live in one database and nowhere else. A database that
// was set back to an older copy would sign other trees under sizes that were
// signed already: such a log must go on under a new origin, or witnesses will
// refuse it and readers will find it out.
//
// Trust: what is appended comes from the program. Paths, and requests to a
// witness, come from anyone; they are bounded before they are parsed, and a
// request is believed only as far as the signature of a known log and its
// proof go. Whoever controls the database can remove entries that have no
// checkpoint yet, and can make the log useless; proofs are checked against the
// signed root before they are given out, so none that is wrong leaves.
// Whoever holds the key can sign anything: that is what witnesses are for.
//
// Concurrency: a Log and a Witness are safe for concurrent use, and any number
// of processes may keep one log in one database, all with the same key. Run
// may be called once at a time.
package merklelog
