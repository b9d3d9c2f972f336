package discovery

import (
	"fmt"

	"github.com/parleykit/parley/protocol/receipt"
)

// Places of the documents, after the canonical origin (RFC 8615).
const (
	PolicyPath         = "/.well-known/peac.txt"
	PolicyFallbackPath = "/peac.txt" // asked when PolicyPath is not found
	IssuerPath         = "/.well-known/peac-issuer.json"
	CapabilitiesPath   = "/.well-known/peac.json"
)

// IssuerURL is where the issuer of a receipt says which keys it has. An iss
// that is no https URL is refused with E_VERIFY_INSECURE_SCHEME_BLOCKED.
func IssuerURL(iss string) (string, error) {
	origin, err := receipt.CanonicalOrigin(iss)
	if err != nil {
		return "", err
	}
	return origin + IssuerPath, nil
}

// refuse makes a refusal of package receipt.
func refuse(code receipt.Code, pointer, format string, args ...any) error {
	return &receipt.Error{Code: code, Pointer: pointer, Detail: fmt.Sprintf(format, args...)}
}
