// Package agreement holds the documents of an agreement and the rules of the
// room that decides on it: the locked revision, the commands and events on its
// digest, the signatures over them, the final CONSENSUS.md and the bundle that
// proves a closed room offline. docs/spec/agreement.md is the normative text.
//
// Standards: RFC 8785 canonical JSON behind an RFC 7493 gate, SHA-256 digests,
// NIP-01 events of kind 1418 with BIP-340 signatures, NIP-70 for their
// protected mark, RFC 9562 UUIDs, CommonMark for the rendering. Profile
// parley/1 is complete with the strategy "unanimity". Of profile consensus/1
// the documents and the room exist; a bundle does not, since its contract
// names no key of the venue. Events may have receipts (PEAC interaction
// records) with proofs of a C2SP log. Not implemented: other strategies, a
// second revision, keys registered after the lock, the redacted bundle.
//
// Trust: every document may come from a hostile peer. Sizes, depths and counts
// are bounded before anything is built; a document with an unknown, missing or
// null member is refused; text from the parties cannot leave its place in the
// Markdown. A venue that lies can refuse a command, delay it and choose the
// time it writes down; it cannot forge a decision of a participant whose key
// stands in the roster, and Verify names each decision it could have forged.
//
// Functions are pure: the time is an argument and nothing is dialled; New also
// draws random bits for the id. A Room is for one goroutine at a time; all
// other values may be shared once built. The Example shows a whole agreement.
package agreement
