//go:build !libsecp256k1

package relay

import (
	"encoding/hex"

	"github.com/btcsuite/btcd/btcec/v2"
	"github.com/btcsuite/btcd/btcec/v2/schnorr"
	"github.com/nbd-wtf/go-nostr"
)

// signatureIsValid checks the signature (BIP-340) of an event whose id is right
// and whose fields have their form.
//
// Verify wants a key as a point, and reads no more of it than x, from which it
// computes the point itself. So the point is not computed here too.
func signatureIsValid(ev *nostr.Event) bool {
	var id, key [32]byte
	var sig [64]byte
	for _, field := range []struct {
		into []byte
		from string
	}{{id[:], ev.ID}, {key[:], ev.PubKey}, {sig[:], ev.Sig}} {
		if len(field.from) != 2*len(field.into) {
			return false
		}
		if _, err := hex.Decode(field.into, []byte(field.from)); err != nil {
			return false
		}
	}
	var x, y btcec.FieldVal
	if overflow := x.SetBytes(&key); overflow != 0 {
		return false
	}
	parsed, err := schnorr.ParseSignature(sig[:])
	return err == nil && parsed.Verify(id[:], btcec.NewPublicKey(&x, &y))
}
