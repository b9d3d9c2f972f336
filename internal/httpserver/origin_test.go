package httpserver

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
)

func origin(t testing.TB, text string) Origin {
	t.Helper()
	parsed, err := ParseOrigin(text)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

func TestParseOrigin_givesOneForm(t *testing.T) {
	for text, want := range map[string]string{
		"https://Parley.Example.org":      "https://parley.example.org",
		"https://parley.example.org:443/": "https://parley.example.org",
		"http://parley.example.org:80":    "http://parley.example.org",
		"https://parley.example.org:80":   "https://parley.example.org:80",
		"http://127.0.0.1:8417":           "http://127.0.0.1:8417",
		"http://[::1]:80/":                "http://[::1]",
		"http://[::1]:8417":               "http://[::1]:8417",
	} {
		got, err := ParseOrigin(text)
		if err != nil || got.String() != want {
			t.Errorf("%s is %s, %v; want %s", text, got, err, want)
		}
	}
	if got := origin(t, "https://x.example").WebSocket(); got != "wss://x.example" {
		t.Errorf("WebSocket = %s", got)
	}
	if got := origin(t, "http://127.0.0.1:1").WebSocket(); got != "ws://127.0.0.1:1" {
		t.Errorf("WebSocket = %s", got)
	}
}

func TestParseOrigin_refusesTheRest(t *testing.T) {
	for _, text := range []string{
		"", "parley.example.org", "ftp://x", "wss://x", "https://", "https://x/path", "https://u@x", "https://u:p@x",
		"https://x?", "https://x?q", "https://x#f", "https://a b", "https://a,b", "https://" + strings.Repeat("x", 300), "://",
	} {
		if got, err := ParseOrigin(text); err == nil {
			t.Errorf("%q is %s", text, got)
		}
	}
}

func TestOrigin_knowsLoopback(t *testing.T) {
	for text, want := range map[string]bool{
		"http://127.0.0.1:8417": true, "http://127.9.9.9": true, "http://[::1]:1": true, "http://localhost:1": true,
		"http://a.localhost": true, "https://example.org": false, "http://localhost.example.org": false,
		"http://192.168.1.1": false, "http://0.0.0.0": false, "http://127.0.0.1.example.org": false,
	} {
		if got := origin(t, text).Loopback(); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}

// request makes a request with Origin headers.
func request(method string, origins ...string) *http.Request {
	r := httptest.NewRequest(method, "/", nil)
	for _, o := range origins {
		r.Header.Add("Origin", o)
	}
	return r
}

func TestCheckWebSocket_opensToAnyPageOnAPublicOriginOnly(t *testing.T) {
	public, loopback := origin(t, "https://example.org"), origin(t, "http://127.0.0.1:8417")
	for _, tt := range []struct {
		origins          []string
		public, loopback bool
	}{
		{nil, true, true},
		{[]string{"https://example.org"}, true, false},
		{[]string{"http://127.0.0.1:8417"}, true, true},
		{[]string{"http://127.0.0.1:9000"}, true, false},
		{[]string{"http://localhost:8417"}, true, false},
		{[]string{"https://evil.example"}, true, false},
		{[]string{"null"}, true, false},
		{[]string{""}, true, false},
		{[]string{"http://127.0.0.1:8417", "https://evil.example"}, true, false},
	} {
		r := request(http.MethodGet, tt.origins...)
		if err := public.CheckWebSocket(r); (err == nil) != tt.public {
			t.Errorf("public, Origin %q: %v", tt.origins, err)
		}
		if err := loopback.CheckWebSocket(r); (err == nil) != tt.loopback || err != nil && !errors.Is(err, ErrOrigin) {
			t.Errorf("loopback, Origin %q: %v", tt.origins, err)
		}
	}
}

func TestCheckCookie_needsOwnOriginAndJSONOrAToken(t *testing.T) {
	own := origin(t, "https://example.org")
	valid := func(r *http.Request) bool { return r.Header.Get("X-Test") == "good" }
	for _, tt := range []struct {
		name, method, origin, media, token string
		valid                              func(*http.Request) bool
		want                               bool
	}{
		{"JSON", "POST", "https://example.org", "application/json; charset=utf-8", "", nil, true},
		{"form with token", "POST", "https://example.org", "application/x-www-form-urlencoded", "good", valid, true},
		{"multipart with token", "PUT", "https://example.org", "multipart/form-data; boundary=x", "good", valid, true},
		{"form with bad token", "POST", "https://example.org", "application/x-www-form-urlencoded", "bad", valid, false},
		{"form where none is taken", "POST", "https://example.org", "application/x-www-form-urlencoded", "good", nil, false},
		{"text that could be JSON", "POST", "https://example.org", "text/plain", "good", valid, false},
		{"no type", "POST", "https://example.org", "", "good", valid, false},
		{"foreign JSON", "POST", "https://evil.example", "application/json", "good", valid, false},
		{"sandboxed page", "POST", "null", "application/json", "good", valid, false},
		{"no Origin", "POST", "", "application/json", "good", valid, false},
		{"no Origin, DELETE", "DELETE", "", "application/json", "", nil, false},
		{"navigation", "GET", "", "", "", nil, true},
		{"own fetch", "GET", "https://example.org", "", "", nil, true},
		{"foreign fetch", "GET", "https://evil.example", "", "", nil, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := request(tt.method)
			if tt.origin != "" {
				r.Header.Set("Origin", tt.origin)
			}
			r.Header.Set("Content-Type", tt.media)
			r.Header.Set("X-Test", tt.token)
			if err := own.CheckCookie(r, tt.valid); (err == nil) != tt.want {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestClientIP_believesTrustedProxiesOnly(t *testing.T) {
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}
	for _, tt := range []struct {
		name, peer string
		forwarded  []string
		want       string
	}{
		{"direct", "1.1.1.1:5", nil, "1.1.1.1"},
		{"a stranger's header", "1.1.1.1:5", []string{"9.9.9.9"}, "1.1.1.1"},
		{"proxy without header", "10.0.0.1:5", nil, "10.0.0.1"},
		{"one proxy", "10.0.0.1:5", []string{"2.2.2.2"}, "2.2.2.2"},
		{"spoofed left part", "10.0.0.1:5", []string{"9.9.9.9, 2.2.2.2"}, "2.2.2.2"},
		{"two proxies", "10.0.0.1:5", []string{"9.9.9.9, 2.2.2.2, 10.0.0.2"}, "2.2.2.2"},
		{"several headers", "10.0.0.1:5", []string{"9.9.9.9", "2.2.2.2", "10.0.0.2"}, "2.2.2.2"},
		{"all trusted", "10.0.0.1:5", []string{"10.0.0.3, 10.0.0.2"}, "10.0.0.3"},
		{"garbage next to the proxy", "10.0.0.1:5", []string{"2.2.2.2, unknown"}, "10.0.0.1"},
		{"garbage behind a proxy", "10.0.0.1:5", []string{"evil, 10.0.0.2"}, "10.0.0.2"},
		{"with port", "10.0.0.1:5", []string{"2.2.2.2:99"}, "2.2.2.2"},
		{"IPv6", "[fd00::1]:5", []string{"2a00::1"}, "2a00::1"},
		{"IPv6 with port", "[fd00::1]:5", []string{"[2a00::1]:9"}, "2a00::1"},
		{"mapped peer", "[::ffff:10.0.0.1]:5", []string{"::ffff:2.2.2.2"}, "2.2.2.2"},
		{"zone", "[fe80::1%eth0]:5", nil, "fe80::1"},
		{"no address", "@", []string{"2.2.2.2"}, "invalid IP"},
		{"endless", "10.0.0.1:5", []string{"9.9.9.9" + strings.Repeat(", 10.0.0.2", 10000)}, "10.0.0.2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := request(http.MethodGet)
			r.RemoteAddr = tt.peer
			for _, value := range tt.forwarded {
				r.Header.Add("X-Forwarded-For", value)
			}
			if got := clientIP(r, trusted).String(); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}

func TestNetwork_hidesTheHost(t *testing.T) {
	for text, want := range map[string]string{"1.2.3.4": "1.2.3.0/24", "2a00:1:2:3::4": "2a00:1:2::/48"} {
		if got := network(netip.MustParseAddr(text)); got != want {
			t.Errorf("%s shows as %s", text, got)
		}
	}
	if got := network(netip.Addr{}); got != "unknown" {
		t.Errorf("no address shows as %s", got)
	}
}

func FuzzParseOrigin(f *testing.F) {
	for _, seed := range []string{"https://example.org", "http://[::1]:80", "http://a:443/", "http://\x88"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		o, err := ParseOrigin(text)
		if err != nil {
			return
		}
		if again, err := ParseOrigin(o.String()); err != nil || again != o || !o.serves(o.Host()) {
			t.Errorf("%q becomes %q becomes %q, %v", text, o, again, err)
		}
	})
}
