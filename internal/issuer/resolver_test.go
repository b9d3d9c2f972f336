package issuer_test

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/parleykit/parley/internal/egress"
	"github.com/parleykit/parley/internal/issuer"
	"github.com/parleykit/parley/internal/issuer/issuertest"
	"github.com/parleykit/parley/protocol/discovery"
	"github.com/parleykit/parley/protocol/receipt"
)

func TestVerify_findsTheKeyThroughTheIssuersDocument(t *testing.T) {
	f, clock := newForeign(t), newClock()
	verified, err := f.Resolver(t, issuer.ResolverOptions{Now: clock.Now}).Verify(t.Context(), f.receipt(t, clock, "k1"), receipt.VerifyOptions{})
	if err != nil || verified.Claims.Issuer != f.Origin || verified.KeyID != "k1" {
		t.Fatalf("%+v, %v", verified, err)
	}
	if n := f.times("/.well-known/jwks.json") + f.times("/jwks.json"); n != 0 {
		t.Error("keys were looked for where the issuer does not say")
	}
}

// hostile is an issuer that does one thing wrong.
type hostile struct {
	spoil func(*testing.T, *foreign)
	want  receipt.Code
}

// endless sends a body without end until the client goes.
func endless(w http.ResponseWriter, r *http.Request) {
	for r.Context().Err() == nil {
		if _, err := w.Write([]byte(strings.Repeat(" ", 32<<10))); err != nil {
			return
		}
	}
}

// silent sends a header and then nothing until the client goes.
func silent(w http.ResponseWriter, r *http.Request) {
	w.WriteHeader(http.StatusOK)
	_ = http.NewResponseController(w).Flush()
	<-r.Context().Done()
}

func html(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html")
	_, _ = w.Write([]byte("<!doctype html><title>Welcome</title>"))
}

func manyKeys(n int) string {
	var keys []string
	for i := range n {
		keys = append(keys, fmt.Sprintf(`{"kty":"OKP","crv":"X25519","kid":"%d"}`, i))
	}
	return `{"keys":[` + strings.Join(keys, ",") + `]}`
}

