// Package keys keeps the secret keys of a Parley program in one folder, one
// file per key, and never lets a secret reach a log or an error.
//
// Standards: NIP-01 and BIP-340 keys and signatures, NIP-19 (npub, nsec),
// NIP-44 version 2 conversation keys, RFC 8032 Ed25519, RFC 5958 (PKCS #8) in
// RFC 7468 text form for Ed25519 files, NIP-49 (ncryptsec) for Nostr keys with
// a passphrase. Not implemented: passphrases of Ed25519 keys, the security byte
// of NIP-49 (written as "not tracked"), wiping a secret from memory.
//
// A key is active, next or retired, by the end of its file's name. Rotate lets
// the next one take over.
//
// Trust: the folder is only as private as the account that owns it. A folder
// or file that the group or others may enter or read is refused, so is a file
// that is not a regular file. A caller that asks for a key gets the whole key;
// nothing here limits what is signed with it. Two active keys of one purpose are
// an error: which of them speaks is never guessed. An encrypted file from a
// stranger can cost 1 GiB and some seconds of work, not more.
//
// Files are written to a temporary name, synced, renamed, and the folder is
// synced, so a crash leaves either no key or a whole one. Each step of a
// rotation leaves exactly one key in use.
//
// Every type is immutable once made and safe for concurrent use. Two processes
// that create a key of the same purpose at once end with the same key.
package keys
