package agentidentity

import (
	"bytes"
	"cmp"
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/dunglas/httpsfv"
	"github.com/golang-jwt/jwt/v5"

	"github.com/parleykit/parley/internal/httpserver"
	"github.com/parleykit/parley/protocol/canonical"
	"github.com/parleykit/parley/protocol/receipt"
)

// label names a Client's signature in its fields.
const label = "sig1"

// ErrClient means a request that a Client cannot sign.
var ErrClient = errors.New("agentidentity: cannot sign")

// Client proves an agent's identity on the requests it sends.
type Client struct {
	// Issuer is the URL of who attests, such as the agent's own origin.
	Issuer string
	// Evidence is what the agent says of itself. Its Proof is made anew for
	// each request.
	Evidence Evidence
	// KeyID is the key's or the certificate's ID in the verifier's directory.
	KeyID string
	// Key is an ed25519.PrivateKey or an *ecdsa.PrivateKey on P-256.
	Key crypto.Signer
	// Certificate is the one that the HTTP client presents, for MTLS.
	Certificate *x509.Certificate
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Sign adds the headers of a proof by this method, replacing those of an
// earlier one. The request is otherwise complete: nothing that a signature
// covers may change afterwards. A redirect needs a signature of its own. For
// DPoP with an access token, the Authorization header is set before. Errors are
// ErrClient, or ErrKey for a key of another kind.
func (c *Client) Sign(req *http.Request, method Method) error {
	if req.Header == nil {
		req.Header = http.Header{}
	}
	for _, name := range [...]string{Header, NonceHeader, receipt.HeaderDPoP, "Signature", "Signature-Input", "Content-Digest"} {
		req.Header.Del(name)
	}
	origin, err := httpserver.ParseOrigin(req.URL.Scheme + "://" + cmp.Or(req.Host, req.URL.Host))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrClient, err)
	}
	m := &message{cmp.Or(req.Method, http.MethodGet), origin, req.URL.RequestURI(), req.Header}
	now := time.Now()
	if c.Now != nil {
		now = c.Now()
	}
	if method == MTLS {
		return c.attestCertificate(req.Header, now)
	}
	algorithm, err := c.algorithm()
	if err != nil {
		return err
	}
	proof := &Proof{Method: method, KeyID: c.KeyID, Algorithm: string(algorithm)}
	switch method {
	case MessageSignature:
		body, err := takeBody(req)
		if err != nil {
			return err
		}
		return c.signMessage(m, proof, body, now)
	case DPoP:
		return c.signDPoP(m, proof, now)
	case JWKThumbprint:
		body, err := takeBody(req)
		if err != nil {
			return err
		}
		return c.signBinding(m, proof, body, now)
	}
	return fmt.Errorf("%w: there is no method %q", ErrClient, method)
}

func (c *Client) attestCertificate(header http.Header, now time.Time) error {
	if c.Certificate == nil {
		return fmt.Errorf("%w: no certificate", ErrClient)
	}
	return c.attest(header, &Proof{Method: MTLS, KeyID: c.KeyID, CertThumbprint: CertificateThumbprint(c.Certificate)}, now)
}

// signMessage signs by RFC 9421.
func (c *Client) signMessage(m *message, proof *Proof, body []byte, now time.Time) error {
	if err := c.attest(m.header, proof, now); err != nil {
		return err
	}
	components := []string{"@method", "@target-uri"}
	if len(body) > 0 {
		m.header.Set("Content-Digest", contentDigest(body))
		components = append(components, "content-digest")
	}
	components = append(components, mustCover(m, len(body) > 0)...)
	sig := newSignature(components, now, proof.KeyID, Algorithm(proof.Algorithm))
	base, err := sig.base(m)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrClient, err)
	}
	if sig.bytes, err = c.sign(base); err != nil {
		return err
	}
	return sig.write(m.header)
}

// newSignature is one to be made, for as long as verifiers take it by default.
func newSignature(components []string, now time.Time, keyID string, algorithm Algorithm) *signature {
	sig := &signature{components: components, input: httpsfv.InnerList{Params: httpsfv.NewParams()}}
	for _, name := range components {
		sig.input.Items = append(sig.input.Items, httpsfv.NewItem(name))
	}
	sig.input.Params.Add("created", now.Unix())
	sig.input.Params.Add("expires", now.Add(DefaultMaxAge).Unix())
	sig.input.Params.Add("nonce", rand.Text())
	sig.input.Params.Add("keyid", keyID)
	sig.input.Params.Add("alg", messageNames[algorithm])
	return sig
}

