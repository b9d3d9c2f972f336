package issuer_test

import (
	"context"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleykit/parley/internal/issuer"
	"github.com/parleykit/parley/protocol/discovery"
	"github.com/parleykit/parley/protocol/receipt"
)

// attached makes claims whose receipt grows with the length of the path.
func attached(r *http.Request, status int, header http.Header) *receipt.Claims {
	if r.URL.Path == "/none" {
		return nil
	}
	claims := act()
	claims.Extensions = map[string]any{"example.org/answer": map[string]any{
		"status": status, "type": header.Get("Content-Type"), "filler": strings.Repeat("x", len(r.URL.Path)*700),
	}}
	return &claims
}

// roundTrip sends a request over a real connection, since recorders respell
// header fields in another way than servers.
func roundTrip(t *testing.T, handler http.Handler, method, path string, header http.Header) (*http.Response, string) {
	t.Helper()
	server := httptest.NewServer(handler)
	defer server.Close()
	r, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, values := range header {
		r.Header[name] = values
	}
	response, err := server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response, string(body)
}

func TestAttach_putsTheReceiptOfTheAnswerIntoItsHeader(t *testing.T) {
	i := newIssuer(t, "https://parley.example", issuer.Options{})
	for name, answer := range map[string]http.HandlerFunc{
		"WriteHeader": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/x")
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(http.StatusTeapot)
			_, _ = w.Write([]byte("tea"))
		},
		"Write": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/x")
			_, _ = w.Write([]byte("te"))
			_, _ = w.Write([]byte("a"))
		},
		"Flush": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/x")
			_ = http.NewResponseController(w).Flush()
			_, _ = w.Write([]byte("tea"))
		},
		"nothing": func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Type", "text/x") },
	} {
		asked := 0
		claims := func(r *http.Request, status int, header http.Header) *receipt.Claims {
			asked++
			return attached(r, status, header)
		}
		response, body := roundTrip(t, i.Attach(issuer.Attachment{Claims: claims}, answer), http.MethodGet, "/", nil)
		if asked != 1 {
			t.Errorf("%s: claims were asked for %d times", name, asked)
		}
		carriers, err := receipt.FromHTTP(response.Header.Values(receipt.HeaderReceipt), response.Header.Values(receipt.HeaderReceiptURL))
		if err != nil || len(carriers) != 1 {
			t.Errorf("%s: %v, %v", name, carriers, err)
			continue
		}
		verified, err := i.Verify(carriers[0].ReceiptJWS, receipt.VerifyOptions{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		about := verified.Claims.Extensions["example.org/answer"].(map[string]any)
		if about["status"] != float64(response.StatusCode) || about["type"] != "text/x" || name != "nothing" && body != "tea" {
			t.Errorf("%s: status %d, body %q, a receipt about %v", name, response.StatusCode, body, about)
		}
	}
}

func TestAttach_writesTheFieldInItsOneSpelling(t *testing.T) {
	i := newIssuer(t, "https://parley.example", issuer.Options{})
	w := httptest.NewRecorder()
	w.Header().Set("PEAC-Receipt", "an older one, in the spelling of net/http")
	i.Attach(issuer.Attachment{Claims: attached}, http.NotFoundHandler()).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	names := slices.Collect(maps.Keys(w.Header()))
	if !slices.Contains(names, "PEAC-Receipt") || slices.Contains(names, "Peac-Receipt") {
		t.Errorf("header %v", w.Header())
	}
}

func TestAttach_namesAURLWhereTheReceiptIsTooLargeAndOneIsGiven(t *testing.T) {
	i := newIssuer(t, "https://parley.example", issuer.Options{})
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {})
	for name, c := range map[string]struct {
		path string
		url  func(context.Context, *issuer.Issued) string
		want string // of PEAC-Receipt-URL
	}{
		"small":        {"/", func(context.Context, *issuer.Issued) string { return "https://parley.example/r/1" }, ""},
		"no URL":       {"/too-large", nil, ""},
		"an empty URL": {"/too-large", func(context.Context, *issuer.Issued) string { return "" }, ""},
		"an http URL":  {"/too-large", func(context.Context, *issuer.Issued) string { return "http://parley.example/r/1" }, ""},
		"a URL": {"/too-large", func(_ context.Context, issued *issuer.Issued) string {
			return "https://parley.example/r/" + issued.Reference[len("sha256:"):]
		}, "https://parley.example/r/"},
		"no claims": {"/none", nil, ""},
	} {
		response, _ := roundTrip(t, i.Attach(issuer.Attachment{Claims: attached, URL: c.url}, handler), http.MethodGet, c.path, nil)
		url := response.Header.Get(receipt.HeaderReceiptURL)
		if !strings.HasPrefix(url, c.want) || (url == "") != (c.want == "") {
			t.Errorf("%s: URL %q", name, url)
		}
		if got := response.Header.Get(receipt.HeaderReceipt) != ""; got != (name == "small") {
			t.Errorf("%s: a receipt in the header: %v", name, got)
		}
	}
}

