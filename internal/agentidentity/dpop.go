package agentidentity

import (
	"encoding/base64"
	"math"
	"net/url"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/parleykit/parley/internal/httpserver"
	"github.com/parleykit/parley/protocol/canonical"
	"github.com/parleykit/parley/protocol/receipt"
)

const dpopType = "dpop+jwt"

// dpopProof is a proof of RFC 9449 before its signature is checked.
type dpopProof struct {
	signed     []byte // header and claims as they are signed
	signature  []byte
	algorithm  Algorithm
	thumbprint string // of the key that it carries

	id, method, url, tokenHash string
	issued                     time.Time
}

// proveDPoP makes the checks of RFC 9449, section 4.3.
func (v *Verifier) proveDPoP(q *request) (proven, error) {
	text, err := q.dpopText()
	if err != nil {
		return proven{}, err
	}
	proof, err := parseDPoP(text)
	if err != nil {
		return proven{}, err
	}
	if err := proof.matches(q); err != nil {
		return proven{}, err
	}
	if err := v.fresh(proof.issued, q.now); err != nil {
		return proven{}, err
	}
	key, err := v.find(q.http.Context(), DPoP, proof.thumbprint, q.now)
	if err != nil {
		return proven{}, err
	}
	if err := q.names(key, key.ID, proof.thumbprint); err != nil {
		return proven{}, err
	}
	if proof.algorithm != key.Algorithm {
		return proven{}, refuse(receipt.CodeIdentitySignatureInvalid, "The key is of another algorithm.")
	}
	// The key is the directory's, not the one that came along.
	if err := key.verify(proof.signed, proof.signature); err != nil {
		return proven{}, err
	}
	return proven{key: key, signed: proof.signed, once: "dpop " + proof.id}, nil
}

// dpopText is the JWT, from the DPoP header or from the attestation.
func (q *request) dpopText() (string, error) {
	text, err := only(q.header, receipt.HeaderDPoP)
	if err != nil {
		return "", err
	}
	inside := ""
	if proof := q.proof(); proof != nil {
		inside = proof.DPoP
	}
	switch {
	case text == "" && inside == "":
		return "", refuse(receipt.CodeIdentityMissing, "The request carries no DPoP proof.")
	case text == "":
		return inside, nil
	case inside != "" && inside != text:
		return "", refuse(receipt.CodeIdentityBindingMismatch, "The request carries two DPoP proofs.")
	}
	return text, nil
}

// parseDPoP reads a proof and checks its form.
func parseDPoP(text string) (*dpopProof, error) {
	malformed := func(why string) error {
		return refuse(receipt.CodeIdentityInvalidFormat, "The DPoP proof %s.", why)
	}
	for i, part := range strings.Split(text, ".") {
		data, err := base64.RawURLEncoding.Strict().DecodeString(part)
		if err != nil || i < 2 && canonical.Check(data) != nil { // no name twice
			return nil, malformed("is not a JWT")
		}
	}
	claims := jwt.MapClaims{}
	token, parts, err := jwt.NewParser(jwt.WithStrictDecoding()).ParseUnverified(text, claims)
	if token == nil || token.Header == nil {
		return nil, malformed("is not a JWT")
	}
	algorithm, _ := token.Header["alg"].(string)
	if messageNames[Algorithm(algorithm)] == "" {
		return nil, refuse(receipt.CodeIdentityProofUnsupported, "The algorithm is not one of EdDSA and ES256.")
	}
	if err != nil {
		return nil, malformed("is not a JWT")
	}
	key, _ := token.Header["jwk"].(map[string]any)
	proof := &dpopProof{
		signed: []byte(parts[0] + "." + parts[1]), signature: token.Signature,
		algorithm: Algorithm(algorithm), thumbprint: receivedThumbprint(key),
	}
	_, critical := token.Header["crit"]
	if typ, _ := token.Header["typ"].(string); typ != dpopType || critical || proof.thumbprint == "" {
		return nil, malformed("has not the header of RFC 9449")
	}
	if !proof.read(claims) {
		return nil, malformed("lacks a claim of RFC 9449")
	}
	return proof, nil
}

// read takes the claims; false when one is missing or of a wrong form.
func (p *dpopProof) read(claims jwt.MapClaims) bool {
	texts := true
	for name, to := range map[string]*string{"jti": &p.id, "htm": &p.method, "htu": &p.url} {
		text, ok := claims[name].(string)
		*to, texts = text, texts && ok && text != ""
	}
	hash, isText := claims["ath"].(string)
	_, hashed := claims["ath"]
	p.tokenHash = hash
	issued, isNumber := claims["iat"].(float64)
	p.issued = time.Unix(int64(math.Min(math.Max(issued, 0), 1<<40)), 0)
	return texts && isNumber && hashed == isText && len(p.id) <= maxID && len(p.url) <= maxURL
}

// matches holds the proof against the request.
func (p *dpopProof) matches(q *request) error {
	path, _, _ := strings.Cut(q.target, "?")
	scheme, token, _ := strings.Cut(q.header.Get("Authorization"), " ")
	wantHash := ""
	if strings.EqualFold(scheme, "DPoP") {
		wantHash = digest([]byte(strings.TrimSpace(token)))
	}
	switch {
	case p.method != q.verb:
		return refuse(receipt.CodeIdentityBindingMismatch, "The DPoP proof is of another method.")
	case !sameURL(p.url, q.origin, path):
		return refuse(receipt.CodeIdentityBindingMismatch, "The DPoP proof is of another URL.")
	case p.tokenHash != wantHash:
		return refuse(receipt.CodeIdentityBindingMismatch, "The DPoP proof is not of the access token.")
	}
	return nil
}

// sameURL compares after normalisation of scheme, host and empty path, without
// query and fragment.
func sameURL(text string, origin httpserver.Origin, path string) bool {
	u, err := url.Parse(text)
	if err != nil || u.User != nil || u.Opaque != "" {
		return false
	}
	other, err := httpserver.ParseOrigin(u.Scheme + "://" + u.Host)
	if err != nil || other != origin {
		return false
	}
	own := u.EscapedPath()
	if own == "" {
		own = "/"
	}
	return own == path
}
