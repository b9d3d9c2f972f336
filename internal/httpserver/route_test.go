package httpserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// newServer binds free ports and closes them when the test ends.
func newServer(t testing.TB, opts Options) *Server {
	t.Helper()
	if opts.Listen == "" {
		opts.Listen = "127.0.0.1:0"
	}
	s, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// says answers with a word.
func says(word string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, word) })
}

// ask sends a request to the server without a connection.
func ask(s *Server, method, path string, change ...func(*http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, nil)
	r.Host = s.Origin().Host()
	for _, fn := range change {
		fn(r)
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

func header(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

func isNostr(r *http.Request) bool { return r.Header.Get("Accept") == "application/nostr+json" }

func TestRoutes_areToldApartByMatchInOrder(t *testing.T) {
	s := newServer(t, Options{})
	err := s.Handle(
		Route{Method: "GET", Pattern: "/", Owner: "relay", Summary: "information", Match: isNostr, Handler: says("relay")},
		Route{Method: "GET", Pattern: "/", Owner: "venue", Summary: "pages", Handler: says("venue")},
		Route{Method: "POST", Pattern: "/", Owner: "venue", Summary: "forms", Handler: says("posted")},
		Route{Pattern: "/agents/{id}", Owner: "agent", Summary: "agents", Handler: says("agents")},
		Route{Pattern: "/only", Owner: "agent", Summary: "one kind", Match: isNostr, Handler: says("only")},
	)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		method, path, accept string
		status               int
		body                 string
	}{
		{"GET", "/", "application/nostr+json", 200, "relay"},
		{"GET", "/", "text/html", 200, "venue"},
		{"HEAD", "/", "text/html", 200, "venue"},
		{"GET", "/deeper", "", 200, "venue"},
		{"POST", "/", "", 200, "posted"},
		{"PATCH", "/agents/7", "", 200, "agents"},
		{"GET", "/only", "application/nostr+json", 200, "only"},
		{"GET", "/only", "", 404, ""},
		{"DELETE", "/", "", 405, ""},
	} {
		w := ask(s, tt.method, tt.path, header("Accept", tt.accept))
		if w.Code != tt.status || tt.body != "" && w.Body.String() != tt.body {
			t.Errorf("%s %s (%s): %d %s", tt.method, tt.path, tt.accept, w.Code, w.Body)
		}
	}
	if allow := ask(s, "DELETE", "/").Header().Get("Allow"); allow != "GET, POST" {
		t.Errorf("Allow: %s", allow)
	}
}

func TestHandle_refusesRoutesThatCannotWork(t *testing.T) {
	good := Route{Method: "GET", Pattern: "/a", Owner: "venue", Summary: "a", Handler: says("a")}
	for name, change := range map[string]func(*Route){
		"no slash":        func(r *Route) { r.Pattern = "a" },
		"method in path":  func(r *Route) { r.Pattern = "GET /b" },
		"no owner":        func(r *Route) { r.Owner = "" },
		"odd owner":       func(r *Route) { r.Owner = "Venue!" },
		"no summary":      func(r *Route) { r.Summary = "" },
		"breaking table":  func(r *Route) { r.Summary = "a|b" },
		"no handler":      func(r *Route) { r.Handler = nil },
		"lower method":    func(r *Route) { r.Method = "get" },
		"hidden":          func(r *Route) {},
		"hidden by match": func(r *Route) { r.Match = isNostr },
		"bad wildcard":    func(r *Route) { r.Pattern = "/{x" },
		"clash":           func(r *Route) { r.Pattern = "/{y}/b" },
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, Options{})
			if err := s.Handle(good, Route{Pattern: "/c/{z}", Owner: "venue", Summary: "c", Handler: says("c")}); err != nil {
				t.Fatal(err)
			}
			bad := good
			change(&bad)
			if err := s.Handle(bad); !errors.Is(err, ErrRoute) {
				t.Errorf("error %v", err)
			}
			if got := len(s.Routes()); got != 2 {
				t.Errorf("%d routes", got)
			}
		})
	}
}

func TestTable_showsEveryRouteInOrder(t *testing.T) {
	s := newServer(t, Options{})
	if err := s.Handle(
		Route{Method: "GET", Pattern: "/z", Owner: "venue", Summary: "z", Handler: says("z")},
		Route{Pattern: "/{$}", Owner: "relay", Summary: "root", Handler: says("r")},
	); err != nil {
		t.Fatal(err)
	}
	want := "| path | method | owner | what it answers |\n|---|---|---|---|\n| `/z` | GET | venue | z |\n| `/` | any | relay | root |\n"
	if diff := cmp.Diff(want, Table(s.Routes())); diff != "" {
		t.Error(diff)
	}
}

