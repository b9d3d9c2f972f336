// Package issuer makes receipts in the name of this server, publishes what
// others need to verify them, and finds the keys with which the receipts of
// others are verified.
//
// Standards: PEAC interaction records (WIRE-0.2) as package receipt makes and
// judges them, the documents peac.txt, peac-issuer.json, peac.json and the JSON
// Web Key Set (RFC 7517) as package discovery reads and writes them, the header
// fields PEAC-Receipt, PEAC-Receipt-URL and PEAC-Purpose with its answers,
// RFC 9457 problem details. Keys of a foreign issuer are found through iss, then
// peac-issuer.json, then jwks_uri, and by no other way; a did:key brings its own.
// Not implemented: other DID methods, fetching a receipt by its URL, replay
// caches, key histories that outlive the process.
//
// Trust: an issuer with a loopback or http origin cannot be looked up by
// anybody and is therefore the did:key of its key. A document of a foreign
// issuer comes from a stranger who also chooses the host: everything is fetched
// over https through package egress, with at most three redirects, 5 s to
// connect, 10 s in all and a bounded size, and connections are made at a bounded
// rate, to every origin at most once a minute. What was fetched is kept from 5
// minutes to a day. The verification endpoint fetches nothing: whoever asks it
// learns about receipts of this server and of did:key issuers only. A revoked
// key is refused whatever time a receipt claims.
//
// An Issuer and a Resolver are safe for concurrent use.
package issuer
