// Package relay is a Nostr relay for contact cards and gift wraps: durable,
// strict and small.
//
// Built, and the only NIPs the relay advertises:
//
//   - NIP-01: EVENT, REQ, CLOSE for the kinds 0, 5, 10002, 1059 and 30417.
//     Other kinds are refused with "blocked:". Elements of a filter that are
//     not known are refused, not ignored. A stale version of a replaceable
//     event is answered OK true with "duplicate:"; it is neither stored nor
//     sent to anybody.
//   - NIP-09: deletion by the author only, by id and by address up to the
//     request's created_at. It is remembered: a deleted event is refused when
//     it comes again. A wrap is signed by a key nobody keeps, so its
//     recipient cannot delete it; it expires.
//   - NIP-11: the information document, also when its type is one of several
//     in the Accept header.
//   - NIP-40: expired events are refused, not served, and removed.
//   - NIP-42: several keys per connection; created_at within ten minutes.
//   - NIP-70: protected events are taken from their authenticated author.
//
// Not built: NIP-13, NIP-45 (COUNT is answered "unsupported:"), NIP-50, NIP-77,
// NIP-86; ephemeral events; NIP-26 delegation.
//
// Wraps (NIP-59) are taken from anybody for recipients that Options.Admit
// admits, up to a quota each, and served to their recipient only: a filter
// without kinds never means wraps, one that names them needs an authenticated
// connection and then finds that connection's own, stored and live. A wrap is
// kept until it expires, at most Options.WrapRetention.
//
// Trust. Nothing a peer sends is believed: size and nesting are bounded before
// parsing, and the checks go from cheap to dear, the signature last. A peer
// that sends too much is answered "rate-limited:" or cut off, one that does
// not read is cut off without holding up others. A hostile peer can fill its
// rate limit and the quota of a recipient it knows; it can not read wraps of
// others, delete or replace what another key signed, or end the process. The
// operator sees who writes wraps to whom and when, not what they say.
//
// An EVENT is answered after its commit is synced to the disk, in one batch
// with those of other connections. Messages of one connection are handled in
// order: a REQ or CLOSE waits for the commits of the EVENTs before it. The
// methods of Relay may be called concurrently.
//
// The events lie in an embedded store of one process (OpenPebble) or in a
// PostgreSQL database that processes share (OpenPostgres). There each process
// also gets the events that others stored, told by NOTIFY and, where that was
// lost, found by their transactions. Who may write to that database is trusted:
// its rows are not verified again.
//
// See the Example for a relay behind a server; package relaytest starts one on
// a loopback port.
package relay
