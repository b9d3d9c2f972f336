package agentidentity

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/parleykit/parley/protocol/receipt"
)

// bare is a request with the method's proof and no attestation.
func bare(t testing.TB, b *bench, method Method) *http.Request {
	t.Helper()
	req := post(t, benchOrigin, "body")
	if method != MessageSignature {
		if err := b.ring.client(b.clock, "-ed").Sign(req, method); err != nil {
			t.Fatal(err)
		}
		req.Header.Del(Header)
		return req
	}
	signBare(t, b, req, "body", []string{"@method", "@target-uri", "content-digest", "content-type", "peac-purpose"}, nil)
	return req
}

// signBare signs by RFC 9421 whatever the test wants to be signed.
func signBare(t testing.TB, b *bench, req *http.Request, body string, components []string, parameters func(*signature)) {
	t.Helper()
	if body != "" {
		req.Header.Set("Content-Digest", contentDigest([]byte(body)))
	}
	sig := newSignature(components, b.clock.now(), "bot:alice-ed", EdDSA)
	if parameters != nil {
		parameters(sig)
	}
	m := message{req.Method, b.origin, req.URL.RequestURI(), req.Header}
	base, err := sig.base(&m)
	if err != nil {
		t.Fatal(err)
	}
	if sig.bytes, err = b.ring.client(b.clock, "-ed").sign(base); err != nil {
		t.Fatal(err)
	}
	if err := sig.write(req.Header); err != nil {
		t.Fatal(err)
	}
}

