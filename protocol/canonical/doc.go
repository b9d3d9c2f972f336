// Package canonical turns JSON into the one sequence of bytes that Parley
// hashes and signs, and reads JSON without tolerance.
//
// Standards: RFC 7493 (I-JSON) as a gate on the raw bytes, RFC 8785 (JCS) for
// the canonical form, FIPS 180-4 SHA-256 for digests. Not implemented: Unicode
// normalisation. Two strings that look alike but differ in code points have
// different digests, on purpose.
//
// Trust: input may come from anyone. Size, depth and the number of tokens are
// bounded before a value is built; duplicate names, lone surrogates,
// noncharacters, bad UTF-8 and numbers that a double cannot hold are refused,
// so two readers can never see different values in the same bytes.
//
// Every function is pure and safe for concurrent use.
package canonical
