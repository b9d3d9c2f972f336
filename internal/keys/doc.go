// Package keys keeps the secret keys of a Parley program in one folder, one
// file per key, and never lets a secret reach a log or an error.
//
// Standards: NIP-01 and BIP-340 keys and signatures, NIP-19 (npub, nsec),
// NIP-44 version 2 conversation keys, RFC 8032 Ed25519, RFC 5958 (PKCS #8) in
// RFC 7468 text form for Ed25519 files. Not implemented: passphrases (NIP-49),
// the states next and retired, wiping a secret from memory.
//
// Trust: the folder is only as private as the account that owns it. A folder
// or file that the group or others may enter or read is refused, so is a file
// that is not a regular file. A caller that asks for a key gets the whole key;
// nothing here limits what is signed with it. Two keys of one purpose are an
// error: which of them speaks is never guessed.
//
// Files are written to a temporary name, synced, renamed, and the folder is
// synced, so a crash leaves either no key or a whole one.
//
// Every type is immutable once made and safe for concurrent use. Two processes
// that create a key of the same purpose at once end with the same key.
package keys
