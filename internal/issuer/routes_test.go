package issuer_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parleykit/parley/internal/httpserver"
	"github.com/parleykit/parley/internal/issuer"
	"github.com/parleykit/parley/internal/issuer/issuertest"
	"github.com/parleykit/parley/internal/keys"
	"github.com/parleykit/parley/protocol/discovery"
	"github.com/parleykit/parley/protocol/receipt"
)

func TestRoutes_areInTheManual(t *testing.T) {
	page, err := os.ReadFile("../../docs/http.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rows, _ := strings.Cut(httpserver.Table(newIssuer(t, "https://parley.example", issuer.Options{}).Routes()), "|---|---|---|---|\n")
	for row := range strings.Lines(rows) {
		if !strings.Contains(string(page), row) {
			t.Errorf("docs/http.md does not hold the row\n%s", row)
		}
	}
}

// The server takes every route, in the form of its own.
func TestRoutes_clashWithNothing(t *testing.T) {
	server, err := httpserver.New(httpserver.Options{Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	if err := server.Handle(newIssuer(t, "https://parley.example", issuer.Options{}).Routes()...); err != nil {
		t.Error(err)
	}
}

func fetch(t *testing.T, client *http.Client, url string) (*http.Response, []byte) {
	t.Helper()
	response, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response, body
}

func TestDocuments_areWhatOthersRead(t *testing.T) {
	clock, daily := newClock(), int64(1000)
	policy := discovery.Policy{
		Usage: discovery.UsageConditional, Purposes: []string{"user_action", "search"}, Receipts: discovery.Required,
		Attribution: discovery.Optional, RateLimit: "5/second", DailyLimit: &daily, Contact: "ops@example.com", License: "CC-BY-4.0",
	}
	settings := issuer.Settings{
		Policy: policy, SecurityContact: "security@example.com",
		Revoked: []discovery.RevokedKey{{KeyID: "gone", RevokedAt: clock.Now(), Reason: discovery.RevokedSuperseded}},
	}
	s := issuertest.Start(t, issuer.Options{Now: clock.Now, Settings: settings})
	documents := map[string][]byte{}
	for path, contentType := range map[string]string{
		discovery.PolicyPath: "text/plain; charset=utf-8", discovery.PolicyFallbackPath: "text/plain; charset=utf-8",
		discovery.IssuerPath: "application/json", discovery.CapabilitiesPath: "application/json",
		issuer.KeySetPath: "application/jwk-set+json",
	} {
		response, body := fetch(t, s.Client, s.Origin+path)
		documents[path] = body
		want := http.Header{"Content-Type": {contentType}, "Cache-Control": {"max-age=300"}, "Access-Control-Allow-Origin": {"*"}}
		for name, values := range want {
			if diff := cmp.Diff(values, response.Header.Values(name)); diff != "" || response.StatusCode != http.StatusOK {
				t.Errorf("%s: status %d, %s: %s", path, response.StatusCode, name, diff)
			}
		}
	}
	got, err := discovery.ParsePolicy(documents[discovery.PolicyPath], "text/plain")
	if err != nil {
		t.Fatal(err)
	}
	policy.Version, policy.Digest = discovery.PolicyVersion, issue(t, s.Issuer, act()).Claims.Policy.Digest
	if diff := cmp.Diff(&policy, got); diff != "" {
		t.Errorf("the policy, which receipts are bound to: %s", diff)
	}
	document, err := discovery.ParseIssuer(documents[discovery.IssuerPath])
	if err != nil {
		t.Fatal(err)
	}
	wantDocument := &discovery.Issuer{
		Version: "peac-issuer/0.1", Issuer: s.Origin, JWKSURI: s.Origin + "/receipts/jwks.json", VerifyEndpoint: s.Origin + "/receipts/verify",
		ReceiptVersions: []string{"interaction-record+jwt"}, Algorithms: []string{"EdDSA"},
		SecurityContact: "security@example.com", RevokedKeys: settings.Revoked,
	}
	if diff := cmp.Diff(wantDocument, document); diff != "" {
		t.Error(diff)
	}
	set, err := discovery.ParseKeySet(documents[issuer.KeySetPath])
	if diff := cmp.Diff(s.Issuer.KeySet(), set); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	capabilities, err := discovery.ParseCapabilities(documents[discovery.CapabilitiesPath])
	if err != nil || capabilities.IssuerConfigURL != s.Origin+discovery.IssuerPath {
		t.Errorf("%+v, %v", capabilities, err)
	}
	if !bytes.Equal(documents[discovery.PolicyPath], documents[discovery.PolicyFallbackPath]) {
		t.Error("the two places of the policy differ")
	}
}

// serve answers one request without a network.
func serve(t *testing.T, i *issuer.Issuer, r *http.Request) *httptest.ResponseRecorder {
	t.Helper()
	mux := http.NewServeMux()
	for _, route := range i.Routes() {
		mux.Handle(route.Method+" "+route.Pattern, route.Handler)
	}
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, r)
	return w
}

func TestDIDIssuer_publishesNoDocumentThatNamesAnOrigin(t *testing.T) {
	i := newIssuer(t, "http://127.0.0.1:8417", issuer.Options{})
	get := func(path string) *httptest.ResponseRecorder {
		return serve(t, i, httptest.NewRequest(http.MethodGet, path, nil))
	}
	if w := get(discovery.IssuerPath); w.Code != http.StatusNotFound {
		t.Errorf("the issuer's document: %d", w.Code)
	}
	capabilities, err := discovery.ParseCapabilities(get(discovery.CapabilitiesPath).Body.Bytes())
	if err != nil || capabilities.IssuerConfigURL != "" {
		t.Errorf("%+v, %v", capabilities, err)
	}
	if policy := issue(t, i, act()).Claims.Policy; policy.URI != "" || policy.Digest == "" {
		t.Errorf("receipts are bound to %+v", policy)
	}
}

// verify posts a body to the endpoint.
func verify(t *testing.T, i *issuer.Issuer, body string) (int, issuer.Report) {
	t.Helper()
	w := serve(t, i, httptest.NewRequest(http.MethodPost, issuer.VerifyPath, strings.NewReader(body)))
	if w.Header().Get("Access-Control-Allow-Origin") != "*" || w.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("header %v", w.Header())
	}
	var report issuer.Report
	if err := json.Unmarshal(w.Body.Bytes(), &report); err != nil {
		t.Fatalf("%v: %s", err, w.Body)
	}
	return w.Code, report
}

func TestVerifyEndpoint_reportsOnReceiptsInEitherForm(t *testing.T) {
	i := newIssuer(t, "https://parley.example", issuer.Options{})
	issued := issue(t, i, act())
	want := issuer.Report{
		Verdict: issuer.VerdictValid, Reference: issued.Reference, KeyID: i.KeySet()[0].ID, Claims: &issued.Claims,
		Warnings: []receipt.Warning{{Code: receipt.WarnTypeUnregistered, Pointer: "/type"}}, PolicyBinding: receipt.PolicyVerified,
	}
	carrier, err := json.Marshal(receipt.NewCarrier(issued.JWS))
	if err != nil {
		t.Fatal(err)
	}
	for _, body := range []string{issued.JWS, issued.JWS + "\n", string(carrier)} {
		status, got := verify(t, i, body)
		if diff := cmp.Diff(want, got); diff != "" || status != http.StatusOK {
			t.Errorf("status %d: %s", status, diff)
		}
	}
	if err := i.Reconfigure(issuer.Settings{Policy: discovery.Policy{Usage: discovery.UsageOpen}}); err != nil {
		t.Fatal(err)
	}
	want.PolicyBinding = receipt.PolicyUnavailable
	if diff := cmp.Diff(want, i.Report(issued.JWS)); diff != "" {
		t.Errorf("under an earlier policy: %s", diff)
	}
}

func TestVerifyEndpoint_tellsTheFaultAndNoClaimsOfWhatDoesNotHold(t *testing.T) {
	i := newIssuer(t, "https://parley.example", issuer.Options{})
	jws := issue(t, i, act()).JWS
	signature := strings.LastIndexByte(jws, '.') + 1
	for body, want := range map[string]receipt.Code{
		jws[:signature] + strings.Repeat("A", len(jws)-signature): receipt.CodeInvalidSignature,
		jws[:signature]: receipt.CodeInvalidFormat,
		"hello":         receipt.CodeInvalidFormat,
	} {
		status, report := verify(t, i, body)
		wantReport := issuer.Report{
			Verdict: issuer.VerdictInvalid, Code: want, Pointer: report.Pointer, Detail: report.Detail,
			NextAction: want.Explain().NextAction, Reference: receipt.Reference(body),
		}
		if diff := cmp.Diff(wantReport, report); diff != "" || status != http.StatusOK || report.Detail == "" {
			t.Errorf("%.20s: status %d %s", body, status, diff)
		}
	}
}

func TestVerifyEndpoint_asksNobodyAboutReceiptsOfOthers(t *testing.T) {
	f, clock := newForeign(t), newClock()
	s := issuertest.Start(t, issuer.Options{Now: clock.Now})
	status, report := verify(t, s.Issuer, f.receipt(t, clock, "k1"))
	if status != http.StatusOK || report.Verdict != issuer.VerdictUndetermined || report.Code != receipt.CodeKeyNotFound {
		t.Errorf("status %d, %+v", status, report)
	}
	if n := f.times(discovery.IssuerPath); n != 0 {
		t.Errorf("the other issuer was asked %d times", n)
	}
	claims := act()
	claims.Issuer, claims.IssuedAt, claims.ID = receipt.DIDKey(f.public()), clock.Now().Unix(), "1"
	if _, report := verify(t, s.Issuer, sign(t, claims, "any", f.key)); report.Verdict != issuer.VerdictValid {
		t.Errorf("a did:key's receipt: %+v", report)
	}
}

func TestVerifyEndpoint_answersBadRequestsWithAProblem(t *testing.T) {
	s := issuertest.Start(t, issuer.Options{})
	reference, err := json.Marshal(receipt.Carrier{ReceiptRef: receipt.Reference("x")})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		body   string
		status int
		code   string
	}{
		"nothing":     {" \n", 400, "no_receipt"},
		"a reference": {string(reference), 400, "no_receipt"},
		"broken JSON": {"{", 400, "no_receipt"},
		"a carrier that contradicts itself": {
			`{"receipt_ref":"` + receipt.Reference("x") + `","receipt_jws":"a.b.c"}`, 400, "no_receipt",
		},
		"more than fits": {strings.Repeat("a", 262_145), 413, "too_large"},
	} {
		response, err := s.Client.Post(s.Origin+issuer.VerifyPath, "text/plain", strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		var problem struct {
			Status int
			Code   string
		}
		err = errors.Join(json.NewDecoder(response.Body).Decode(&problem), response.Body.Close())
		if err != nil || response.StatusCode != c.status || problem.Status != c.status || problem.Code != c.code ||
			response.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: %d %+v %v", name, response.StatusCode, problem, err)
		}
	}
	if status, report := verify(t, s.Issuer, strings.Repeat("a", 262_144)); status != http.StatusOK || report.Verdict != issuer.VerdictInvalid {
		t.Errorf("as much as fits: %d %+v", status, report)
	}
}

