// Package relay is a Nostr relay for contact cards and gift wraps: durable,
// strict and small.
//
// Built, and the only NIPs the relay advertises:
//
//   - NIP-01: EVENT, REQ, CLOSE for the kinds of the Policy. Other kinds, and
//     ephemeral ones always, are refused with "blocked:". Elements of a filter that are
//     not known are refused, not ignored. A stale version of a replaceable
//     event is answered OK true with "duplicate:"; it is neither stored nor
//     sent to anybody.
//
//   - NIP-09: deletion by the author only, by id and by address up to the
//     request's created_at. It is remembered: a deleted event is refused when
//     it comes again. A wrap is signed by a key nobody keeps, so its
//     recipient cannot delete it; it expires.
//
//   - NIP-11: the information document, also when its type is one of several
//     in the Accept header.
//
//   - NIP-13: where the Policy asks for work, refused with "pow:" without it.
//
//   - NIP-17: lists of relays for wraps (kind 10050) name relays; NIP-59: below.
//
//   - NIP-40: expired events are refused, not served, and removed.
//
//   - NIP-42: several keys per connection; created_at within ten minutes.
//
//   - NIP-45: COUNT is exact, over all filters together; a limit holds.
//
//   - NIP-50: a search finds cards and profiles by words in d, t, l and alt tags
//     and the strings of the content. Case and compatible forms do not count
//     (NFKC, case folding). All words must occur; the last one, of three letters
//     or more, may be the beginning of one. Names weigh more than labels, those
//     more than alt, that more than content; the best come first, then the
//     newest. Live events are searched too. Pairs of key:value are passed over.
//
//   - NIP-62: a request to vanish removes, in its own transaction, what its key
//     published up to its created_at and the wraps for it, and holds for good:
//     nothing of it comes back, nobody needs to be on a list to send one. Wraps
//     that come later are taken, also when they are dated back. It is stored,
//     served and passed on like other events, so that mirrors learn of it. One
//     that names other relays only is refused. Requests of one address are few.
//
//   - NIP-65: relay lists are kept as replaceable events.
//
//   - NIP-70: protected events are taken from their authenticated author.
//
//   - NIP-77: reconciliation of what matched when it was opened, bounded in
//     events, time and number, of one address too.
//
//   - NIP-86 and NIP-98: management over HTTP, where the Policy has
//     administrators. What they ruled is in the Store, and holds for every
//     process that shares it within seconds. The Policy wins where both clash.
//
// Not built: ephemeral events; NIP-26 delegation; HyperLogLog of NIP-45.
//
// Wraps (NIP-59) are taken from anybody for recipients that the Policy
// admits, up to a quota each, and served to their recipient only: a filter
// without kinds never means wraps, one that names them needs an authenticated
// connection and then finds that connection's own, stored and live. A wrap is
// kept until it expires, at most Policy.WrapRetention. A Bridge may read those
// for others.
//
// Trust. Nothing a peer sends is believed: size and nesting are bounded before
// parsing, and the checks go from cheap to dear, the signature last; after it
// come the rate of its author and the Plugin, which see valid events only. A peer
// that sends too much is answered "rate-limited:" or cut off, one that does
// not read is cut off without holding up others. A hostile peer can fill its
// rate limit and the quota of a recipient it knows; it can not read wraps of
// others, delete or replace what another key signed, or end the process. The
// operator sees who writes wraps to whom and when, not what they say.
//
// An EVENT is answered after its commit is synced to the disk, in one batch
// with those of other connections. Messages of one connection are handled in
// order: a REQ or CLOSE waits for the commits of the EVENTs before it. EVENTs
// that follow each other at once are checked side by side and stored in their
// order; their OKs come in any. The methods of Relay may be called concurrently.
//
// The events lie in an embedded store of one process (OpenPebble) or in a
// PostgreSQL database that processes share (OpenPostgres). There each process
// also gets the events that others stored, told by NOTIFY and, where that was
// lost, found by their transactions. Who may write to that database is trusted:
// its rows are not verified again.
//
// Current cards, profiles and relay lists are held in memory up to
// Limits.CardBytes. There they are found; of a store that processes share they
// are searched there and read from the store.
//
// What all connections hold together is bounded by Limits.ConnectionBytes: beyond
// it new work is refused and the connection that holds most is cut off, so that
// no number of them ends the process.
//
// Under /relay/ the relay has pages for people: what it is, live counts, the
// public cards and a search. They need no script, set no cookie and show what a
// card says as text only.
//
// See the Example for a relay behind a server; package relaytest starts one on
// a loopback port.
package relay
