// Package wellknown is the signed document at /.well-known/parley.json that
// tells a client all it needs to use a server, and that the client pins, and the
// document of names at /.well-known/nostr.json.
//
// Standards: RFC 8615 (well-known URIs), RFC 8032 (Ed25519), RFC 8785 for the
// signed bytes, NIP-05 for names, which nothing signs. Not implemented: a chain of keys; a server that changes its key
// is a new server until a person trusts it again.
//
// Trust: the document is only as good as the first fetch. Afterwards the pinned
// server key decides: Open accepts nothing that this key did not sign. The size
// is bounded before a byte is parsed.
//
// Every function is pure and safe for concurrent use.
package wellknown
