package egress

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/coder/websocket"
)

// get fetches a URL and returns the body.
func get(t *testing.T, client *http.Client, url string) (string, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(r)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return string(body), err
}

func serve(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}

func TestClient_dialsThroughTheCheck(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok")) })
	if _, err := get(t, New(Options{}).HTTPClient(), url); !errors.Is(err, ErrRefusedAddress) {
		t.Errorf("loopback: %v", err)
	}
	if body, err := get(t, New(Options{AllowLoopback: true}).HTTPClient(), url); err != nil || body != "ok" {
		t.Errorf("allowed loopback: %q, %v", body, err)
	}
}

func TestClient_ignoresTheProxyOfTheEnvironment(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://192.0.2.1:1")
	t.Setenv("HTTPS_PROXY", "http://192.0.2.1:1")
	transport := New(Options{}).HTTPClient().Transport.(limited)
	if transport.out.Proxy != nil {
		t.Error("takes a proxy")
	}
}

func TestClient_checksRedirects(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		left, _ := strconv.Atoi(r.URL.Query().Get("left"))
		switch {
		case r.URL.Query().Has("to"):
			http.Redirect(w, r, r.URL.Query().Get("to"), http.StatusFound)
		case left > 0:
			http.Redirect(w, r, "/?left="+strconv.Itoa(left-1), http.StatusFound)
		default:
			_, _ = w.Write([]byte("arrived"))
		}
	})
	client := New(Options{AllowLoopback: true}).HTTPClient()
	if body, err := get(t, client, url+"/?left=3"); err != nil || body != "arrived" {
		t.Errorf("three redirects: %q, %v", body, err)
	}
	if _, err := get(t, client, url+"/?left=4"); !errors.Is(err, ErrRedirect) {
		t.Errorf("four redirects: %v", err)
	}
	if _, err := get(t, client, url+"/?to=http://10.0.0.1/"); !errors.Is(err, ErrRefusedAddress) {
		t.Errorf("redirect to a private address: %v", err)
	}
	if _, err := get(t, client, url+"/?to=file:///etc/passwd"); !errors.Is(err, ErrRedirect) {
		t.Errorf("redirect to a file: %v", err)
	}
}

func TestClient_neverFallsBackToPlainHTTP(t *testing.T) {
	from, _ := http.NewRequest(http.MethodGet, "https://example.org/", nil)
	to, _ := http.NewRequest(http.MethodGet, "http://example.org/", nil)
	if err := checkRedirect(to, []*http.Request{from}); !errors.Is(err, ErrRedirect) {
		t.Errorf("https to http: %v", err)
	}
	if err := checkRedirect(from, []*http.Request{to}); err != nil {
		t.Errorf("http to https: %v", err)
	}
}

func TestClient_cutsLongAnswers(t *testing.T) {
	const limit = 1000
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		size, _ := strconv.Atoi(r.URL.Query().Get("size"))
		if r.URL.Query().Has("stream") {
			_ = http.NewResponseController(w).Flush() // no Content-Length
		}
		_, _ = w.Write(bytes.Repeat([]byte("x"), size))
	})
	client := New(Options{AllowLoopback: true, MaxBody: limit}).HTTPClient()
	for _, query := range []string{"size=1000", "size=1000&stream", "size=0", "size=0&stream"} {
		if body, err := get(t, client, url+"/?"+query); err != nil || strings.Trim(body, "x") != "" {
			t.Errorf("%s: %d bytes, %v", query, len(body), err)
		}
	}
	for _, query := range []string{"size=1001", "size=1001&stream", "size=900000&stream"} {
		if body, err := get(t, client, url+"/?"+query); !errors.Is(err, ErrTooLarge) || len(body) > limit {
			t.Errorf("%s: %d bytes, %v", query, len(body), err)
		}
	}
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodHead, url+"/?size=2000", nil)
	response, err := client.Do(r)
	if err != nil {
		t.Fatalf("HEAD: %v", err)
	}
	_ = response.Body.Close()
}

func TestClient_opensWebSocketsThroughTheCheck(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer conn.CloseNow()
		kind, data, err := conn.Read(r.Context())
		if err == nil {
			_ = conn.Write(r.Context(), kind, data)
		}
		_ = conn.Close(websocket.StatusNormalClosure, "")
	})
	_, _, err := websocket.Dial(t.Context(), url, &websocket.DialOptions{HTTPClient: New(Options{}).HTTPClient()})
	if !errors.Is(err, ErrRefusedAddress) {
		t.Errorf("loopback: %v", err)
	}
	client := New(Options{AllowLoopback: true, MaxBody: 10}).HTTPClient()
	conn, _, err := websocket.Dial(t.Context(), url, &websocket.DialOptions{HTTPClient: client})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.CloseNow()
	long := strings.Repeat("longer than an answer may be ", 10)
	if err := conn.Write(context.Background(), websocket.MessageText, []byte(long)); err != nil {
		t.Fatal(err)
	}
	if _, data, err := conn.Read(t.Context()); err != nil || string(data) != long {
		t.Errorf("echo of %d bytes, %v", len(data), err)
	}
}