var hostiles = map[string]hostile{
	"no document":                 {func(t *testing.T, f *foreign) { f.answer(discovery.IssuerPath, nil) }, receipt.CodeVerifyIssuerConfigMissing},
	"an error":                    {func(t *testing.T, f *foreign) { f.answer(discovery.IssuerPath, status(500)) }, receipt.CodeVerifyKeyFetchFailed},
	"a web page for the document": {func(t *testing.T, f *foreign) { f.answer(discovery.IssuerPath, html) }, receipt.CodeVerifyIssuerConfigInvalid},
	"an empty document":           {func(t *testing.T, f *foreign) { f.answer(discovery.IssuerPath, json200("")) }, receipt.CodeVerifyIssuerConfigInvalid},
	"an endless document":         {func(t *testing.T, f *foreign) { f.answer(discovery.IssuerPath, endless) }, receipt.CodeVerifyIssuerConfigInvalid},
	"a silent server":             {func(t *testing.T, f *foreign) { f.answer(discovery.IssuerPath, silent) }, receipt.CodeVerifyKeyFetchTimeout},
	"another issuer's document": {func(t *testing.T, f *foreign) {
		f.answer(discovery.IssuerPath, json200(f.config(map[string]any{"issuer": "https://bank.example"})))
	}, receipt.CodeVerifyIssuerMismatch},
	"keys over http": {func(t *testing.T, f *foreign) {
		f.answer(discovery.IssuerPath, json200(f.config(map[string]any{"jwks_uri": "http://" + strings.TrimPrefix(f.Origin, "https://") + keySetPath})))
	}, receipt.CodeVerifyJWKSURIInvalid},
	"keys at a private address": {func(t *testing.T, f *foreign) {
		f.answer(discovery.IssuerPath, json200(f.config(map[string]any{"jwks_uri": "https://10.0.0.1/keys"})))
	}, receipt.CodeVerifyKeyFetchBlocked},
	"keys at a metadata service": {func(t *testing.T, f *foreign) {
		f.answer(discovery.IssuerPath, json200(f.config(map[string]any{"jwks_uri": "https://169.254.169.254/latest/meta-data"})))
	}, receipt.CodeVerifyKeyFetchBlocked},
	"a redirect to a private address": {func(t *testing.T, f *foreign) {
		f.answer(discovery.IssuerPath, redirect("https://192.168.0.1/"))
	}, receipt.CodeVerifyKeyFetchBlocked},
	"a redirect of keys to a private address": {func(t *testing.T, f *foreign) {
		f.answer(keySetPath, redirect("https://[fd00::1]/"))
	}, receipt.CodeVerifyKeyFetchBlocked},
	"a redirect to http": {func(t *testing.T, f *foreign) {
		f.answer(discovery.IssuerPath, redirect("http://example.com/"))
	}, receipt.CodeVerifyInsecureScheme},
	"redirects without end": {func(t *testing.T, f *foreign) {
		f.answer(discovery.IssuerPath, redirect(discovery.IssuerPath))
	}, receipt.CodeVerifyKeyFetchFailed},
	"no keys":              {func(t *testing.T, f *foreign) { f.answer(keySetPath, nil) }, receipt.CodeVerifyKeyFetchFailed},
	"a web page for keys":  {func(t *testing.T, f *foreign) { f.answer(keySetPath, html) }, receipt.CodeVerifyJWKSInvalid},
	"keys of another form": {func(t *testing.T, f *foreign) { f.answer(keySetPath, json200(`[]`)) }, receipt.CodeVerifyJWKSInvalid},
	"endless keys":         {func(t *testing.T, f *foreign) { f.answer(keySetPath, endless) }, receipt.CodeVerifyJWKSTooLarge},
	"silent keys":          {func(t *testing.T, f *foreign) { f.answer(keySetPath, silent) }, receipt.CodeVerifyKeyFetchTimeout},
	"21 keys":              {func(t *testing.T, f *foreign) { f.answer(keySetPath, json200(manyKeys(21))) }, receipt.CodeVerifyJWKSTooManyKeys},
	"a private key": {func(t *testing.T, f *foreign) {
		f.answer(keySetPath, json200(`{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"k1","d":"AAAA"}]}`))
	}, receipt.CodeVerifyJWKSInvalid},
	"one name for two keys": {func(t *testing.T, f *foreign) {
		f.answer(keySetPath, json200(strings.Replace(freshKeySet(t, "k1"), "]}", ","+strings.TrimPrefix(freshKeySet(t, "k1"), `{"keys":[`), 1)))
	}, receipt.CodeKidReuse},
	"another key":         {func(t *testing.T, f *foreign) { f.answer(keySetPath, json200(freshKeySet(t, "k1"))) }, receipt.CodeInvalidSignature},
	"keys of other names": {func(t *testing.T, f *foreign) { f.answer(keySetPath, json200(freshKeySet(t, "k2"))) }, receipt.CodeKeyNotFound},
	"a revoked key": {func(t *testing.T, f *foreign) {
		f.answer(discovery.IssuerPath, json200(f.config(map[string]any{
			"revoked_keys": []map[string]string{{"kid": "k1", "revoked_at": "2030-01-01T00:00:00Z"}},
		})))
	}, receipt.CodeRevokedKey},
}

// freshKeySet is a set with a fresh key.
func freshKeySet(t *testing.T, kid string) string {
	t.Helper()
	return keySet(t, discovery.Key{ID: kid, Public: newKey(t).Public().(ed25519.PublicKey)})
}

func TestVerify_refusesHostileIssuersWithTheirCode(t *testing.T) {
	for name, h := range hostiles {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, clock := newForeign(t), newClock()
			h.spoil(t, f)
			r := f.Resolver(t, issuer.ResolverOptions{Now: clock.Now})
			if h.want == receipt.CodeVerifyKeyFetchTimeout {
				r.SetTimeout(200 * time.Millisecond)
			}
			_, err := r.Verify(t.Context(), f.receipt(t, clock, "k1"), receipt.VerifyOptions{})
			wantCode(t, err, h.want)
		})
	}
}

func TestVerify_refusesAKeySetOfAThousandKeys(t *testing.T) {
	f, clock := newForeign(t), newClock()
	f.answer(keySetPath, json200(manyKeys(1000)))
	_, err := f.Resolver(t, issuer.ResolverOptions{Now: clock.Now}).Key(t.Context(), f.Origin, "k1")
	if code := string(receipt.CodeOf(err)); !strings.HasPrefix(code, "E_VERIFY_JWKS_") {
		t.Error(err)
	}
}

