package canonical

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/gowebpki/jcs"
)

// Transform returns the RFC 8785 form of one JSON document. It passes the gate
// of Check first, since JCS itself rounds large integers silently.
func Transform(data []byte) ([]byte, error) {
	if err := Check(data); err != nil {
		return nil, err
	}
	out, err := jcs.Transform(data)
	if err != nil {
		return nil, fmt.Errorf("canonical: %w", err)
	}
	return out, nil
}

// Marshal encodes v as JSON and returns its RFC 8785 form.
func Marshal(v any) ([]byte, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("canonical: encoding: %w", err)
	}
	return Transform(data)
}

// Digest is the lowercase hex SHA-256 of data: 64 characters.
func Digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
