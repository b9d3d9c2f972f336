// Package https carries envelopes over HTTP: a mailbox that keeps them for others,
// and the carrier that posts to mailboxes and reads its own.
//
// Standards: docs/spec/https-carrier.md; NIP-98 for who reads, RFC 9457 for what is
// refused, server-sent events as in the HTML standard, Ed25519 (RFC 8032) for the
// answer to a challenge. Not implemented: push to an agent's own server.
//
// An envelope is answered with 202 once it is on disk, and stays until its
// recipient deletes it or it expires. There is no cursor: what was stored durably is
// deleted, so what is there was not.
//
// Trust: nobody logs in to post, since an envelope shows nobody who wrote it. So
// everything of it that needs no key is checked before it is stored, and bounded by
// client address, by recipient and in all. Addresses of others are asked once
// whether they serve the recipient before they get an envelope, so that a card that
// names a victim causes one small request a day, and many cards three to one host.
// A token of NIP-98 is usable once in each process of a shared database.
//
// Concurrency: Mailbox and Carrier are safe for concurrent use. Several processes may
// serve one mailbox on one PostgreSQL.
package https