func TestVerify_followsThreeRedirects(t *testing.T) {
	f, clock := newForeign(t), newClock()
	f.answer(discovery.IssuerPath, redirect("/1"))
	f.answer("/1", redirect("/2"))
	f.answer("/2", redirect("/3"))
	f.answer("/3", json200(f.config(nil)))
	if _, err := f.Resolver(t, issuer.ResolverOptions{Now: clock.Now}).Key(t.Context(), f.Origin, "k1"); err != nil {
		t.Error(err)
	}
	f.answer("/3", redirect("/4"))
	f.answer("/4", json200(f.config(nil)))
	_, err := f.Resolver(t, issuer.ResolverOptions{Now: clock.Now}).Key(t.Context(), f.Origin, "k1")
	wantCode(t, err, receipt.CodeVerifyKeyFetchFailed)
}

func TestVerify_reachesNoLoopbackIssuerFromAPublicServer(t *testing.T) {
	f, clock := newForeign(t), newClock()
	allow, err := egress.ParseAllow("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	for name, dialer := range map[string]*egress.Dialer{
		"none": egress.New(egress.Options{}), "one for others": egress.New(egress.Options{Allow: []egress.Allow{allow}}),
	} {
		origin := "https://127.0.0.1" + f.Origin[strings.LastIndexByte(f.Origin, ':'):]
		_, err = f.Resolver(t, issuer.ResolverOptions{Now: clock.Now, Dialer: dialer}).Key(t.Context(), origin, "k1")
		if receipt.CodeOf(err) != receipt.CodeVerifyKeyFetchBlocked || !strings.Contains(err.Error(), "loopback") {
			t.Errorf("with the exception %s: %v", name, err)
		}
	}
	if n := f.times(discovery.IssuerPath); n != 0 {
		t.Errorf("the issuer was asked %d times", n)
	}
}

