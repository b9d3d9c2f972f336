// Package message is the unit two agents exchange: one JSON document with a
// sender, a recipient, a thread, a lifetime and a typed body.
//
// Standards: RFC 8785 and RFC 7493 (through package canonical), RFC 9562 for
// UUIDv7 ids, RFC 3339 for times, NIP-01 for keys and for the signed events
// inside agreement bodies. docs/spec/message.md has the members, the types,
// who may send them and their sizes. Not implemented here: whether a signature
// in a body is valid, whether a revision is an agreement, who may send what;
// these belong to the receiver of the type.
//
// Trust: a message comes from a peer who may be hostile. Parse bounds size,
// depth and every string before it is used, accepts one spelling of each id,
// key and time, and refuses unknown members. Nothing in a message proves its
// sender: the members from and to are claims until envelope.Open has compared
// them with the keys of the seal.
//
// All functions are pure and safe for concurrent use. A Message is plain data:
// share it between goroutines only while nobody writes to it.
package message
