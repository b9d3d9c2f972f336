// Package httpauth checks HTTP requests that are signed with a Nostr key
// (NIP-98): an event of kind 27235 in the Authorization header that names the
// URL, the method and, where there is a body, its SHA-256.
//
// Every check of the NIP is made, those that it leaves to the server too: the
// payload tag is demanded where there is a body, created_at lies within a
// minute of the clock in both directions, the u tag is the URL to the byte, and
// an event is usable once. Not implemented: other schemes of the header.
//
// Trust: the header comes from anyone. It is bounded before it is parsed, and
// nothing is remembered of an event whose signature is wrong or whose key the
// caller does not want. The memory for used events is bounded; when it is full,
// which takes thousands of valid signatures within two minutes, tokens are
// refused rather than forgotten.
//
// A Verifier is safe for concurrent use.
package httpauth