func TestVerify_believesNoForeignCertificate(t *testing.T) {
	f, clock := newForeign(t), newClock()
	r, err := issuer.NewResolver(issuer.ResolverOptions{Dialer: issuertest.Dialer(), Now: clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	_, err = r.Key(t.Context(), f.Origin, "k1")
	wantCode(t, err, receipt.CodeVerifyKeyFetchFailed)
}

func TestVerify_waitsForNoServerThatTakesConnectionsOnly(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	r := issuertest.StartHost(t, http.NotFoundHandler()).Resolver(t, issuer.ResolverOptions{})
	r.SetTimeout(200 * time.Millisecond)
	_, err = r.Key(t.Context(), "https://"+listener.Addr().String(), "k1")
	wantCode(t, err, receipt.CodeVerifyKeyFetchTimeout)
}

func TestVerify_endsWithItsCallerAndLeavesTheOthersTheirAnswer(t *testing.T) {
	f, clock := newForeign(t), newClock()
	held, proceed := make(chan struct{}), make(chan struct{})
	f.answer(discovery.IssuerPath, func(w http.ResponseWriter, r *http.Request) {
		close(held)
		<-proceed
		json200(f.config(nil))(w, r)
	})
	r := f.Resolver(t, issuer.ResolverOptions{Now: clock.Now})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-held; cancel() }()
	if _, err := r.Key(ctx, f.Origin, "k1"); !errors.Is(err, context.Canceled) {
		t.Errorf("the caller that left: %v", err)
	}
	close(proceed)
	if _, err := r.Key(t.Context(), f.Origin, "k1"); err != nil {
		t.Error(err)
	}
	if n := f.times(discovery.IssuerPath); n != 1 {
		t.Errorf("%d questions", n)
	}
}

func TestVerify_asksNobodyForWhatItNeedNot(t *testing.T) {
	f, clock := newForeign(t), newClock()
	r := f.Resolver(t, issuer.ResolverOptions{Now: clock.Now})
	good := f.receipt(t, clock, "k1")
	_, err := r.Verify(t.Context(), good[:len(good)/2], receipt.VerifyOptions{})
	wantCode(t, err, receipt.CodeInvalidFormat)
	_, err = r.Verify(t.Context(), good, receipt.VerifyOptions{Issuer: "https://bank.example"})
	wantCode(t, err, receipt.CodeInvalidIssuer)
	_, err = r.Key(t.Context(), "http://example.com", "k1")
	wantCode(t, err, receipt.CodeVerifyInsecureScheme)
	_, err = r.Key(t.Context(), "did:web:example.com", "k1")
	wantCode(t, err, receipt.CodeKeyNotFound)
	if n := f.times(discovery.IssuerPath); n != 0 {
		t.Errorf("the issuer was asked %d times", n)
	}
}

func TestVerify_takesADIDKeyAtItsWord(t *testing.T) {
	f, clock := newForeign(t), newClock()
	claims := act()
	claims.Issuer, claims.IssuedAt, claims.ID = receipt.DIDKey(f.public()), clock.Now().Unix(), "1"
	r := f.Resolver(t, issuer.ResolverOptions{Now: clock.Now})
	if _, err := r.Verify(t.Context(), sign(t, claims, "any", f.key), receipt.VerifyOptions{}); err != nil {
		t.Error(err)
	}
	_, err := r.Verify(t.Context(), sign(t, claims, "any", newKey(t)), receipt.VerifyOptions{})
	wantCode(t, err, receipt.CodeInvalidSignature)
}

func TestVerify_believesPinnedKeysAndNoOthers(t *testing.T) {
	f, clock := newForeign(t), newClock()
	r := f.Resolver(t, issuer.ResolverOptions{Now: clock.Now, Pinned: map[string]discovery.KeySet{
		f.Origin: {{ID: "pinned", Public: f.public()}},
	}})
	if _, err := r.Verify(t.Context(), f.receipt(t, clock, "pinned"), receipt.VerifyOptions{}); err != nil {
		t.Error(err)
	}
	_, err := r.Verify(t.Context(), f.receipt(t, clock, "k1"), receipt.VerifyOptions{})
	wantCode(t, err, receipt.CodeKeyNotFound)
	if n := f.times(discovery.IssuerPath); n != 0 {
		t.Errorf("the issuer was asked %d times", n)
	}
}

func TestVerify_knowsTheOwnKeysWithoutANetwork(t *testing.T) {
	i := newIssuer(t, "https://parley.example", issuer.Options{})
	r, err := issuer.NewResolver(issuer.ResolverOptions{Dialer: egress.New(egress.Options{}), Own: i})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Verify(t.Context(), issue(t, i, act()).JWS, receipt.VerifyOptions{}); err != nil {
		t.Error(err)
	}
	_, err = r.Key(t.Context(), "https://parley.example", "unknown")
	wantCode(t, err, receipt.CodeKeyNotFound)
}

func TestPolicy_isReadAtEitherPlace(t *testing.T) {
	const text = "version: peac-policy/0.1\nusage: open\n"
	for _, path := range []string{discovery.PolicyPath, discovery.PolicyFallbackPath} {
		f, clock := newForeign(t), newClock()
		f.answer(path, json200(`{"version":"peac-policy/0.1","usage":"open"}`))
		r := f.Resolver(t, issuer.ResolverOptions{Now: clock.Now})
		for range 3 {
			policy, err := r.Policy(t.Context(), f.Origin)
			if err != nil || policy.Usage != discovery.UsageOpen {
				t.Errorf("%s: %+v, %v", path, policy, err)
			}
		}
		if n := f.times(path); n != 1 {
			t.Errorf("%s: asked %d times", path, n)
		}
		f.answer(path, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(text)) })
		clock.advance(time.Hour)
		if _, err := r.Policy(t.Context(), f.Origin); err != nil {
			t.Errorf("%s as YAML: %v", path, err)
		}
	}
}

func TestPolicy_isRefusedWithItsCode(t *testing.T) {
	for name, h := range map[string]struct {
		handler http.HandlerFunc
		want    receipt.Code
	}{
		"none":               {nil, receipt.CodePolicyNotFound},
		"an error":           {status(500), receipt.CodePolicyFetchFailed},
		"a web page":         {html, receipt.CodePolicyInvalid},
		"endless":            {endless, receipt.CodePolicyTooLarge},
		"silent":             {silent, receipt.CodePolicyTimeout},
		"private redirect":   {redirect("https://10.1.2.3/"), receipt.CodePolicySSRFBlocked},
		"redirect to http":   {redirect("http://example.com/"), receipt.CodePolicyInsecureScheme},
		"YAML with an alias": {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("a: &x 1\nb: *x\n")) }, receipt.CodePolicyYAMLInjection},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, clock := newForeign(t), newClock()
			f.answer(discovery.PolicyPath, h.handler)
			r := f.Resolver(t, issuer.ResolverOptions{Now: clock.Now})
			if h.want == receipt.CodePolicyTimeout {
				r.SetTimeout(200 * time.Millisecond)
			}
			_, err := r.Policy(t.Context(), f.Origin)
			wantCode(t, err, h.want)
		})
	}
	_, err := newForeign(t).Resolver(t, issuer.ResolverOptions{}).Policy(t.Context(), "http://example.com")
	wantCode(t, err, receipt.CodePolicyInsecureScheme)
}
