package agentidentity

import (
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleykit/parley/internal/httpserver"
	"github.com/parleykit/parley/protocol/receipt"
)

func TestBindingMessageHasItsLinesInOrder(t *testing.T) {
	origin, err := httpserver.ParseOrigin("https://publisher.example")
	if err != nil {
		t.Fatal(err)
	}
	m := &message{"POST", origin, "/api/content?a=b", http.Header{
		"Content-Type": {"application/json"}, "Peac-Purpose": {" inference", "search "}, "Peac-Receipt": {"r"}, "X-Other": {"x"},
		http.CanonicalHeaderKey(Header): {"a"},
	}}
	b := &Binding{Method: "POST", Target: m.url(), HeadersIncluded: mustInclude(m, true), BodyHash: bodyHash([]byte("{}")), SignedAt: "2026-01-03T12:00:00Z"}
	got, err := b.message(m, "req_abc123")
	page, readErr := os.ReadFile("../../docs/spec/agent-identity.md")
	if readErr != nil {
		t.Fatal(readErr)
	}
	_, example, _ := strings.Cut(string(page), "```binding\n")
	want, _, _ := strings.Cut(example, "\n```")
	if diff := cmp.Diff(want, string(got)); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
	b.HeadersIncluded, b.BodyHash = mustInclude(m, false), bodyHash(nil)
	got, err = b.message(m, "")
	want = "POST\nhttps://publisher.example/api/content?a=b\n" +
		"host:publisher.example\npeac-purpose:inference, search\npeac-receipt:r\n" +
		"\nhttps://publisher.example\n\n2026-01-03T12:00:00Z"
	if diff := cmp.Diff(want, string(got)); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
}

func TestBindingOfAnotherRequestIsRefused(t *testing.T) {
	mismatch, invalid := receipt.CodeIdentityBindingMismatch, receipt.CodeIdentitySignatureInvalid
	malformed := receipt.CodeIdentityInvalidFormat
	binding := func(change func(*Proof)) func(*testing.T, *http.Request) {
		return func(t *testing.T, r *http.Request) {
			attestation(t, r, func(a *Attestation) { change(a.Evidence.Proof) })
		}
	}
	field := func(name, value string) func(*testing.T, *http.Request) {
		return func(_ *testing.T, r *http.Request) { r.Header.Set(name, value) }
	}
	names := func(names ...string) func(*testing.T, *http.Request) {
		return binding(func(p *Proof) { p.Binding.HeadersIncluded = names })
	}
	for name, c := range map[string]struct {
		change func(*testing.T, *http.Request)
		want   receipt.Code
	}{
		"unchanged": {func(*testing.T, *http.Request) {}, ""},
		"body":      {func(_ *testing.T, r *http.Request) { body("other")(r) }, mismatch},
		"body and its hash": {func(t *testing.T, r *http.Request) {
			body("other")(r)
			binding(func(p *Proof) { p.Binding.BodyHash = bodyHash([]byte("other")) })(t, r)
		}, invalid},
		"no body hash": {binding(func(p *Proof) { p.Binding.BodyHash = "" }), invalid},
		"path":         {func(_ *testing.T, r *http.Request) { r.RequestURI = "/x" }, mismatch},
		"path and target": {func(t *testing.T, r *http.Request) {
			r.RequestURI = "/x"
			binding(func(p *Proof) { p.Binding.Target = benchOrigin + "/x" })(t, r)
		}, invalid},
		"method":              {func(_ *testing.T, r *http.Request) { r.Method = "PUT" }, mismatch},
		"time":                {binding(func(p *Proof) { p.Binding.SignedAt = "2027-01-15T08:00:01Z" }), invalid},
		"no time":             {binding(func(p *Proof) { p.Binding.SignedAt = "" }), malformed},
		"nonce":               {field(NonceHeader, "x"), invalid},
		"no nonce":            {func(_ *testing.T, r *http.Request) { r.Header.Del(NonceHeader) }, invalid},
		"nonce twice":         {func(_ *testing.T, r *http.Request) { r.Header.Add(NonceHeader, "x") }, malformed},
		"purpose":             {field("PEAC-Purpose", "train"), invalid},
		"receipt added":       {field("PEAC-Receipt", "x"), mismatch},
		"other field added":   {field("X-Trace", "x"), ""},
		"field left out":      {names("content-type", "host"), mismatch},
		"field more":          {names("content-type", "host", "peac-nonce", "peac-purpose"), invalid},
		"absent field":        {names("content-type", "host", "peac-purpose", "x"), mismatch},
		"fields not sorted":   {names("host", "content-type", "peac-purpose"), malformed},
		"field twice":         {names("content-type", "host", "host", "peac-purpose"), malformed},
		"field in capitals":   {names("User-Agent", "content-type", "host", "peac-purpose"), mismatch},
		"its own header":      {names("content-type", "host", "peac-agent-identity", "peac-purpose"), mismatch},
		"many fields":         {names(manyFields()...), malformed},
		"no signature":        {binding(func(p *Proof) { p.Signature = "" }), receipt.CodeIdentityMissing},
		"no binding":          {binding(func(p *Proof) { p.Binding = nil }), receipt.CodeIdentityMissing},
		"signature no base64": {binding(func(p *Proof) { p.Signature = "!" }), malformed},
		"padded signature":    {binding(func(p *Proof) { p.Signature += "==" }), malformed},
		"key by its name":     {binding(func(p *Proof) { p.KeyID = "bot:alice-ed" }), receipt.CodeIdentityKeyUnknown},
		"other method's key":  {binding(func(p *Proof) { p.Method, p.KeyID = MessageSignature, "bot:alice-ed" }), ""},
		"algorithm":           {binding(func(p *Proof) { p.Algorithm = "ES256" }), invalid},
		"default algorithm":   {binding(func(p *Proof) { p.Algorithm = "" }), ""},
		"unknown algorithm":   {binding(func(p *Proof) { p.Algorithm = "none" }), receipt.CodeIdentityProofUnsupported},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, nil)
			r := wire(t, b.signed(t, JWKThumbprint, "body"))
			c.change(t, r)
			b.refused(t, name, r, c.want)
		})
	}
}

