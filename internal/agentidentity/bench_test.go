package agentidentity

import (
	"bufio"
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parleykit/parley/protocol/receipt"
)

// start is where the tests' clock stands.
var start = time.Unix(1_800_000_000, 0)

// clock is a clock that a test moves while servers read it.
type clock struct{ seconds atomic.Int64 }

func (c *clock) now() time.Time       { return start.Add(time.Duration(c.seconds.Load()) * time.Second) }
func (c *clock) move(d time.Duration) { c.seconds.Add(int64(d / time.Second)) }

// keyring holds the keys of one agent.
type keyring struct {
	ed    ed25519.PrivateKey
	ec    *ecdsa.PrivateKey
	tls   tls.Certificate
	keys  []Key
	agent string
}

func newKeyring(t testing.TB, agent string) *keyring {
	t.Helper()
	_, ed, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: agent},
		NotBefore: start.Add(-time.Hour), NotAfter: start.Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, ec.Public(), ec)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &keyring{ed, ec, tls.Certificate{Certificate: [][]byte{der}, PrivateKey: ec, Leaf: leaf}, []Key{
		{ID: agent + "-ed", Agent: agent, Algorithm: EdDSA, Public: ed.Public()},
		{ID: agent + "-ec", Agent: agent, Algorithm: ES256, Public: ec.Public()},
		{ID: agent + "-tls", Agent: agent, Certificate: CertificateThumbprint(leaf)},
	}, agent}
}

// client signs with one of the ring's keys: "-ed", "-ec" or "-tls".
func (k *keyring) client(c *clock, key string) *Client {
	signer := map[string]crypto.Signer{"-ed": k.ed, "-ec": k.ec}[key]
	return &Client{
		Issuer: "https://agent.example", KeyID: k.agent + key, Key: signer, Certificate: k.tls.Leaf, Now: c.now,
		Evidence: Evidence{
			AgentID: k.agent, ControlType: Operator, Capabilities: []string{"vote"},
			Metadata: []byte(`{"a":[1,{"b":null}]}`),
		},
	}
}

// bench is a verifier on a clock, and one agent that it knows.
type bench struct {
	*Verifier
	clock *clock
	ring  *keyring
}

const benchOrigin = "https://venue.example"

func newBench(t testing.TB, change func(*Options)) *bench {
	t.Helper()
	b := &bench{clock: &clock{}, ring: newKeyring(t, "bot:alice")}
	keys, err := NewKeys(append(b.ring.keys, newKeyring(t, "bot:bob").keys...)...)
	if err != nil {
		t.Fatal(err)
	}
	opts := Options{
		Origin: benchOrigin, Directory: keys, Methods: []Method{MessageSignature, DPoP, MTLS, JWKThumbprint}, Now: b.clock.now,
	}
	if change != nil {
		change(&opts)
	}
	if b.Verifier, err = New(opts); err != nil {
		t.Fatal(err)
	}
	return b
}

// post is a request that is not signed yet.
func post(t testing.TB, origin, body string) *http.Request {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, origin+"/rooms/a%2Fb?to=alice&x=%20#part", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("PEAC-Purpose", "user_action")
	return req
}

// signed is a request that this method proves, before it is sent.
func (b *bench) signed(t testing.TB, method Method, body string) *http.Request {
	t.Helper()
	key := "-ed"
	if method == MTLS {
		key = "-tls"
	}
	req := post(t, benchOrigin, body)
	if err := b.ring.client(b.clock, key).Sign(req, method); err != nil {
		t.Fatal(err)
	}
	return req
}

// wire is the request as a server reads it. The body can be sent again.
func wire(t testing.TB, req *http.Request) *http.Request {
	t.Helper()
	var sent bytes.Buffer
	if err := req.Write(&sent); err != nil {
		t.Fatal(err)
	}
	if req.GetBody != nil {
		req.Body, _ = req.GetBody()
	}
	r, err := http.ReadRequest(bufio.NewReader(&sent))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// refused checks the code that a request is refused with; "" for accepted.
func (b *bench) refused(t testing.TB, name string, r *http.Request, want receipt.Code) {
	t.Helper()
	identity, err := b.Verify(r)
	if got := receipt.CodeOf(err); got != want || (identity == nil) != (err != nil) || err != nil && got == "" {
		t.Errorf("%s: %v, want %q", name, err, want)
	}
}

// serve runs a server with the verifier in front of a handler that answers with
// the identity and the body.
func serve(t *testing.T, change func(*Options)) (b *bench, url string, client *http.Client) {
	t.Helper()
	var handler http.Handler
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handler.ServeHTTP(w, r) }))
	server.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
	b = newBench(t, func(o *Options) {
		o.Origin = "https://" + server.Listener.Addr().String()
		if change != nil {
			change(o)
		}
	})
	handler = b.Require(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		identity, ok := FromContext(r.Context())
		body, err := io.ReadAll(r.Body)
		if !ok || err != nil {
			t.Errorf("identity %v, body: %v", identity, err)
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"identity": identity, "body": string(body)})
	}))
	server.StartTLS()
	t.Cleanup(server.Close)
	client = server.Client()
	config := client.Transport.(*http.Transport).TLSClientConfig
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &b.ring.tls, nil }
	return b, server.URL, client
}

func do(t *testing.T, client *http.Client, req *http.Request) (*http.Response, []byte) {
	t.Helper()
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, body
}

// attestation reads and rewrites the header of a request.
func attestation(t testing.TB, req *http.Request, change func(*Attestation)) {
	t.Helper()
	a, err := received(req.Header)
	if err != nil || a == nil {
		t.Fatal(a, err)
	}
	change(a)
	data, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set(Header, base64.RawURLEncoding.EncodeToString(data))
}