func TestHost_mustBeTheConfiguredOne(t *testing.T) {
	s := newServer(t, Options{Origin: "https://parley.example.org"})
	if err := s.Handle(Route{Pattern: "/", Owner: "venue", Summary: "all", Handler: says("in")}); err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]int{
		"parley.example.org": 200, "Parley.Example.ORG": 200, "parley.example.org:443": 200,
		"parley.example.org:8443": 421, "evil.example": 421, "127.0.0.1": 421, "": 421, "parley.example.org.": 421,
	} {
		w := ask(s, "GET", "/", func(r *http.Request) { r.Host = host })
		if w.Code != want {
			t.Errorf("Host %q: %d", host, w.Code)
		}
	}
}

func TestProblem_isADocumentOfRFC9457(t *testing.T) {
	w := ask(newServer(t, Options{}), "GET", "/nothing")
	if got := w.Header().Get("Content-Type"); got != "application/problem+json" || w.Code != 404 {
		t.Errorf("%d %s", w.Code, got)
	}
	var got map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"type": "about:blank", "title": "Not Found", "status": 404.0, "detail": "Nothing is served here.", "code": "not_found"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if body := ask(newServer(t, Options{}), "HEAD", "/nothing").Body.String(); body != "" {
		t.Errorf("HEAD has a body: %s", body)
	}
}

func TestAnswers_haveSecurityHeaders(t *testing.T) {
	secure := ask(newServer(t, Options{Origin: "https://parley.example.org"}), "GET", "/").Header()
	for name, want := range map[string]string{
		"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer",
		"Strict-Transport-Security": "max-age=31536000",
	} {
		if got := secure.Get(name); got != want {
			t.Errorf("%s: %q", name, got)
		}
	}
	if !strings.Contains(secure.Get("Content-Security-Policy"), "default-src 'none'") {
		t.Errorf("policy %q", secure.Get("Content-Security-Policy"))
	}
	if plain := ask(newServer(t, Options{}), "GET", "/").Header().Get("Strict-Transport-Security"); plain != "" {
		t.Error("plain HTTP promises HTTPS")
	}
}

func TestBodies_areBounded(t *testing.T) {
	reads := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var limit *http.MaxBytesError
		if _, err := io.ReadAll(r.Body); errors.As(err, &limit) {
			Problem(w, r, http.StatusRequestEntityTooLarge, "too_large", "The body is too long.")
		}
	})
	s := newServer(t, Options{MaxBody: 10})
	if err := s.Handle(
		Route{Method: "POST", Pattern: "/small", Owner: "venue", Summary: "small", Handler: reads},
		Route{Method: "POST", Pattern: "/large", Owner: "venue", Summary: "large", MaxBody: 20, Handler: reads},
	); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		path string
		size int
		want int
	}{{"/small", 10, 200}, {"/small", 11, 413}, {"/large", 20, 200}, {"/large", 21, 413}} {
		w := ask(s, "POST", tt.path, func(r *http.Request) {
			r.Body = io.NopCloser(strings.NewReader(strings.Repeat("x", tt.size)))
		})
		if w.Code != tt.want {
			t.Errorf("%s with %d bytes: %d", tt.path, tt.size, w.Code)
		}
	}
}

func TestPanics_areAnsweredAndCounted(t *testing.T) {
	s := newServer(t, Options{})
	if err := s.Handle(
		Route{Pattern: "/early", Owner: "venue", Summary: "a", Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("secret reason") })},
		Route{Pattern: "/late", Owner: "venue", Summary: "b", Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "half")
			panic("late")
		})},
		Route{Pattern: "/abort", Owner: "venue", Summary: "c", Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })},
	); err != nil {
		t.Fatal(err)
	}
	if w := ask(s, "GET", "/early"); w.Code != 500 || strings.Contains(w.Body.String(), "secret") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	for _, path := range []string{"/late", "/abort"} {
		func() {
			defer func() {
				if recover() != http.ErrAbortHandler {
					t.Errorf("%s: the connection is not cut", path)
				}
			}()
			ask(s, "GET", path)
		}()
	}
	if got := testutil.ToFloat64(s.metrics.panics); got != 2 {
		t.Errorf("counted %v panics", got)
	}
}

func TestMetrics_areWellNamedAndCountByOwnerAndClass(t *testing.T) {
	registry := prometheus.NewRegistry()
	s := newServer(t, Options{Registry: registry})
	if err := s.Handle(Route{Pattern: "/x", Owner: "venue", Summary: "x", Handler: says("x")}); err != nil {
		t.Fatal(err)
	}
	ask(s, "GET", "/x")
	ask(s, "GET", "/missing")
	problems, err := testutil.GatherAndLint(registry)
	if err != nil || len(problems) != 0 {
		t.Errorf("lint: %v, %v", problems, err)
	}
	for _, labels := range [][2]string{{"venue", "2xx"}, {"none", "4xx"}} {
		if got := testutil.ToFloat64(s.metrics.requests.WithLabelValues(labels[0], labels[1])); got != 1 {
			t.Errorf("%v counted %v times", labels, got)
		}
	}
	if got := testutil.CollectAndCount(s.metrics.requests); got != 2*len(classes) {
		t.Errorf("%d series", got)
	}
	if got, err := testutil.GatherAndCount(NewRegistry(), "parley_build_info"); err != nil || got != 1 {
		t.Errorf("build info: %d, %v", got, err)
	}
}
