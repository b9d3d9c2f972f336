// Package logproof checks, without any network, that an entry is in a
// transparency log and that other parties saw the log the same way: checkpoints,
// their signatures and cosignatures, inclusion proofs and consistency proofs.
// docs/spec/receipt-log.md is the page of the format.
//
// Standards: RFC 6962 section 2.1 (hashes and proofs, through golang.org/x/mod),
// C2SP signed-note with Ed25519 keys, tlog-checkpoint, tlog-cosignature with
// Ed25519 (cosignature/v1), tlog-proof v1, and the request of tlog-witness.
// Stricter than they are: the origin of a checkpoint must be the name of the
// log's key, a key must be one that package receipt admits, a signature has one
// spelling in base64, sizes end at MaxSize, texts at MaxNote and MaxProof. Not
// implemented: ML-DSA-44 cosignatures, cosigned subtrees, meaning of extension
// lines (they are signed with the rest and otherwise passed over).
//
// Trust: texts come from anyone; they are bounded before they are parsed, and
// nothing of one is believed before the signature of a key of the Policy was
// checked. A proof says that the log's key signed a tree that holds the entry.
// It does not say that the log showed everybody the same tree: that takes a
// quorum of witnesses who do not work together with the log.
//
// Concurrency: everything is a function of its arguments and safe for
// concurrent use.
package logproof
