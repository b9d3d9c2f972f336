package agentidentity

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/parleykit/parley/protocol/receipt"
)

func TestEveryMethodAndAlgorithmProvesTheAgentToTheHandler(t *testing.T) {
	b, url, client := serve(t, nil)
	for _, c := range []struct {
		method Method
		key    string
		strip  bool // the attestation
	}{
		{MessageSignature, "-ed", false},
		{MessageSignature, "-ec", false},
		{DPoP, "-ed", false},
		{DPoP, "-ec", false},
		{DPoP, "-ec", true},
		{MTLS, "-tls", false},
		{MTLS, "-tls", true},
		{JWKThumbprint, "-ed", false},
		{JWKThumbprint, "-ec", false},
	} {
		req := post(t, url, `{"vote":"agree"}`)
		if err := b.ring.client(b.clock, c.key).Sign(req, c.method); err != nil {
			t.Fatal(err)
		}
		if c.strip {
			req.Header.Del(Header)
		}
		resp, answer := do(t, client, req)
		var got struct {
			Identity Identity
			Body     string
		}
		if err := json.Unmarshal(answer, &got); err != nil || resp.StatusCode != 200 || got.Body != `{"vote":"agree"}` {
			t.Fatalf("%v: %d %s %v", c, resp.StatusCode, answer, err)
		}
		attestation := got.Identity.Attestation
		if (attestation == nil) != c.strip || attestation != nil && attestation.Evidence.AgentID != "bot:alice" {
			t.Errorf("%v: attestation %v", c, attestation)
		}
		hash := 64
		if c.method == MTLS {
			hash = 0
		}
		if len(got.Identity.BindingHash) != hash || len(got.Identity.Thumbprint) != thumbprintLength || !got.Identity.VerifiedAt.Equal(start) {
			t.Errorf("%v: %+v", c, got.Identity)
		}
		want := Identity{Agent: "bot:alice", KeyID: "bot:alice" + c.key, Method: c.method, Covered: c.method == MessageSignature}
		got.Identity.Attestation, got.Identity.Thumbprint, got.Identity.BindingHash = nil, "", ""
		got.Identity.VerifiedAt = time.Time{}
		if diff := cmp.Diff(want, got.Identity); diff != "" {
			t.Errorf("%v: %s", c, diff)
		}
	}
}

// brokenDirectory cannot be asked.
type brokenDirectory struct{}

func (brokenDirectory) Find(context.Context, Method, string) (Key, error) {
	return Key{}, errors.New("connection refused")
}

// changedKeys is a directory whose keys are changed on the way out.
type changedKeys struct {
	Directory
	change func(*Key)
}

func (c changedKeys) Find(ctx context.Context, method Method, id string) (Key, error) {
	key, err := c.Directory.Find(ctx, method, id)
	c.change(&key)
	return key, err
}

func change(f func(*Key)) func(*Options) {
	return func(o *Options) { o.Directory = changedKeys{o.Directory, f} }
}

