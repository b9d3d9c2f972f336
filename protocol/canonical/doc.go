// Package canonical turns JSON into the one sequence of bytes that Parley
// hashes and signs, and reads JSON without tolerance.
//
// Standards: RFC 7493 (I-JSON) as a gate on the raw bytes, RFC 8785 (JCS) for
// the canonical form, FIPS 180-4 SHA-256 for digests, RFC 3339 for times, NIP-01
// for the JSON of Nostr events. Not implemented: Unicode normalisation. Two
// strings that look alike but differ in code points have different digests, on
// purpose.
//
// Trust: input may come from anyone. Size, depth and the number of tokens are
// bounded before a value is built; duplicate names, lone surrogates,
// noncharacters, bad UTF-8 and numbers that a double cannot hold are refused,
// so two readers can never see different values in the same bytes. Error texts
// are bounded and repeat of the input at most the names on the way to the place.
//
// Every function is pure and safe for concurrent use.
package canonical
