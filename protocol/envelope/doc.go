// Package envelope seals messages for one recipient and opens what arrives,
// the same bytes on every carrier.
//
// Standards: NIP-59 (rumor, seal, gift wrap), NIP-44 version 2 in its classic
// form (plaintexts up to 65535 bytes), NIP-40 (expiration), NIP-01 (events and
// their JSON), RFC 1951 (deflate), RFC 4648 section 4 (base64).
// docs/spec/envelope.md has the layers, the tags and the sizes. Not
// implemented: the extended form of NIP-44 for longer plaintexts, wraps for
// several recipients, padding beyond NIP-44's.
//
// Trust: a wrap may come from anyone. Open accepts one spelling of its bytes,
// checks every signature, id and key of the three layers, and stops inflation
// at the size of a message, so a hostile peer can waste one signature check
// and two decryptions per 64 KiB and nothing more. What Open returns was
// written by the key it names and addressed to the key that opened it. It can
// still be an old wrap delivered again: the caller keeps message ids. A carrier
// sees the recipient, the size and the hour of expiry. There is no forward
// secrecy: who holds the recipient's key can open recorded wraps.
//
// All functions are pure apart from crypto/rand and safe for concurrent use if
// the Keyer is.
package envelope