func TestEachCodeIsAnsweredWithItsStatusAndCounted(t *testing.T) {
	tests := map[receipt.Code]struct {
		options func(*Options)
		spoil   func(t *testing.T, req *http.Request)
	}{
		receipt.CodeIdentityMissing: {spoil: func(t *testing.T, req *http.Request) {
			attestation(t, req, func(a *Attestation) { a.Evidence.Proof = nil })
		}},
		receipt.CodeIdentityInvalidFormat: {spoil: func(t *testing.T, req *http.Request) {
			attestation(t, req, func(a *Attestation) { a.Type = "other" })
		}},
		receipt.CodeIdentityExpired: {spoil: func(t *testing.T, req *http.Request) {
			attestation(t, req, func(a *Attestation) { a.ExpiresAt = start.Add(-31 * time.Second).UTC().Format(time.RFC3339) })
		}},
		receipt.CodeIdentityNotYetValid: {spoil: func(t *testing.T, req *http.Request) {
			attestation(t, req, func(a *Attestation) { a.IssuedAt = start.Add(31 * time.Second).UTC().Format(time.RFC3339) })
		}},
		receipt.CodeIdentitySignatureInvalid: {spoil: func(t *testing.T, req *http.Request) {
			attestation(t, req, func(a *Attestation) { a.Evidence.Proof.Signature = strings.Repeat("A", 86) })
		}},
		receipt.CodeIdentityKeyUnknown: {spoil: func(t *testing.T, req *http.Request) {
			attestation(t, req, func(a *Attestation) { a.Evidence.Proof.KeyID = "other" })
		}},
		receipt.CodeIdentityKeyExpired: {options: change(func(k *Key) { k.NotAfter = start.Add(-time.Second) })},
		receipt.CodeIdentityKeyRevoked: {options: change(func(k *Key) { k.Revoked = true })},
		receipt.CodeIdentityBindingMismatch: {spoil: func(_ *testing.T, req *http.Request) {
			req.URL.Path, req.URL.RawPath = "/other", ""
		}},
		receipt.CodeIdentityBindingStale:         {options: func(o *Options) { o.Now = func() time.Time { return start.Add(301 * time.Second) } }},
		receipt.CodeIdentityBindingFuture:        {options: func(o *Options) { o.Now = func() time.Time { return start.Add(-31 * time.Second) } }},
		receipt.CodeIdentityProofUnsupported:     {options: func(o *Options) { o.Methods = nil }},
		receipt.CodeIdentityDirectoryUnavailable: {options: func(o *Options) { o.Directory = brokenDirectory{} }},
		receipt.CodePayloadTooLarge:              {options: func(o *Options) { o.MaxBody = 3 }},
	}
	for _, code := range codes {
		test, ok := tests[code]
		if !ok {
			t.Errorf("%s has no test", code)
			continue
		}
		registry := prometheus.NewRegistry()
		b, url, client := serve(t, func(o *Options) {
			o.Registerer = registry
			if test.options != nil {
				test.options(o)
			}
		})
		req := post(t, url, "body")
		if err := b.ring.client(b.clock, "-ed").Sign(req, JWKThumbprint); err != nil {
			t.Fatal(err)
		}
		if test.spoil != nil {
			test.spoil(t, req)
		}
		resp, answer := do(t, client, req)
		var problem struct {
			Status int
			Code   receipt.Code
			Detail string
		}
		err := json.Unmarshal(answer, &problem)
		if err != nil || problem.Code != code || problem.Detail == "" || problem.Status != code.Explain().Status || resp.StatusCode != problem.Status {
			t.Errorf("%s: %d %s", code, resp.StatusCode, answer)
		}
		if challenged := len(resp.Header.Values("WWW-Authenticate")) > 0; challenged != (resp.StatusCode == 401) {
			t.Errorf("%s: status %d, challenge %v", code, resp.StatusCode, challenged)
		}
		method := JWKThumbprint
		if code == receipt.CodeIdentityMissing || code == receipt.CodeIdentityInvalidFormat {
			method = noMethod
		}
		if n := testutil.ToFloat64(b.metrics.verifications.WithLabelValues(string(method), result(code))); n != 1 {
			t.Errorf("%s: counted %v times", code, n)
		}
	}
}

func TestMetricsAreClosedAndWellNamed(t *testing.T) {
	registry := prometheus.NewRegistry()
	b := newBench(t, func(o *Options) { o.Registerer = registry })
	count := func() int {
		n, err := testutil.GatherAndCount(registry)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := count()
	b.refused(t, "no proof", wire(t, post(t, benchOrigin, "")), receipt.CodeIdentityMissing)
	req := b.signed(t, JWKThumbprint, "x")
	attestation(t, req, func(a *Attestation) { a.Evidence.Proof.Method = "x509" })
	b.refused(t, "unknown method", wire(t, req), receipt.CodeIdentityProofUnsupported)
	b.refused(t, "good", wire(t, b.signed(t, DPoP, "x")), "")
	if after := count(); after != before || before != 5*(len(codes)+1) {
		t.Errorf("%d series, then %d", before, after)
	}
	if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) > 0 {
		t.Errorf("%v %v", problems, err)
	}
}

func TestOptionsOutOfRangeAreRefused(t *testing.T) {
	keys, err := NewKeys()
	if err != nil {
		t.Fatal(err)
	}
	for name, opts := range map[string]Options{
		"no origin":      {Directory: keys},
		"origin's path":  {Origin: benchOrigin + "/x", Directory: keys},
		"no directory":   {Origin: benchOrigin},
		"short age":      {Origin: benchOrigin, Directory: keys, MaxAge: 59 * time.Second},
		"long age":       {Origin: benchOrigin, Directory: keys, MaxAge: 601 * time.Second},
		"long skew":      {Origin: benchOrigin, Directory: keys, Skew: 301 * time.Second},
		"negative body":  {Origin: benchOrigin, Directory: keys, MaxBody: -1},
		"unknown method": {Origin: benchOrigin, Directory: keys, Methods: []Method{"none"}},
	} {
		if _, err := New(opts); !errors.Is(err, ErrOptions) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := New(Options{Origin: benchOrigin, Directory: keys, MaxAge: 600 * time.Second, Skew: 300 * time.Second}); err != nil {
		t.Error(err)
	}
}
