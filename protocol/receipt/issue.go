package receipt

import (
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/parleykit/parley/protocol/canonical"
)

// Signer makes the 64-byte Ed25519 signature of a message.
type Signer func(message []byte) ([]byte, error)

// Issue signs a record: header and claims in their RFC 8785 form, as a compact
// JWS. An empty PeacVersion means Version. Whatever a strict Verify would
// refuse is refused before the signer is asked, and so are a kid that is not 1
// to 64 visible ASCII characters and a string of more than 8,192 bytes, which
// others may not read. That ID is unique is for the caller to see to.
func Issue(c *Claims, kid string, sign Signer) (string, error) {
	if !isIssuedKeyID(kid) {
		return "", refuse(CodeJWSMissingKid, "/kid", "header: not 1 to %d visible ASCII characters", maxIssuedKeyID)
	}
	payload, err := payloadOf(c)
	if err != nil {
		return "", err
	}
	header, err := canonical.Marshal(map[string]string{"alg": "EdDSA", "kid": kid, "typ": RecordType})
	if err != nil {
		return "", fmt.Errorf("receipt: header: %w", err)
	}
	encode := base64.RawURLEncoding.EncodeToString
	message := encode(header) + "." + encode(payload)
	if n := len(message) + 1 + base64.RawURLEncoding.EncodedLen(ed25519.SignatureSize); n > MaxJWS {
		return "", refuse(CodeConstraint, "", "a receipt of %d bytes, at most %d are read", n, MaxJWS)
	}
	signature, err := sign([]byte(message))
	if err != nil {
		return "", fmt.Errorf("receipt: signing: %w", err)
	}
	if len(signature) != ed25519.SignatureSize {
		return "", fmt.Errorf("receipt: signing: a signature of %d bytes, not %d", len(signature), ed25519.SignatureSize)
	}
	return message + "." + encode(signature), nil
}

func isIssuedKeyID(kid string) bool {
	return kid != "" && len(kid) <= maxIssuedKeyID &&
		!strings.ContainsFunc(kid, func(r rune) bool { return r <= ' ' || r >= 0x7f })
}

// payloadOf writes the claims and reads them as a verifier does.
func payloadOf(c *Claims) ([]byte, error) {
	claims := *c
	if claims.PeacVersion == "" {
		claims.PeacVersion = Version
	}
	data, err := json.Marshal(&claims)
	if err != nil {
		return nil, unwritable(err)
	}
	members, sizes, refusal := readObject(data)
	if refusal == nil {
		refusal = checkClaims(members, sizes)
	}
	if refusal == nil {
		refusal = checkGroupOfType(&claims)
	}
	if refusal == nil {
		refusal = checkIssuedStrings(members, "")
	}
	if refusal != nil {
		return nil, refusal
	}
	payload, err := canonical.Transform(data)
	if err != nil {
		return nil, fmt.Errorf("receipt: canonical form: %w", err)
	}
	return payload, nil
}

// unwritable tells values that are no JSON, which only extensions can hold,
// from text that is no Unicode.
func unwritable(err error) *Error {
	if semantic, ok := errors.AsType[*json.SemanticError](err); ok {
		return refuse(CodeExtensionValue, string(semantic.JSONPointer), "a value that JSON cannot hold")
	}
	at := ""
	if syntactic, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		at = string(syntactic.JSONPointer)
	}
	if strings.Count(at, "/") > MaxDepth {
		return refuse(CodeConstraint, at, "nested deeper than %d", MaxDepth)
	}
	return refuse(CodeIJSONString, at, "invalid UTF-8")
}

// checkIssuedStrings looks for strings longer than every reader takes.
func checkIssuedStrings(value any, at string) *Error {
	switch value := value.(type) {
	case string:
		if len(value) > maxIssuedString {
			return refuse(CodeConstraint, at, "a string of %d bytes, at most %d are written", len(value), maxIssuedString)
		}
	case []any:
		for i, item := range value {
			if err := checkIssuedStrings(item, belowItem(at, i)); err != nil {
				return err
			}
		}
	case map[string]any:
		for name, member := range value {
			if err := checkIssuedStrings(member, below(at, name)); err != nil {
				return err
			}
		}
	}
	return nil
}
