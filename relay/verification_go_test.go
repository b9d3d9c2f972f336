//go:build !libsecp256k1

package relay

import (
	"testing"

	"github.com/nbd-wtf/go-nostr"
)

// The vectors of BIP-340 whose message has 32 bytes and that must not verify.
func TestSignaturesThatBIP340RefusesAreRefused(t *testing.T) {
	const (
		key = "dff1d77f2a671c5f36183726db2341be58feae1da2deced843240f7b502ba659"
		id  = "243f6a8885a308d313198a2e03707344a4093822299f31d0082efa98ec4e6c89"
		r   = "6cff5c3ba86c69ea4b7376f31a9bcb4f74c1976089b2d9963da2e5543e177769"
		s   = "69e89b4c5564d00349106b8497785dd7d1d713a8ae82b32fa79d5f7fc407d39b"
	)
	for name, ev := range map[string]nostr.Event{
		"valid but for s":          {PubKey: key, Sig: r + s},
		"key is not on the curve":  {PubKey: "eefdea4cdb677750a420fee807eacf21eb9898ae79b9768766e4faa04a2d4a34", Sig: r + s},
		"R has an odd y":           {PubKey: key, Sig: "fff97bd5755eeea420453a14355235d382f6472f8568a18b2f057a14602975563cc27944640ac607cd107ae10923d9ef7a73c643e166be5ebeafa34b1ac553e2"},
		"message is negated":       {PubKey: key, Sig: "1fa62e331edbc21c394792d2ab1100a7b432b013df3f6ff4f99fcb33e0e1515f28890b3edb6e7189b630448b515ce4f8622a954cfe545735aaea5134fccdb2bd"},
		"s is negated":             {PubKey: key, Sig: r + "961764b3aa9b2ffcb6ef947b6887a226e8d7c93e00c5ed0c1834ff0d0c2e6da6"},
		"R is infinite":            {PubKey: key, Sig: "0000000000000000000000000000000000000000000000000000000000000000123dda8328af9c23a94c1feecfd123ba4fb73476f0d594dcb65c6425bd186051"},
		"R is not on the curve":    {PubKey: key, Sig: "4a298dacae57395a15d0795ddbfd1dcb564da82b0f269bc70a74f8220429ba1d" + s},
		"R equals the field":       {PubKey: key, Sig: "fffffffffffffffffffffffffffffffffffffffffffffffffffffffefffffc2f" + s},
		"s equals the group order": {PubKey: key, Sig: r + "fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141"},
		"key is beyond the field":  {PubKey: "fffffffffffffffffffffffffffffffffffffffffffffffffffffffefffffc30", Sig: r + s},
		"no hex":                   {PubKey: "zz" + key[2:], Sig: r + s},
		"short":                    {PubKey: key[2:], Sig: r + s},
	} {
		ev.ID = id
		want := name == "valid but for s"
		if got := signatureIsValid(&ev); got != want {
			t.Errorf("%s: valid is %v", name, got)
		}
	}
}
