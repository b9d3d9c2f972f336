package discovery

import (
	"bytes"
	"crypto/ed25519"

	"github.com/parleykit/parley/protocol/canonical"
	"github.com/parleykit/parley/protocol/receipt"
)

// Limits of a key set.
const (
	MaxKeySet = 64 << 10 // bytes
	MaxKeys   = 20       // of every kind
)

var keySetLimits = limits{
	bytes: MaxKeySet, depth: 6, items: 100, text: 16 << 10,
	tooLarge: receipt.CodeVerifyJWKSTooLarge, invalid: receipt.CodeVerifyJWKSInvalid,
}

// Key is a public key under the name that receipts call it by.
type Key struct {
	ID     string // kid, 1 to 256 bytes
	Public ed25519.PublicKey
}

// Thumbprint names the key by nothing but itself (RFC 7638).
func (k Key) Thumbprint() string { return receipt.NewJWK(k.Public, k.ID).Thumbprint() }

// KeySet is the Ed25519 keys of one issuer, each name once.
type KeySet []Key

// privateMembers are the parts of a JSON Web Key that nobody may publish (RFC
// 7518, section 6, and RFC 8037, section 2).
var privateMembers = []string{"d", "k", "p", "q", "dp", "dq", "qi", "oth"}

// ParseKeySet reads a JSON Web Key Set (RFC 7517). Keys that are not for Ed25519
// signatures are passed over, as are members it does not know. A set with a
// private part, with an Ed25519 key that has no name or is no key, too large or
// of too many keys is refused with E_VERIFY_JWKS_*; one name for two keys with
// E_KID_REUSE_DETECTED.
func ParseKeySet(data []byte) (KeySet, error) {
	o, err := keySetLimits.decodeJSON(data)
	if err != nil {
		return nil, err
	}
	if _, present := o.members["keys"]; !present {
		return nil, refuse(receipt.CodeVerifyJWKSInvalid, "/keys", "missing")
	}
	if n := len(o.list("keys")); n > MaxKeys {
		return nil, refuse(receipt.CodeVerifyJWKSTooManyKeys, "/keys", "%d keys, at most %d", n, MaxKeys)
	}
	var set KeySet
	for _, entry := range o.objects("keys", MaxKeys) {
		key, mine, err := readKey(entry)
		if err != nil {
			return nil, err
		}
		if !mine {
			continue
		}
		if set, err = set.add(key, entry.at); err != nil {
			return nil, err
		}
	}
	return set, o.err
}

// readKey reads one entry; it is not mine when it is for something else than
// Ed25519 signatures.
func readKey(o *object) (key Key, mine bool, err error) {
	for _, name := range privateMembers {
		if _, present := o.members[name]; present {
			return Key{}, false, refuse(receipt.CodeVerifyJWKSInvalid, below(o.at, name), "a private or secret key was published")
		}
	}
	jwk := receipt.JWK{KeyType: o.required("kty"), Curve: o.text("crv"), Use: o.text("use"), Algorithm: o.text("alg")}
	forSignatures := (jwk.Use == "" || jwk.Use == "sig") && (jwk.Algorithm == "" || jwk.Algorithm == "EdDSA")
	if o.err != nil || jwk.KeyType != "OKP" || jwk.Curve != "Ed25519" || !forSignatures {
		return Key{}, false, o.err
	}
	jwk.KeyID, jwk.X = o.required("kid"), o.required("x")
	if o.err != nil {
		return Key{}, false, o.err
	}
	public, err := jwk.PublicKey()
	if err != nil {
		return Key{}, false, refuse(receipt.CodeVerifyJWKSInvalid, o.at, "%v", err)
	}
	return Key{ID: jwk.KeyID, Public: public}, true, nil
}

// add appends a key unless it is there.
func (s KeySet) add(key Key, at string) (KeySet, error) {
	known, found := s.Find(key.ID)
	switch {
	case !found:
		return append(s, key), nil
	case !bytes.Equal(known, key.Public):
		return nil, refuse(receipt.CodeKidReuse, below(at, "kid"), "one name for two keys")
	}
	return s, nil
}

// Find is the key of that name.
func (s KeySet) Find(kid string) (key ed25519.PublicKey, found bool) {
	for _, k := range s {
		if k.ID == kid {
			return k.Public, true
		}
	}
	return nil, false
}

// Encode writes the set as JSON. One that a reader would refuse is refused.
func (s KeySet) Encode() ([]byte, error) {
	document := struct {
		Keys []receipt.JWK `json:"keys"`
	}{Keys: []receipt.JWK{}}
	for _, k := range s {
		if k.ID == "" {
			return nil, refuse(receipt.CodeVerifyJWKSInvalid, "/keys", "a key without name")
		}
		document.Keys = append(document.Keys, receipt.NewJWK(k.Public, k.ID))
	}
	data, err := canonical.Marshal(document)
	if err != nil {
		return nil, refuse(receipt.CodeVerifyJWKSInvalid, "/keys", "%v", err)
	}
	if _, err := ParseKeySet(data); err != nil {
		return nil, err
	}
	return data, nil
}
