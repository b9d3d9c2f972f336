// Package nostr carries wraps over Nostr relays, and holds the relay client
// that cards are read and published with.
//
// Standards: NIP-01 (EVENT, REQ, CLOSE, OK, EOSE, CLOSED, NOTICE and the
// machine-readable prefixes), NIP-42 (authentication of the client), NIP-59
// (wraps are read for 49 hours before the cursor, since their created_at lies
// up to two days back), NIP-77 (the client's side). Not implemented: COUNT,
// compression, several keys on one connection.
//
// Trust: a relay may withhold, delay, repeat and invent. Of every event the
// id, the signature and the filter it was asked with are checked; it is handed
// on in the exact bytes of docs/spec/envelope.md, whatever order a relay wrote
// its keys in. Frames, queues and connections are bounded, a slow reader slows
// its own connection down, a peer that is silent or sends nonsense is dropped.
// A relay that wraps are read from learns the agent's key, since it must
// authenticate it. One that wraps are sent to learns it only if it insists.
// The created_at of wraps is a stranger's word: a cursor never passes the
// clock. Someone who puts more wraps into a single second than one answer
// holds can hide others of that very second.
//
// Client and Carrier are safe for concurrent use. Connections that nothing
// uses are closed after a while; Close closes all.
package nostr