// manyFields are one more than may be included, sorted.
func manyFields() (names []string) {
	for i := range maxIncluded + 1 {
		names = append(names, fmt.Sprintf("a%03d", i))
	}
	return names
}

func TestBindingOfAKeyWithAnotherThumbprintIsRefused(t *testing.T) {
	bob := newKeyring(t, "bot:alice")
	b := newBench(t, change(func(k *Key) { k.Public = bob.ed.Public() })) // a directory that errs
	req := post(t, benchOrigin, "")
	if err := bob.client(b.clock, "-ed").Sign(req, JWKThumbprint); err != nil {
		t.Fatal(err)
	}
	b.refused(t, "honest key", wire(t, req), receipt.CodeIdentityKeyUnknown)
	// Bob's key signs for the thumbprint of alice's.
	client := bob.client(b.clock, "-ed")
	r := wire(t, req)
	proof := &Proof{Method: JWKThumbprint, Binding: &Binding{
		Method: "POST", Target: benchOrigin + r.RequestURI, HeadersIncluded: []string{"host", "peac-purpose"}, SignedAt: "2027-01-15T08:00:00Z",
	}}
	proof.KeyID, _ = Thumbprint(b.ring.ed.Public())
	text, err := proof.Binding.message(&message{r.Method, b.origin, r.RequestURI, r.Header}, r.Header.Get(NonceHeader))
	if err != nil {
		t.Fatal(err)
	}
	signature, err := client.sign(text)
	if err != nil {
		t.Fatal(err)
	}
	proof.Signature = base64.RawURLEncoding.EncodeToString(signature)
	if err := client.attest(r.Header, proof, b.clock.now()); err != nil {
		t.Fatal(err)
	}
	b.refused(t, "other thumbprint", r, receipt.CodeIdentityBindingMismatch)
}

func TestNonceIsThatOfTheReceiptWithoutItsOwnHeader(t *testing.T) {
	b := newBench(t, nil)
	jws, err := receipt.Issue(&receipt.Claims{
		PeacVersion: "0.2", Kind: "evidence", Type: "example.org/vote", Issuer: benchOrigin, IssuedAt: start.Unix(), ID: "r1",
	}, "k", func(message []byte) ([]byte, error) { return ed25519.Sign(b.ring.ed, message), nil })
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{"": "", jws: "r1", jws[:len(jws)/2]: "", jws + ".": ""} {
		req := post(t, benchOrigin, "")
		req.Header.Set("PEAC-Receipt", text)
		q, err := b.newRequest(wire(t, req))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := q.nonce(); got != want || err != nil {
			t.Errorf("%.20q: %q, %v", text, got, err)
		}
	}
	// With a header the receipt's does not count.
	req := b.signed(t, JWKThumbprint, "")
	req.Header.Set("PEAC-Receipt", jws)
	if err := b.ring.client(b.clock, "-ed").Sign(req, JWKThumbprint); err != nil {
		t.Fatal(err)
	}
	b.refused(t, "both", wire(t, req), "")
}
