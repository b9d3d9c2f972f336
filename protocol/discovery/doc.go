// Package discovery reads and writes the documents by which a party says what
// it allows and which keys sign its receipts: peac.txt, peac-issuer.json, the
// JSON Web Key Set that it names, and peac.json.
//
// Standards: the documents peac-policy/0.1 and peac-issuer/0.1, with the life of
// a key as the protocol has it; RFC 8615 for their places, RFC 7517 and RFC 8037
// for keys, of which only Ed25519 ones are taken, RFC 8785 for the digest of a
// policy. docs/spec/discovery.md is the whole of it. Not implemented: fetching,
// caches, redirects and the blocking of addresses, which are the caller's; did:
// issuers, whose keys no document of this package lists.
//
// Of YAML, peac.txt may use this and no more: one document in UTF-8, perhaps
// after one line "---"; block maps with plain or quoted text for keys, indented
// by spaces, nested within the depth that a policy may have; block lists and
// one-line flow lists of scalars; plain, single- and double-quoted scalars of one
// line, typed by the core schema of YAML 1.2 without octal, hexadecimal,
// infinite and zero-led numbers; comments. Everything else is refused rather
// than guessed at, so that no two readers see different policies in one file.
//
// Trust: every document may come from anyone. Each is bounded in bytes, depth
// and number before it is looked at, and refused with a code of the protocol's
// registry. A policy is what its publisher says, not a permission. Keys of an
// issuer are found through its peac-issuer.json alone; a document that answers
// for another origin than the one asked is refused. URLs in documents are
// checked in form, not followed: where they lead is for the fetcher to judge.
//
// Every function is pure. A History is not safe for concurrent use, everything
// else is.
package discovery
