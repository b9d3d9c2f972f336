package receipt

import (
	"fmt"

	"github.com/parleykit/parley/protocol/canonical"
)

// Reference is the receipt_ref of a compact JWS: "sha256:" and the lowercase
// hex SHA-256 of its bytes (WIRE-0.2, section 15.5). It says nothing about
// whether the receipt is valid.
func Reference(jws string) string {
	return "sha256:" + canonical.Digest([]byte(jws))
}

// PolicyDigest is the digest that a record's policy block carries: "sha256:"
// and the lowercase hex SHA-256 of the policy's RFC 8785 form (WIRE-0.2,
// section 11.2). policy is one JSON document.
func PolicyDigest(policy []byte) (string, error) {
	form, err := canonical.Transform(policy)
	if err != nil {
		return "", fmt.Errorf("receipt: digest of a policy: %w", err)
	}
	return "sha256:" + canonical.Digest(form), nil
}

// PolicyState says what is known about the policy a record was made under.
type PolicyState string

// The three states of a policy binding (WIRE-0.2, section 11.3).
const (
	PolicyVerified    PolicyState = "verified"    // both digests are there and equal
	PolicyFailed      PolicyState = "failed"      // both are there and differ
	PolicyUnavailable PolicyState = "unavailable" // one of them is not there: nothing is claimed
)

// BindPolicy compares the digest in a record with the verifier's own; "" is an
// absent digest.
func BindPolicy(record, local string) PolicyState {
	switch {
	case record == "" || local == "":
		return PolicyUnavailable
	case record == local:
		return PolicyVerified
	}
	return PolicyFailed
}
