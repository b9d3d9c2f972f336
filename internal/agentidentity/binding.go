package agentidentity

import (
	"encoding/base64"
	"slices"
	"strings"
	"time"

	"github.com/parleykit/parley/protocol/receipt"
)

// NonceHeader carries the nonce of a binding message.
const NonceHeader = "PEAC-Nonce"

// maxIncluded bounds the fields of a binding message.
const maxIncluded = 64

// proveThumbprint checks the binding message of a key that is named by its JWK
// thumbprint.
func (v *Verifier) proveThumbprint(q *request) (proven, error) {
	found, err := v.proveBinding(q)
	if err != nil {
		return proven{}, err
	}
	if thumbprint, err := Thumbprint(found.key.Public); err != nil || thumbprint != q.proof().KeyID {
		return proven{}, refuse(receipt.CodeIdentityBindingMismatch, "The key's thumbprint is another.")
	}
	return found, nil
}

// proveBinding checks the signature of the attestation over the binding
// message (PEAC, AGENT-IDENTITY, sections 4 and 5).
func (v *Verifier) proveBinding(q *request) (proven, error) {
	proof := q.proof()
	if proof == nil || proof.Signature == "" || proof.Binding == nil {
		return proven{}, refuse(receipt.CodeIdentityMissing, "The request is not signed.")
	}
	signature, err := base64.RawURLEncoding.Strict().DecodeString(proof.Signature)
	if err != nil {
		return proven{}, malformedProof("signature")
	}
	if err := v.checkBinding(q, proof.Binding); err != nil {
		return proven{}, err
	}
	key, err := v.find(q.http.Context(), proof.Method, proof.KeyID, q.now)
	if err != nil {
		return proven{}, err
	}
	if err := q.names(key, proof.KeyID); err != nil {
		return proven{}, err
	}
	nonce, err := q.nonce()
	if err != nil {
		return proven{}, err
	}
	text, err := proof.Binding.message(&q.message, nonce)
	if err != nil {
		return proven{}, err
	}
	if err := key.verify(text, signature); err != nil {
		return proven{}, err
	}
	body, err := q.body()
	if err != nil {
		return proven{}, err
	}
	if bodyHash(body) != proof.Binding.BodyHash {
		return proven{}, refuse(receipt.CodeIdentityBindingMismatch, "The body is not the one that was signed.")
	}
	return proven{key: key, signed: text, once: "binding " + string(text)}, nil
}

// nonce is the header's or else the jti of the receipt that is sent along; "" for
// neither. The receipt is not verified: its jti only has to be what was signed.
func (q *request) nonce() (string, error) {
	nonce, err := only(q.header, NonceHeader)
	if nonce != "" || err != nil {
		return nonce, err
	}
	decoded, err := receipt.Decode(q.header.Get(receipt.HeaderReceipt))
	if err != nil { // none, or one that the recipient of it will refuse
		return "", nil
	}
	return decoded.Claims.ID, nil
}

// checkBinding holds the binding against the request, but for the body.
func (v *Verifier) checkBinding(q *request, b *Binding) error {
	signedAt, err := time.Parse(time.RFC3339, b.SignedAt)
	if err != nil {
		return malformedProof("binding/signed_at")
	}
	if len(b.HeadersIncluded) > maxIncluded || !slices.IsSorted(b.HeadersIncluded) ||
		len(slices.Compact(slices.Clone(b.HeadersIncluded))) != len(b.HeadersIncluded) {
		return malformedProof("binding/headers_included")
	}
	if b.Method != q.verb || b.Target != q.url() {
		return refuse(receipt.CodeIdentityBindingMismatch, "The binding is of another method or URL.")
	}
	for _, name := range mustInclude(&q.message, q.mayHaveBody()) {
		if !slices.Contains(b.HeadersIncluded, name) {
			return refuse(receipt.CodeIdentityBindingMismatch, "The binding does not include %s.", name)
		}
	}
	return v.fresh(signedAt, q.now)
}

func malformedProof(member string) error {
	return &receipt.Error{
		Code: receipt.CodeIdentityInvalidFormat, Pointer: "/evidence/proof/" + member,
		Detail: "The proof breaks a rule of its form.",
	}
}

// mustInclude are the fields of a binding, sorted: as mustCover, with host and
// without the header that the signature is in.
func mustInclude(m *message, body bool) []string {
	names := append(mustCover(m, body), "host")
	names = slices.DeleteFunc(names, func(name string) bool { return name == strings.ToLower(Header) })
	slices.Sort(names)
	return names
}

// message is the binding message of a request: nine kinds of lines, of which
// there is one for each included field.
func (b *Binding) message(m *message, nonce string) ([]byte, error) {
	lines := []string{m.verb, m.url()}
	for _, name := range b.HeadersIncluded {
		value, present := m.values(name)
		if !present || name != strings.ToLower(name) || name == strings.ToLower(Header) {
			return nil, refuse(receipt.CodeIdentityBindingMismatch, "A field that the binding includes is not there.")
		}
		lines = append(lines, name+":"+value)
	}
	lines = append(lines, b.BodyHash, m.origin.String(), nonce, b.SignedAt)
	return []byte(strings.Join(lines, "\n")), nil
}

// bodyHash is the hash line of a binding message.
func bodyHash(body []byte) string {
	if len(body) == 0 {
		return ""
	}
	return digest(body)
}
