// Package conformance checks a Nostr relay from outside, over WebSocket and
// HTTP, as any client could.
//
// Checks lists what is checked: the form of messages (frame), NIP-01 with the
// order of answers (order) and the limits a filter sets (limits), NIP-09, 11,
// 13, 17 and 59 (who sees gift wraps), 40, 42, 45, 50, 62, 65, 70, 77 and 86.
// A check is Required (NIP-01 and NIP-11 say "must", or no client could work
// without it), Optional (recommended, or good manners) or Conditional: it runs
// when the relay information document (NIP-11) advertises the NIP it needs.
//
// Run works on relays of others. Its events carry keys made for the one check,
// a word of their own and an expiration of an hour; a relay that asks for less
// ("rate-limited:") is waited for a few times; what a relay does not take
// ("blocked:", "restricted:", too much work) is skipped with its reason. One
// check sends two megabytes, six over a loopback; no other sends more than
// 256 KiB at once.
//
// Trust. Nothing the relay sends is believed: messages and documents are
// bounded, waiting ends, and text of the relay in a
// Result is cut but not cleaned: it is for a terminal to make harmless.
//
// Run may be called concurrently. The checks of one Run share no connection and
// no key. See the tests for a relay that passes everything.
package conformance