func TestSignatureOfAChangedRequestIsRefused(t *testing.T) {
	mismatch, invalid := receipt.CodeIdentityBindingMismatch, receipt.CodeIdentitySignatureInvalid
	unsupported, malformed := receipt.CodeIdentityProofUnsupported, receipt.CodeIdentityInvalidFormat
	field := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	replace := func(name, from, to string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, strings.Replace(r.Header.Get(name), from, to, 1)) }
	}
	for name, c := range map[string]struct {
		change func(*http.Request)
		want   receipt.Code
	}{
		"unchanged":            {func(*http.Request) {}, ""},
		"field not covered":    {field("X-Trace", "1"), ""},
		"body":                 {body("other"), mismatch},
		"body and its digest":  {both(body("other"), field("Content-Digest", contentDigest([]byte("other")))), invalid},
		"no digest":            {func(r *http.Request) { r.Header.Del("Content-Digest") }, mismatch},
		"path":                 {func(r *http.Request) { r.RequestURI = "/rooms/a/b?to=alice&x=%20" }, invalid},
		"query":                {func(r *http.Request) { r.RequestURI += "&y=1" }, invalid},
		"method":               {func(r *http.Request) { r.Method = "PUT" }, invalid},
		"other server":         {func(r *http.Request) { r.RequestURI = "https://other.example/" }, mismatch},
		"asterisk":             {func(r *http.Request) { r.RequestURI = "*" }, mismatch},
		"proxy's form":         {func(r *http.Request) { r.RequestURI = benchOrigin + r.RequestURI }, ""},
		"host":                 {func(r *http.Request) { r.Host = "other.example" }, ""},
		"purpose":              {field("PEAC-Purpose", "train"), invalid},
		"purpose twice":        {func(r *http.Request) { r.Header.Add("PEAC-Purpose", "train") }, invalid},
		"receipt added":        {field("PEAC-Receipt", "x"), mismatch},
		"content type":         {field("Content-Type", "text/plain"), invalid},
		"content type removed": {func(r *http.Request) { r.Header.Del("Content-Type") }, mismatch},
		"attestation added":    {field(Header, "e30"), malformed},
		"no signature":         {func(r *http.Request) { r.Header.Del("Signature") }, malformed},
		"two signatures":       {func(r *http.Request) { r.Header.Add("Signature", "b=:AA==:") }, malformed},
		"two signatures and inputs": {both(func(r *http.Request) { r.Header.Add("Signature", "b=:AA==:") }, func(r *http.Request) {
			r.Header.Add("Signature-Input", "b=()")
		}), malformed},
		"other label":           {replace("Signature", "sig1", "sig2"), malformed},
		"signature is a text":   {field("Signature", `sig1="x"`), malformed},
		"signature is empty":    {field("Signature", "sig1=::"), invalid},
		"other key":             {replace("Signature-Input", "bot:alice-ed", "bot:bob-ed"), invalid},
		"key of other kind":     {replace("Signature-Input", "bot:alice-ed", "bot:alice-ec"), invalid},
		"unknown key":           {replace("Signature-Input", "bot:alice-ed", "x"), receipt.CodeIdentityKeyUnknown},
		"certificate as key":    {replace("Signature-Input", "bot:alice-ed", "bot:alice-tls"), invalid},
		"algorithm":             {replace("Signature-Input", `"ed25519"`, `"hmac-sha256"`), invalid},
		"algorithm is a number": {replace("Signature-Input", `"ed25519"`, `1`), malformed},
		"algorithm left out":    {replace("Signature-Input", `;alg="ed25519"`, ``), invalid},
		"key is a number":       {replace("Signature-Input", `"bot:alice-ed"`, `5`), malformed},
		"created is a text":     {replace("Signature-Input", `created=`, `created="x";was=`), malformed},
		"expires is a text":     {replace("Signature-Input", `expires=`, `expires="x";was=`), malformed},
		"no nonce":              {replace("Signature-Input", `nonce=`, `other=`), malformed},
		"other nonce":           {replace("Signature-Input", `nonce="`, `nonce="x`), invalid},
		"long nonce":            {replace("Signature-Input", `nonce="`, `nonce="`+strings.Repeat("x", 257)), malformed},
		"long key id":           {replace("Signature-Input", `keyid="`, `keyid="`+strings.Repeat("x", 257)), malformed},
		"component in capitals": {replace("Signature-Input", `"content-digest"`, `"Content-Digest"`), malformed},
		"component twice":       {replace("Signature-Input", `"content-digest"`, `"content-type"`), malformed},
		"component is a number": {replace("Signature-Input", `"content-digest"`, `1`), malformed},
		"component's parameter": {replace("Signature-Input", `"content-type"`, `"content-type";sf`), unsupported},
		"absent component":      {replace("Signature-Input", `"content-type"`, `"content-type" "x-absent"`), mismatch},
		"quoted component":      {replace("Signature-Input", `"content-type"`, `"content-type" "a\"b"`), mismatch},
		"unknown derived":       {replace("Signature-Input", `"content-type"`, `"content-type" "@status"`), unsupported},
		"many components":       {replace("Signature-Input", `"@method"`, manyComponents()), malformed},
		"not a list":            {field("Signature-Input", "sig1=1"), malformed},
		"not a dictionary":      {field("Signature-Input", "("), malformed},
		"large input":           {field("Signature-Input", strings.Repeat("a", maxHeader+1)), malformed},
		"large signature":       {field("Signature", "sig1=:"+strings.Repeat("A", maxHeader)+":"), malformed},
	} {
		b := newBench(t, nil)
		r := wire(t, bare(t, b, MessageSignature))
		c.change(r)
		b.refused(t, name, r, c.want)
	}
}

func TestSignatureThatCoversTooLittleIsRefused(t *testing.T) {
	mismatch := receipt.CodeIdentityBindingMismatch
	for _, c := range []struct {
		query, components string
		want              receipt.Code
	}{
		{"?a", "@method @target-uri", ""},
		{"?a", "@method @authority @request-target", ""},
		{"?a", "@method @authority @path @query @scheme host", ""},
		{"", "@method @authority @path", ""},
		{"", "@method @authority @path @query", ""},
		{"?a", "@target-uri", mismatch},
		{"?a", "@method @authority @path", mismatch},
		{"?a", "@method @authority @query", mismatch},
		{"?a", "@method @path @query", mismatch},
		{"?a", "@method @request-target", mismatch},
		{"?a", "@method", mismatch},
	} {
		b := newBench(t, nil)
		req, err := http.NewRequest(http.MethodGet, benchOrigin+"/x"+c.query, nil)
		if err != nil {
			t.Fatal(err)
		}
		signBare(t, b, req, "", strings.Fields(c.components), nil)
		b.refused(t, c.query+" "+c.components, wire(t, req), c.want)
	}
	b := newBench(t, nil)
	req := post(t, benchOrigin, "body")
	signBare(t, b, req, "", []string{"@method", "@target-uri", "content-type", "peac-purpose"}, nil)
	b.refused(t, "body without digest", wire(t, req), mismatch)
	req = post(t, benchOrigin, "body")
	signBare(t, b, req, "body", []string{"@method", "@target-uri", "content-type", "peac-purpose"}, nil)
	b.refused(t, "digest that is not covered", wire(t, req), mismatch)
}