func TestVerifyEndpoint_isRationedByNetwork(t *testing.T) {
	clock := newClock()
	address := "2001:db8::1"
	i := newIssuer(t, "https://parley.example", issuer.Options{
		Now: clock.Now, ClientIP: func(*http.Request) netip.Addr { return netip.MustParseAddr(address) },
	})
	ask := func(from string) int {
		address = from
		return serve(t, i, httptest.NewRequest(http.MethodPost, issuer.VerifyPath, strings.NewReader("x"))).Code
	}
	for n := range issuer.CallBurst {
		if code := ask("2001:db8::1"); code != http.StatusOK {
			t.Fatalf("call %d: %d", n, code)
		}
	}
	if code := ask("2001:db8::2"); code != http.StatusTooManyRequests {
		t.Errorf("the neighbour in the /64: %d", code)
	}
	for _, other := range []string{"2001:db8:0:1::1", "192.0.2.1", "192.0.2.2"} {
		if code := ask(other); code != http.StatusOK {
			t.Errorf("%s: %d", other, code)
		}
	}
	clock.advance(time.Second)
	if code := ask("2001:db8::2"); code != http.StatusOK {
		t.Errorf("a second later: %d", code)
	}
}

// Whatever is sent, the answer is a report or a problem, and nothing but a
// receipt of the issuer or of a did:key is valid.
func FuzzVerifyEndpoint(f *testing.F) {
	dir, err := keys.Open(f.TempDir() + "/keys")
	if err != nil {
		f.Fatal(err)
	}
	origin, err := httpserver.ParseOrigin("https://parley.example")
	if err != nil {
		f.Fatal(err)
	}
	// A clock that leaps gives every call a full ration.
	var calls atomic.Int64
	i, err := issuer.New(issuer.Options{Keys: dir, Origin: origin, Now: func() time.Time {
		return time.Unix(1_800_000_000+60*calls.Add(1), 0)
	}})
	if err != nil {
		f.Fatal(err)
	}
	issued, err := i.Issue(act())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(issued.JWS)
	f.Add(`{"receipt_ref":"` + issued.Reference + `","receipt_jws":"` + issued.JWS + `"}`)
	f.Add("{")
	f.Add(" ")
	f.Fuzz(func(t *testing.T, body string) {
		w := serve(t, i, httptest.NewRequest(http.MethodPost, issuer.VerifyPath, strings.NewReader(body)))
		var report issuer.Report
		if err := json.Unmarshal(w.Body.Bytes(), &report); err != nil {
			t.Fatalf("%v: %s", err, w.Body)
		}
		switch {
		case w.Code == http.StatusOK && report.Verdict == issuer.VerdictValid:
			if iss := report.Claims.Issuer; iss != i.Name() && !strings.HasPrefix(iss, "did:key:") {
				t.Errorf("a receipt of %s is valid", iss)
			}
		case w.Code == http.StatusOK && report.Claims == nil && report.Code != "":
		case w.Code == http.StatusBadRequest || w.Code == http.StatusRequestEntityTooLarge:
		default:
			t.Errorf("status %d: %s", w.Code, w.Body)
		}
	})
}

func FuzzLifetime(f *testing.F) {
	f.Add("public, max-age=300")
	f.Add("no-store")
	f.Fuzz(func(t *testing.T, cacheControl string) {
		if d := issuer.Lifetime(cacheControl); d < issuer.KeepLeast || d > issuer.KeepMost {
			t.Errorf("kept for %v", d)
		}
	})
}
