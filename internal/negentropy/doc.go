// Package negentropy is both sides of a set reconciliation as Nostr does it
// (NIP-77): two sets of events, each known by created_at and id, are compared
// with little traffic and the ids that one side lacks come out.
//
// It is go-nostr's implementation of the protocol, version 1, over a compact
// set and behind a strict reader. Not implemented: other versions, to which a
// Server answers the one it speaks.
//
// Trust: a message of the peer is read whole before the implementation sees
// it. Every number is bounded by what follows it, times are below 2^53, bounds
// are at most an id long, and nothing follows the last range; anything else is
// ErrMessage and changes nothing. The work for one message is linear in the
// message and the set, an answer of a Server at most the size it was made
// with. A peer can lie about what it has; whoever fetches the ids sees that.
//
// A Set may be shared once it is sealed; a Server or Client is used by one
// goroutine at a time.
package negentropy
