// Package receipt issues and verifies interaction records of the PEAC
// protocol, called receipts: who did what when, signed by whoever says so. It
// also carries them (MCP, A2A, HTTP, gRPC) and reads purposes.
//
// Standards: WIRE-0.2 (interaction-record+jwt, strict and interop mode), RFC
// 7515 compact serialization with RFC 8037 EdDSA, RFC 7493 as a gate on the raw
// bytes of header and payload, RFC 8785 for what is issued, RFC 7517 and RFC
// 7638 for keys, did:key for Ed25519, RFC 6901 pointers. Not implemented: the
// frozen version 0.1, which is recognised and refused; other algorithms than
// Ed25519; other DID methods; RFC 7797 unencoded payloads; revocation of a
// single receipt, which the wire format leaves out; validity periods and
// audiences, which a receipt does not have. docs/spec/receipt.md has the rules for
// receipts, docs/spec/discovery.md those for carriers and purposes.
//
// Trust: a receipt may come from anyone. Its size is checked before anything is
// decoded, its structure while it is read; a fault ends the reading. Verify
// says that the holder of one key signed these claims. Whose key it is, is
// looked up elsewhere, by the iss and kid that Decode reads without believing
// them, or taken from the iss itself when that is a did:key. A key in the
// header is refused. Every refusal has a code of the protocol, a pointer and a
// text of bounded length that repeats of the input at most names.
//
// The package is pure: no network, no clock of its own, no files. All of it is
// safe for concurrent use as long as claims are not changed meanwhile.
package receipt
