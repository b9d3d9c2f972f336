package main

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/parleykit/parley/internal/httpserver"
	"github.com/parleykit/parley/internal/issuer"
	"github.com/parleykit/parley/internal/keys"
	"github.com/parleykit/parley/internal/receiptlog"
	"github.com/parleykit/parley/protocol/discovery"
	"github.com/parleykit/parley/protocol/receipt"
)

// A reader that says what it reads for gets a receipt of the answer; one that
// says nothing reads as before.
func TestWhoReadsForAPurposeGetsAReceipt(t *testing.T) {
	dir, err := keys.Open(t.TempDir() + "/keys")
	if err != nil {
		t.Fatal(err)
	}
	origin, err := httpserver.ParseOrigin("https://parley.example")
	if err != nil {
		t.Fatal(err)
	}
	iss, err := issuer.New(issuer.Options{
		Keys: dir, Origin: origin,
		Settings: issuer.Settings{Policy: discovery.Policy{Usage: discovery.UsageConditional, Purposes: []string{receipt.PurposeSearch}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	s := &server{notary: &receiptlog.Notary{Issuer: iss}}
	page := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("cards")) })
	routes := s.forPurposes([]httpserver.Route{
		{Method: http.MethodGet, Pattern: "/relay/", Handler: page}, {Method: http.MethodGet, Pattern: "/relay/page.css", Handler: page},
	})
	for purpose, want := range map[string]struct {
		status   int
		decision string
	}{"": {200, ""}, "search": {200, "allow"}, "train": {403, "deny"}} {
		r := httptest.NewRequest(http.MethodGet, "/relay/?q=x", nil)
		if purpose != "" {
			r.Header.Set(receipt.HeaderPurpose, purpose)
		}
		w := httptest.NewRecorder()
		routes[0].Handler.ServeHTTP(w, r)
		if w.Code != want.status {
			t.Errorf("purpose %q: status %d, want %d", purpose, w.Code, want.status)
		}
		jws := exactField(w.Header(), receipt.HeaderReceipt)
		if want.decision == "" {
			if jws != "" {
				t.Errorf("a receipt without a purpose: %v", jws)
			}
			continue
		}
		verified, err := iss.Verify(jws, receipt.VerifyOptions{})
		if err != nil {
			t.Fatal(err)
		}
		access := verified.Claims.Extensions["org.peacprotocol/access"].(map[string]any)
		if access["decision"] != want.decision || access["resource"] != "/relay/" {
			t.Errorf("purpose %q: %v", purpose, access)
		}
	}
}
