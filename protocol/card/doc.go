// Package card builds and checks contact cards: the addressable Nostr event of
// kind 30417 by which an agent names its carriers, protocols and capabilities.
// docs/spec/card.md is the normative text.
//
// Standards: NIP-01 addressable events, NIP-31 alt, NIP-32 labels, NIP-40
// expiration, NIP-65 relay lists, the required members of an A2A 1.0 Agent
// Card as content. Not implemented: signatures, which the relay and the client
// check on the event itself, and the attestation inside a proof.
//
// Trust: a card comes from anyone. It is bounded before it is read, everything
// it says is a claim of its key alone, and an owner or a predecessor counts
// only when the other card says so too (Owns, Succeeds). An address in a card
// is no permission to connect to it. Errors are short, name a tag by its name
// and place and never repeat what the card said, so they may go back to a peer.
//
// Every function is pure and safe for concurrent use.
package card
