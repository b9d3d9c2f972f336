package receipt

import (
	"encoding/base64"
	"strings"
)

// envelope is a compact JWS taken apart, its signature not yet looked at.
type envelope struct {
	header    header
	signed    string // what the signature covers
	signature []byte
	payload   map[string]any
	sizes     map[string]int // bytes of each claim
	violation *Error         // of a structural limit; payload is nil then
}

// open takes a compact JWS apart (RFC 7515, section 7.1). A payload beyond a
// structural limit is no refusal yet: the signature is judged before it.
func open(jws string) (*envelope, *Error) {
	if len(jws) > MaxJWS {
		return nil, refuse(CodeInvalidFormat, "", "%d bytes, at most %d are read", len(jws), MaxJWS)
	}
	parts := strings.Split(jws, ".")
	if len(parts) != 3 {
		return nil, refuse(CodeInvalidFormat, "", "not three parts")
	}
	var decoded [3][]byte
	for i, part := range parts {
		var ok bool
		if decoded[i], ok = decodeBase64(part); !ok || part == "" {
			return nil, refuse(CodeInvalidFormat, "", "part %d is not base64url", i+1)
		}
	}
	e := &envelope{signed: jws[:len(parts[0])+1+len(parts[1])], signature: decoded[2]}
	var err *Error
	if e.header, err = readHeader(decoded[0]); err != nil {
		return nil, err
	}
	e.payload, e.sizes, err = readObject(decoded[1])
	if err != nil && err.Code == CodeConstraint {
		e.violation, err = err, nil
	}
	return e, err
}

var strictBase64 = base64.RawURLEncoding.Strict()

// decodeBase64 reads base64url without padding in its one spelling. The
// decoder alone skips line breaks, which would give a receipt many.
func decodeBase64(text string) ([]byte, bool) {
	if strings.IndexByte(text, '\r') >= 0 || strings.IndexByte(text, '\n') >= 0 {
		return nil, false
	}
	data, err := strictBase64.DecodeString(text)
	return data, err == nil
}
