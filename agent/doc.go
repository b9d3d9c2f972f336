// Package agent is the reference agent: one key in one home folder that finds
// others by their cards, sends and receives sealed messages, and takes part in
// agreements without trusting the venue further than its evidence goes.
//
// Standards: the forms in docs/spec (card, message, envelope, delivery,
// agreement), NIP-19 for npub, NIP-09 to delete its card, NIP-49 for a
// passphrase, RFC 8785 and SHA-256 for digests, RFC 9457 for the errors of its
// local JSON API, OpenAPI 3.1 and JSON Schema 2020-12 for its description. Not
// implemented: more than one key in a home, remote access to the API.
//
// The methods of Agent that take and return one struct are the API operations;
// Operations lists them. They have three faces: direct calls in Go, POST
// /v1/<operation> over the unix socket in the home folder, and the command
// line, which is written on the same table. OpenAPI describes them: its document
// is made from the table, the types and their comments.
//
// Retention declares what is stored about others and how long. Erasing a key
// leaves none of its bytes in the home, but for agreements that stay as evidence.
//
// Trust: the home folder's owner is trusted; the socket refuses every other
// user. A hostile server can withhold and delay. It cannot change its key
// unnoticed (the server document is pinned), roll a card back (the newest
// created_at is remembered), or make this agent act on other bytes: an
// invitation is checked against the initiator's signature and the digest is
// recomputed from the bytes; an event must continue the hash chain and pass
// every rule again; a bundle is verified offline and must be about the digest
// already known. What fails is refused, counted and listed, never applied.
// Strangers land in the request box and cause no connection.
//
// Concurrency: an Agent is safe for concurrent use. One process at a time holds
// a home, by a lock file. Run may be called once.
package agent
