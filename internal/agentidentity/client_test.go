package agentidentity

import (
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
)

func TestRequestCanBeSignedAgainAndByAnotherMethod(t *testing.T) {
	b := newBench(t, nil)
	req := post(t, benchOrigin, "body")
	client := b.ring.client(b.clock, "-ed")
	for _, method := range []Method{JWKThumbprint, MessageSignature, DPoP, MessageSignature, JWKThumbprint} {
		if err := client.Sign(req, method); err != nil {
			t.Fatal(err)
		}
		b.refused(t, string(method), wire(t, req), "")
	}
	if err := b.ring.client(b.clock, "-tls").Sign(req, MTLS); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{NonceHeader, "DPoP", "Signature", "Signature-Input", "Content-Digest"} {
		if req.Header.Get(name) != "" {
			t.Errorf("%s of an earlier proof is left", name)
		}
	}
}

func TestRequestIsSignedForTheHostThatItNames(t *testing.T) {
	b := newBench(t, nil)
	for _, method := range signingMethods {
		req := post(t, "https://10.0.0.1:8443", "body")
		req.Host = "Venue.Example:443"
		if err := b.ring.client(b.clock, "-ec").Sign(req, method); err != nil {
			t.Fatal(err)
		}
		b.refused(t, string(method), wire(t, req), "")
	}
}

func TestSigningLeavesTheBodyAsItWas(t *testing.T) {
	b := newBench(t, nil)
	for _, method := range signingMethods {
		req := post(t, benchOrigin, "")
		req.Body, req.ContentLength, req.GetBody = io.NopCloser(strings.NewReader("streamed")), -1, nil
		if err := b.ring.client(b.clock, "-ed").Sign(req, method); err != nil {
			t.Fatal(err)
		}
		r := wire(t, req)
		b.refused(t, string(method), r, "")
		if body, err := io.ReadAll(r.Body); string(body) != "streamed" || err != nil {
			t.Errorf("%s: %q, %v", method, body, err)
		}
		get, err := http.NewRequest("", benchOrigin, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := b.ring.client(b.clock, "-ed").Sign(get, method); err != nil {
			t.Fatal(err)
		}
		b.refused(t, string(method)+" without a body", wire(t, get), "")
	}
}

func TestClientThatCannotSignSaysSo(t *testing.T) {
	b := newBench(t, nil)
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		method Method
		change func(*Client, *http.Request)
	}{
		"no key":         {MessageSignature, func(c *Client, _ *http.Request) { c.Key = nil }},
		"rsa":            {DPoP, func(c *Client, _ *http.Request) { c.Key = rsaKey }},
		"no certificate": {MTLS, func(c *Client, _ *http.Request) { c.Certificate = nil }},
		"no method":      {"x", func(*Client, *http.Request) {}},
		"no issuer":      {MessageSignature, func(c *Client, _ *http.Request) { c.Issuer = "" }},
		"no key id":      {DPoP, func(c *Client, _ *http.Request) { c.KeyID = "" }},
		"no agent":       {JWKThumbprint, func(c *Client, _ *http.Request) { c.Evidence.AgentID = "" }},
		"large": {JWKThumbprint, func(c *Client, _ *http.Request) {
			c.Evidence.Metadata = []byte(`{"a":"` + strings.Repeat("x", maxHeader) + `"}`)
		}},
		"no host":      {MessageSignature, func(_ *Client, r *http.Request) { r.URL.Host = "" }},
		"broken body":  {JWKThumbprint, func(_ *Client, r *http.Request) { r.Body = io.NopCloser(iotest.ErrReader(io.ErrUnexpectedEOF)) }},
		"broken body,": {MessageSignature, func(_ *Client, r *http.Request) { r.Body = io.NopCloser(iotest.ErrReader(io.ErrUnexpectedEOF)) }},
	} {
		client, req := b.ring.client(b.clock, "-ed"), post(t, benchOrigin, "body")
		req.Host = ""
		c.change(client, req)
		if err := client.Sign(req, c.method); !errors.Is(err, ErrClient) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestBodyThatEndsEarlyIsRefused(t *testing.T) {
	b := newBench(t, nil)
	for _, method := range []Method{MessageSignature, JWKThumbprint} {
		r := wire(t, b.signed(t, method, "body"))
		r.Body = io.NopCloser(io.MultiReader(strings.NewReader("body"), iotest.ErrReader(io.ErrUnexpectedEOF)))
		b.refused(t, string(method), r, "E_IDENTITY_BINDING_MISMATCH")
		r = wire(t, b.signed(t, method, "body"))
		r.Body = http.MaxBytesReader(nil, r.Body, 3)
		b.refused(t, string(method), r, "E_PAYLOAD_TOO_LARGE")
		r = wire(t, b.signed(t, method, ""))
		r.Body, r.ContentLength = http.NoBody, 0
		b.refused(t, string(method), r, "")
	}
}