func TestAttach_letsAnAnswerGoWhoseReceiptCannotBeMade(t *testing.T) {
	i := newIssuer(t, "https://parley.example", issuer.Options{})
	claims := func(*http.Request, int, http.Header) *receipt.Claims { return &receipt.Claims{Kind: "rumour"} }
	response, body := roundTrip(t, i.Attach(issuer.Attachment{Claims: claims}, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("tea"))
	})), http.MethodGet, "/", nil)
	if response.StatusCode != http.StatusOK || body != "tea" || response.Header.Get(receipt.HeaderReceipt) != "" {
		t.Errorf("status %d, body %q, header %v", response.StatusCode, body, response.Header)
	}
}

func TestRequirePurpose_holdsRequestsAgainstThePolicy(t *testing.T) {
	open := discovery.Policy{Usage: discovery.UsageOpen}
	some := discovery.Policy{Usage: discovery.UsageConditional, Purposes: []string{"own:thing", "search", "user_action"}}
	silent := discovery.Policy{Usage: discovery.UsageConditional}
	for name, c := range map[string]struct {
		policy   discovery.Policy
		required bool
		declared []string
		status   int
		applied  string
		reason   receipt.PurposeReason
	}{
		"allowed":                     {some, true, []string{"search"}, 200, "search", "allowed"},
		"the first that is allowed":   {some, true, []string{"train, User_Action, search"}, 200, "user_action", "allowed"},
		"in two fields":               {some, true, []string{"train", "search"}, 200, "search", "allowed"},
		"denied":                      {some, true, []string{"train"}, 403, "train", "denied"},
		"denied without being needed": {some, false, []string{"train"}, 403, "train", "denied"},
		"unknown":                     {some, true, []string{"robotics"}, 200, "search", "unknown_preserved"},
		"unknown and denied":          {some, true, []string{"robotics, train"}, 403, "train", "denied"},
		"undeclared":                  {some, false, nil, 200, "", "undeclared_default"},
		"undeclared where required":   {some, true, nil, 400, "", "undeclared_default"},
		"empty where required":        {some, true, []string{" , "}, 400, "", "undeclared_default"},
		"the word undeclared":         {some, false, []string{"undeclared"}, 400, "", ""},
		"no token":                    {some, false, []string{"rm -rf"}, 400, "", ""},
		"open to all":                 {open, true, []string{"train"}, 200, "train", "allowed"},
		"open to the unknown":         {open, true, []string{"robotics"}, 200, "user_action", "unknown_preserved"},
		"nothing is allowed":          {silent, true, []string{"search"}, 403, "search", "denied"},
		"not the unknown either":      {silent, true, []string{"robotics"}, 403, "user_action", "denied"},
	} {
		i := newIssuer(t, "https://parley.example", issuer.Options{Settings: issuer.Settings{Policy: c.policy}})
		var seen issuer.Purpose
		served := false
		handler := i.RequirePurpose(c.required, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Add("Vary", "Accept")
			seen, served = issuer.PurposeOf(r.Context())
		}))
		response, _ := roundTrip(t, handler, http.MethodGet, "/", http.Header{receipt.HeaderPurpose: c.declared})
		applied, reason := response.Header.Get(receipt.HeaderPurposeApplied), response.Header.Get(receipt.HeaderPurposeReason)
		if response.StatusCode != c.status || applied != c.applied || reason != string(c.reason) {
			t.Errorf("%s: status %d, applied %q, reason %q", name, response.StatusCode, applied, reason)
		}
		if vary := strings.Join(response.Header.Values("Vary"), ", "); !strings.Contains(vary, receipt.HeaderPurpose) {
			t.Errorf("%s: Vary %q", name, vary)
		}
		if served != (c.status == 200) || served && (seen.Applied != c.applied || seen.Reason != c.reason) {
			t.Errorf("%s: the handler saw %+v", name, seen)
		}
	}
}

func TestVerifyIncoming_handsTheVerdictOn(t *testing.T) {
	f, clock := newForeign(t), newClock()
	r := f.Resolver(t, issuer.ResolverOptions{Now: clock.Now})
	good := f.receipt(t, clock, "k1")
	var got *issuer.Incoming
	handler := r.VerifyIncoming(receipt.VerifyOptions{}, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got = issuer.IncomingOf(r.Context())
	}))
	for name, c := range map[string]struct {
		receipts []string
		want     receipt.Code
	}{
		"good":         {[]string{good}, ""},
		"unknown key":  {[]string{f.receipt(t, clock, "k2")}, receipt.CodeKeyNotFound},
		"two":          {[]string{good, good}, receipt.CodeVerifyInvalidTransport},
		"a reference":  {[]string{receipt.Reference(good)}, receipt.CodeVerifyInvalidTransport},
		"no signature": {[]string{good[:strings.LastIndexByte(good, '.')+1] + strings.Repeat("A", 86)}, receipt.CodeInvalidSignature},
	} {
		got = nil
		roundTrip(t, handler, http.MethodGet, "/", http.Header{receipt.HeaderReceipt: c.receipts})
		switch {
		case got == nil:
			t.Errorf("%s: nothing is handed on", name)
		case receipt.CodeOf(got.Err) != c.want || (got.Verified != nil) != (c.want == ""):
			t.Errorf("%s: %+v, %v", name, got.Verified, got.Err)
		}
	}
	if diff := cmp.Diff(1, f.times(discovery.IssuerPath)); diff != "" {
		t.Errorf("questions to the issuer: %s", diff)
	}
	got = &issuer.Incoming{}
	roundTrip(t, handler, http.MethodGet, "/", nil)
	if got != nil {
		t.Errorf("without a receipt: %+v", got)
	}
}