// write adds the two fields of a signature.
func (s *signature) write(header http.Header) error {
	for name, member := range map[string]httpsfv.Member{"Signature-Input": s.input, "Signature": httpsfv.NewItem(s.bytes)} {
		fields := httpsfv.NewDictionary()
		fields.Add(label, member)
		text, err := httpsfv.Marshal(fields)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrClient, err)
		}
		header.Set(name, text)
	}
	return nil
}

// signDPoP adds a proof of RFC 9449.
func (c *Client) signDPoP(m *message, proof *Proof, now time.Time) error {
	path, _, _ := strings.Cut(m.target, "?")
	claims := jwt.MapClaims{"jti": rand.Text(), "htm": m.verb, "htu": m.origin.String() + path, "iat": now.Unix()}
	if scheme, token, _ := strings.Cut(m.header.Get("Authorization"), " "); strings.EqualFold(scheme, "DPoP") {
		claims["ath"] = digest([]byte(strings.TrimSpace(token)))
	}
	key, err := jwk(c.Key.Public())
	if err != nil {
		return err
	}
	token := jwt.NewWithClaims(signing[Algorithm(proof.Algorithm)], claims)
	token.Header["typ"], token.Header["jwk"] = dpopType, key
	text, err := token.SignedString(c.Key)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrClient, err)
	}
	m.header.Set(receipt.HeaderDPoP, text)
	return c.attest(m.header, proof, now)
}

// signBinding signs the binding message; the key is named by its thumbprint.
func (c *Client) signBinding(m *message, proof *Proof, body []byte, now time.Time) (err error) {
	if proof.KeyID, err = Thumbprint(c.Key.Public()); err != nil {
		return err
	}
	nonce := rand.Text()
	m.header.Set(NonceHeader, nonce)
	proof.Binding = &Binding{
		Method: m.verb, Target: m.url(), HeadersIncluded: mustInclude(m, len(body) > 0),
		BodyHash: bodyHash(body), SignedAt: now.UTC().Format(time.RFC3339),
	}
	text, err := proof.Binding.message(m, nonce)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrClient, err)
	}
	signature, err := c.sign(text)
	if err != nil {
		return err
	}
	proof.Signature = base64.RawURLEncoding.EncodeToString(signature)
	return c.attest(m.header, proof, now)
}

// attest adds the attestation with its proof.
func (c *Client) attest(header http.Header, proof *Proof, now time.Time) error {
	a := Attestation{Type: attestationType, Issuer: c.Issuer, IssuedAt: now.UTC().Format(time.RFC3339), Evidence: c.Evidence}
	a.Evidence.Proof = proof
	if defect := a.defect(); defect != "" {
		return fmt.Errorf("%w: the attestation breaks a rule at %s", ErrClient, defect)
	}
	text, err := canonical.Marshal(a)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrClient, err)
	}
	value := base64.RawURLEncoding.EncodeToString(text)
	if len(value) > maxHeader {
		return fmt.Errorf("%w: the attestation is too large", ErrClient)
	}
	header.Set(Header, value)
	return nil
}

// algorithm is the one of the key.
func (c *Client) algorithm() (Algorithm, error) {
	for algorithm := range signing {
		if c.Key != nil && (Key{Algorithm: algorithm, Public: c.Key.Public()}).fits() {
			return algorithm, nil
		}
	}
	return "", fmt.Errorf("%w: no key of Ed25519 or P-256", ErrClient)
}

func (c *Client) sign(text []byte) ([]byte, error) {
	algorithm, err := c.algorithm()
	if err != nil {
		return nil, err
	}
	signature, err := signing[algorithm].Sign(string(text), c.Key)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrClient, err)
	}
	return signature, nil
}

// takeBody reads the request's body and puts it back.
func takeBody(req *http.Request) ([]byte, error) {
	if req.Body == nil || req.Body == http.NoBody {
		return nil, nil
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, fmt.Errorf("%w: reading the body: %w", ErrClient, err)
	}
	_ = req.Body.Close()
	req.ContentLength = int64(len(body))
	req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	req.Body, _ = req.GetBody()
	return body, nil
}
