package receipt

import "strings"

// RecordType is the typ in the header of a receipt of this version, and the name
// of its kind in documents.
const RecordType = "interaction-record+jwt"

// legacyType is the typ of the version before it.
const legacyType = "peac-receipt/0.1"

// header is what a receipt's header may say that matters.
type header struct {
	keyID string
	typ   string // RecordType or legacyType; "" when it is missing
}

// refusedParameters may stand in no header, whatever their value (WIRE-0.2,
// section 10.2): a key that a receipt brings along proves nothing.
var refusedParameters = []struct {
	name string
	code Code
}{
	{"jwk", CodeJWSEmbeddedKey},
	{"jku", CodeJWSEmbeddedKey},
	{"x5c", CodeJWSEmbeddedKey},
	{"x5u", CodeJWSEmbeddedKey},
	{"crit", CodeJWSCrit},
	{"zip", CodeJWSZip},
}

// readHeader judges a decoded header. Pointers in its refusals lead into the
// header, and their texts say so. Parameters it does not know are ignored
// (RFC 7515, section 4).
func readHeader(data []byte) (header, *Error) {
	members, _, err := readObject(data)
	if err != nil {
		err.Detail = "header: " + err.Detail
		return header{}, err
	}
	if alg, _ := members["alg"].(string); alg != "EdDSA" {
		return header{}, refuse(CodeInvalidFormat, "/alg", "header: only EdDSA is known")
	}
	h := header{}
	if h.typ, err = readType(members); err != nil {
		return header{}, err
	}
	if h.typ == legacyType { // made before the rules below, and refused in any case
		return h, nil
	}
	for _, parameter := range refusedParameters {
		if _, present := members[parameter.name]; present {
			return header{}, refuse(parameter.code, below("", parameter.name), "header: this parameter is never accepted")
		}
	}
	if encoded, present := members["b64"]; present && encoded != true {
		return header{}, refuse(CodeJWSB64, "/b64", "header: the payload has to be base64url")
	}
	h.keyID, _ = members["kid"].(string)
	if h.keyID == "" || len(h.keyID) > MaxKeyID {
		return header{}, refuse(CodeJWSMissingKid, "/kid", "header: not 1 to %d bytes", MaxKeyID)
	}
	return h, nil
}

// readType brings typ into its short form (WIRE-0.2, section 18.3). Parameters
// of a media type are not understood, so they make it another type.
func readType(members map[string]any) (string, *Error) {
	value, present := members["typ"]
	if !present {
		return "", nil
	}
	text, _ := value.(string)
	switch typ := strings.TrimPrefix(lowerASCII(text), "application/"); typ {
	case RecordType, legacyType:
		return typ, nil
	}
	return "", refuse(CodeInvalidFormat, "/typ", "header: not the type of a receipt")
}
