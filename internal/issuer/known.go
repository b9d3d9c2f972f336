package issuer

import "github.com/parleykit/parley/protocol/receipt"

// Key is the own key of that kid, also one that was retired or revoked since:
// what a receipt was signed with does not change. Refusals are *receipt.Error.
func (i *Issuer) Key(kid string) (receipt.JWK, error) {
	key, err := findKey(i.current.Load().known, kid)
	if err != nil {
		return receipt.JWK{}, err
	}
	return receipt.NewJWK(key, kid), nil
}