func TestSignatureThatNamesAnotherAlgorithmIsRefused(t *testing.T) {
	for name, want := range map[string]receipt.Code{
		"ed25519": "", "ecdsa-p256-sha256": receipt.CodeIdentitySignatureInvalid, "hmac-sha256": receipt.CodeIdentitySignatureInvalid,
	} {
		b := newBench(t, nil)
		req := post(t, benchOrigin, "body")
		signBare(t, b, req, "body", []string{"@method", "@target-uri", "content-digest", "content-type", "peac-purpose"}, func(s *signature) {
			s.input.Params.Add("alg", name)
		})
		b.refused(t, name, wire(t, req), want)
	}
}

// manyComponents are one more than may be covered.
func manyComponents() string {
	names := `"@method"`
	for i := range maxComponents {
		names += fmt.Sprintf(" %q", fmt.Sprint("a", i))
	}
	return names
}

func TestSignatureEndsWhenItSays(t *testing.T) {
	for _, c := range []struct {
		after time.Duration
		want  receipt.Code
	}{{40 * time.Second, ""}, {41 * time.Second, receipt.CodeIdentityBindingStale}} {
		b := newBench(t, nil)
		req := post(t, benchOrigin, "body")
		signBare(t, b, req, "body", []string{"@method", "@target-uri", "content-digest", "content-type", "peac-purpose"}, func(s *signature) {
			s.input.Params.Add("expires", b.clock.now().Add(10*time.Second).Unix())
		})
		b.clock.move(c.after)
		b.refused(t, c.after.String(), wire(t, req), c.want)
	}
}

func TestSignatureAndAttestationBelongTogether(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Attestation)
		want   receipt.Code
	}{
		"claim":     {func(a *Attestation) { a.Evidence.Capabilities = []string{"pay"} }, receipt.CodeIdentitySignatureInvalid},
		"agent":     {func(a *Attestation) { a.Evidence.AgentID = "bot:bob" }, receipt.CodeIdentitySignatureInvalid},
		"key":       {func(a *Attestation) { a.Evidence.Proof.KeyID = "x" }, receipt.CodeIdentityBindingMismatch},
		"algorithm": {func(a *Attestation) { a.Evidence.Proof.Algorithm = "ES256" }, receipt.CodeIdentitySignatureInvalid},
		"no such":   {func(a *Attestation) { a.Evidence.Proof.Algorithm = "HS256" }, receipt.CodeIdentityProofUnsupported},
	} {
		b := newBench(t, nil)
		req := b.signed(t, MessageSignature, "body")
		attestation(t, req, c.change)
		b.refused(t, name, wire(t, req), c.want)
	}
	b := newBench(t, nil)
	req := b.signed(t, MessageSignature, "body")
	req.Header.Del(Header)
	b.refused(t, "attestation removed", wire(t, req), receipt.CodeIdentityBindingMismatch)
	client := b.ring.client(b.clock, "-ed")
	client.Evidence.AgentID = "bot:bob" // signed with a key of alice
	req = post(t, benchOrigin, "body")
	if err := client.Sign(req, MessageSignature); err != nil {
		t.Fatal(err)
	}
	b.refused(t, "another agent's name", wire(t, req), receipt.CodeIdentityKeyUnknown)
}

// body replaces a request's body.
func body(text string) func(*http.Request) {
	return func(r *http.Request) {
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(text)), int64(len(text))
	}
}

func both(first, second func(*http.Request)) func(*http.Request) {
	return func(r *http.Request) {
		first(r)
		second(r)
	}
}
