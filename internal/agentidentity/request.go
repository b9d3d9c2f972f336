package agentidentity

import (
	"bytes"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/subtle"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/dunglas/httpsfv"

	"github.com/parleykit/parley/internal/httpserver"
	"github.com/parleykit/parley/protocol/receipt"
)

// message is what signatures are about, on either side.
type message struct {
	verb   string
	origin httpserver.Origin
	target string // path and query as they are sent
	header http.Header
}

// url is the absolute URL without a fragment.
func (m *message) url() string { return m.origin.String() + m.target }

// values joins a field's lines (RFC 9421, section 2.1); present is false when
// there are none. Host is not among the fields of a message.
func (m *message) values(name string) (value string, present bool) {
	if name == "host" {
		return m.origin.Host(), true
	}
	lines := m.header.Values(name)
	trimmed := make([]string, len(lines))
	for i, line := range lines {
		trimmed[i] = strings.Trim(line, " \t")
	}
	return strings.Join(trimmed, ", "), len(lines) > 0
}

// request is one that a server received.
type request struct {
	message
	http        *http.Request
	now         time.Time
	attestation *Attestation // nil for none
	maxBody     int64
}

func (v *Verifier) newRequest(r *http.Request) (*request, error) {
	target := r.RequestURI
	if !strings.HasPrefix(target, "/") { // a proxy's form, or none that can be signed
		var own bool
		target, own = strings.CutPrefix(target, v.origin.String())
		if !own || !strings.HasPrefix(target, "/") {
			return nil, refuse(receipt.CodeIdentityBindingMismatch, "The request is not for this server.")
		}
	}
	attestation, err := received(r.Header)
	if err != nil {
		return nil, err
	}
	return &request{message{r.Method, v.origin, target, r.Header}, r, v.opts.Now(), attestation, v.opts.MaxBody}, nil
}

// proof is the attestation's proof, nil when there is no attestation.
func (q *request) proof() *Proof {
	if q.attestation == nil {
		return nil
	}
	return q.attestation.Evidence.Proof
}

// method is what the attestation names, or without one what is there.
func (q *request) method() (Method, error) {
	switch {
	case q.attestation != nil && q.proof() == nil:
		return "", refuse(receipt.CodeIdentityMissing, "The attestation carries no proof.")
	case q.attestation != nil:
		return q.proof().Method, nil
	case q.isSigned():
		return MessageSignature, nil
	case len(q.header.Values(receipt.HeaderDPoP)) > 0:
		return DPoP, nil
	case q.http.TLS != nil && len(q.http.TLS.PeerCertificates) > 0:
		return MTLS, nil
	}
	return "", refuse(receipt.CodeIdentityMissing, "The request carries no proof of identity.")
}

// isSigned reports whether there is a signature of RFC 9421.
func (q *request) isSigned() bool {
	return len(q.header.Values("Signature-Input")) > 0 || len(q.header.Values("Signature")) > 0
}

// names checks that the attestation, when there is one, names this key and its
// algorithm.
func (q *request) names(key Key, ids ...string) error {
	proof := q.proof()
	if proof == nil {
		return nil
	}
	switch {
	case !slices.Contains(ids, proof.KeyID):
		return refuse(receipt.CodeIdentityBindingMismatch, "The attestation names another key than the proof.")
	case key.Public == nil: // a certificate's algorithm is its own affair
		return nil
	case messageNames[proof.algorithm()] == "":
		return refuse(receipt.CodeIdentityProofUnsupported, "The algorithm is not one of EdDSA and ES256.")
	case proof.algorithm() != key.Algorithm:
		return refuse(receipt.CodeIdentitySignatureInvalid, "The key is of another algorithm.")
	}
	return nil
}

// mayHaveBody reports whether a body is announced.
func (q *request) mayHaveBody() bool { return q.http.ContentLength != 0 }

// body reads the whole body and puts it back.
func (q *request) body() ([]byte, error) {
	if q.http.Body == nil {
		return nil, nil
	}
	data, err := io.ReadAll(io.LimitReader(q.http.Body, q.maxBody+1))
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge || int64(len(data)) > q.maxBody {
		return nil, refuse(receipt.CodePayloadTooLarge, "The body is too large.")
	}
	if err != nil {
		return nil, refuse(receipt.CodeIdentityBindingMismatch, "The body ends early.")
	}
	q.http.Body = io.NopCloser(bytes.NewReader(data))
	return data, nil
}

// contentDigest is the Content-Digest of a body (RFC 9530).
func contentDigest(body []byte) string {
	sum := sha256.Sum256(body)
	fields := httpsfv.NewDictionary()
	fields.Add("sha-256", httpsfv.NewItem(sum[:]))
	text, err := httpsfv.Marshal(fields)
	if err != nil { // bytes always encode
		return ""
	}
	return text
}

// checkDigest holds the Content-Digest field against the body. Every digest
// of a kind that is known must be right, and one must be there.
func checkDigest(header http.Header, body []byte) error {
	fields, err := dictionary(header, "Content-Digest")
	if err != nil {
		return err
	}
	short, long := sha256.Sum256(body), sha512.Sum512(body)
	found := false
	for name, sum := range map[string][]byte{"sha-256": short[:], "sha-512": long[:]} {
		member, present := fields.Get(name)
		if !present {
			continue
		}
		found = true
		item, _ := member.(httpsfv.Item)
		if claimed, ok := item.Value.([]byte); !ok || subtle.ConstantTimeCompare(claimed, sum) != 1 {
			return refuse(receipt.CodeIdentityBindingMismatch, "The body is not the one that was signed.")
		}
	}
	if !found {
		return refuse(receipt.CodeIdentityProofUnsupported, "Content-Digest holds neither sha-256 nor sha-512.")
	}
	return nil
}

// dictionary reads a structured field (RFC 9651), bounded first.
func dictionary(header http.Header, name string) (*httpsfv.Dictionary, error) {
	lines, size := header.Values(name), 0
	for _, line := range lines {
		size += len(line)
	}
	if size > maxHeader {
		return nil, refuse(receipt.CodeIdentityInvalidFormat, "The header %s is larger than %d bytes.", name, maxHeader)
	}
	fields, err := httpsfv.UnmarshalDictionary(lines)
	if err != nil {
		return nil, refuse(receipt.CodeIdentityInvalidFormat, "The header %s is not a dictionary.", name)
	}
	return fields, nil
}
