package ntfytest

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/parleykit/parley/ntfybridge/ntfyserver"
)

// Options of a server.
type Options = ntfyserver.Options

// Access is what a user may do with topics.
type Access = ntfyserver.Access

// Unlimited is a server of one's own: no bucket of requests.
var Unlimited = Options{Burst: -1}

// Server is a running server.
type Server struct {
	*ntfyserver.Server
	URL string // its origin

	published atomic.Int64
	mu        sync.Mutex
	queries   []string
}

// Start runs a server until the test ends.
func Start(t testing.TB, opts Options) *Server {
	t.Helper()
	inner, err := ntfyserver.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{Server: inner}
	web := httptest.NewServer(http.HandlerFunc(s.serve))
	s.URL = web.URL
	t.Cleanup(func() { inner.Close(); web.CloseClientConnections(); web.Close() })
	return s
}

func (s *Server) serve(rw http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodPost, http.MethodPut:
		s.published.Add(1)
	case http.MethodGet:
		s.mu.Lock()
		s.queries = append(s.queries, r.URL.Path+"?"+r.URL.RawQuery)
		s.mu.Unlock()
	}
	s.Handler().ServeHTTP(rw, r)
}

// Published is how many publications were asked for.
func (s *Server) Published() int { return int(s.published.Load()) }

// Queries are the path and query of every GET so far, in order.
func (s *Server) Queries() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.queries...)
}
