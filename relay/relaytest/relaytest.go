package relaytest

import (
	"context"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/parleykit/parley/internal/httpserver"
	"github.com/parleykit/parley/relay"
)

// Server is a running relay. It ends with the test that started it.
type Server struct {
	URL   string // ws://127.0.0.1:port
	HTTP  string // http://127.0.0.1:port, the relay's origin
	Relay *relay.Relay

	limits relay.Limits
	stop   func()
}

// SetPolicy swaps the relay's policy.
func (s *Server) SetPolicy(t testing.TB, p relay.Policy) {
	t.Helper()
	if err := s.Relay.Reconfigure(p, s.limits); err != nil {
		t.Errorf("changing the policy: %v", err)
	}
}

// Start starts a relay. Without Store and Dir its events lie in a folder of
// the test; without an Origin it takes its own; limits on rates that are zero
// are off, as a test sends much at once; peers that do not answer the close of
// their connection are waited for one second.
func Start(t testing.TB, o relay.Options) *Server {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listening for the relay: %v", err)
	}
	address := listener.Addr().String()
	if o.Origin == "" {
		o.Origin = "http://" + address
	}
	if o.Store == nil && o.Dir == "" {
		o.Dir = t.TempDir()
	}
	if o.DrainTimeout == 0 {
		o.DrainTimeout = time.Second
	}
	unlimited(&o.Limits)
	r, err := relay.New(o)
	if err != nil {
		listener.Close()
		t.Fatalf("making the relay: %v", err)
	}
	s := &Server{URL: "ws://" + address, HTTP: "http://" + address, Relay: r, limits: o.Limits}
	s.stop = s.run(t, listener)
	t.Cleanup(s.Stop)
	return s
}

// Stop ends the relay in order and waits for it. A second call does nothing.
func (s *Server) Stop() { s.stop() }

// run serves on the listener and returns what ends it.
func (s *Server) run(t testing.TB, listener net.Listener) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Relay.Run(ctx) }()
	server := &http.Server{Handler: handler(s.Relay.Routes())}
	go server.Serve(listener) //nolint:errcheck // It ends with the listener.
	stopped := false
	return func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("ending the relay: %v", err)
		}
		server.Close()
	}
}

// handler answers with the first route that matches, as the server does.
func handler(routes []httpserver.Route) http.Handler {
	groups := map[string][]httpserver.Route{}
	for _, route := range routes {
		groups[route.Pattern] = append(groups[route.Pattern], route)
	}
	mux := http.NewServeMux()
	for pattern, group := range groups {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, req *http.Request) {
			for _, route := range group {
				if route.Method == req.Method && (route.Match == nil || route.Match(req)) {
					route.Handler.ServeHTTP(w, req)
					return
				}
			}
			http.NotFound(w, req)
		})
	}
	return mux
}

// unlimited switches off the limits on rates that are zero.
func unlimited(l *relay.Limits) {
	for _, rate := range []*int{
		&l.EventRate, &l.EventBurst, &l.RequestRate, &l.RequestBurst,
		&l.AddressEventRate, &l.AddressEventBurst, &l.AddressRequestRate, &l.AddressRequestBurst,
		&l.KeyEventRate, &l.KeyEventBurst,
	} {
		if *rate == 0 {
			*rate = -1
		}
	}
}
