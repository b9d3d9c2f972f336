//go:build libsecp256k1

package relay

import "github.com/nbd-wtf/go-nostr"

// signatureIsValid checks the signature (BIP-340) of an event, in C.
func signatureIsValid(ev *nostr.Event) bool {
	ok, err := ev.CheckSignature()
	return err == nil && ok
}
