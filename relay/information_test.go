package relay_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleykit/parley/relay"
	"github.com/parleykit/parley/relay/relaytest"
)

func get(t *testing.T, method, url string, header http.Header) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header = header
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return resp
}

func TestInformationDocumentIsServedByAcceptHeader(t *testing.T) {
	s := relaytest.Start(t, relay.Options{Policy: relay.Policy{Name: "test relay", Contact: "mailto:op@example.org"}})
	for accept, want := range map[string]int{
		"application/nostr+json":                    200,
		"Application/Nostr+JSON":                    200,
		"application/nostr+json, */*":               200,
		"text/html;q=0.5, application/nostr+json":   200,
		"application/nostr+json;q=0.9;charset=utf8": 200,
		"application/nostr+json;q=0":                404,
		"text/html":                                 404,
		"application/json":                          404,
		"":                                          404,
	} {
		resp := get(t, "GET", s.HTTP, http.Header{"Accept": {accept}})
		if resp.StatusCode != want {
			t.Errorf("Accept %q: status %d, want %d", accept, resp.StatusCode, want)
		}
		if want == 200 && (resp.Header.Get("Content-Type") != "application/nostr+json" || resp.Header.Get("Access-Control-Allow-Origin") != "*") {
			t.Errorf("Accept %q: headers %v", accept, resp.Header)
		}
	}
	preflight := get(t, "OPTIONS", s.HTTP, http.Header{"Access-Control-Request-Method": {"GET"}})
	if preflight.StatusCode != 204 || preflight.Header.Get("Access-Control-Allow-Origin") != "*" {
		t.Errorf("preflight: %d %v", preflight.StatusCode, preflight.Header)
	}
}

func TestInformationDocumentNamesWhatIsBuilt(t *testing.T) {
	s := relaytest.Start(t, relay.Options{Policy: relay.Policy{Name: "test relay", Contact: "mailto:op@example.org"}})
	var doc struct {
		Name, Contact string
		PubKey        *string
		NIPs          []int `json:"supported_nips"`
		Limitation    map[string]any
	}
	if err := json.NewDecoder(get(t, "GET", s.HTTP, http.Header{"Accept": {"application/nostr+json"}}).Body).Decode(&doc); err != nil {
		t.Fatal(err)
	}
	if doc.Name != "test relay" || doc.Contact != "mailto:op@example.org" || doc.PubKey != nil {
		t.Errorf("document is %+v", doc)
	}
	if !slices.Equal(doc.NIPs, []int{1, 9, 11, 17, 40, 42, 45, 50, 59, 62, 65, 70, 77}) {
		t.Errorf("supported_nips is %v", doc.NIPs)
	}
	for key, want := range map[string]any{
		"max_message_length": 131072.0, "max_subscriptions": 64.0, "max_limit": 500.0, "max_event_tags": 200.0,
		"auth_required": false, "restricted_writes": true,
	} {
		if doc.Limitation[key] != want {
			t.Errorf("limitation.%s is %v, want %v", key, doc.Limitation[key], want)
		}
	}
}

var update = flag.Bool("update", false, "rewrite the golden files")

func TestInformationDocumentIsTheGoldenOne(t *testing.T) {
	s := relaytest.Start(t, relay.Options{
		Policy: relay.Policy{
			Name: "test relay", Description: "cards and wraps", Contact: "mailto:op@example.org", PubKey: strings.Repeat("a", 64),
		},
		Version: "1.2.3",
	})
	body, err := io.ReadAll(get(t, "GET", s.HTTP, http.Header{"Accept": {"application/nostr+json"}}).Body)
	if err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	if err := json.Indent(&got, body, "", "  "); err != nil {
		t.Fatal(err)
	}
	got.WriteByte('\n')
	file := filepath.Join("..", "testdata", "relay", "information.json")
	if *update {
		if err := os.WriteFile(file, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("document (-golden +got):\n%s", diff)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for name, o := range map[string]relay.Options{
		"no origin":   {Dir: t.TempDir()},
		"ws origin":   {Dir: t.TempDir(), Origin: "ws://127.0.0.1"},
		"with a path": {Dir: t.TempDir(), Origin: "http://127.0.0.1/relay"},
		"no store":    {Origin: "http://127.0.0.1"},
		"bad limit":   {Dir: t.TempDir(), Origin: "http://127.0.0.1", Limits: relay.Limits{Subscriptions: -1}},
		"bad quota":   {Dir: t.TempDir(), Origin: "http://127.0.0.1", Policy: relay.Policy{WrapQuota: -1}},
		"short key":   {Dir: t.TempDir(), Origin: "http://127.0.0.1", Policy: relay.Policy{PubKey: "abc"}},
	} {
		if _, err := relay.New(o); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
