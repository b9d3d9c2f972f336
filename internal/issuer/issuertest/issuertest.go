package issuertest

import (
	"context"
	"crypto/x509"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	"github.com/parleykit/parley/internal/egress"
	"github.com/parleykit/parley/internal/httpserver"
	"github.com/parleykit/parley/internal/issuer"
	"github.com/parleykit/parley/internal/keys"
)

// Server is a running issuer.
type Server struct {
	*Host
	Issuer *issuer.Issuer
	Keys   *keys.Dir
}

// Start starts an issuer. Without Keys it makes some in a folder of the test;
// its Origin is that of the server.
func Start(t testing.TB, o issuer.Options) *Server {
	t.Helper()
	if o.Keys == nil {
		dir, err := keys.Open(t.TempDir() + "/keys")
		if err != nil {
			t.Fatalf("making the issuer's keys: %v", err)
		}
		o.Keys = dir
	}
	mux := http.NewServeMux()
	s := &Server{Host: StartHost(t, mux), Keys: o.Keys}
	var err error
	if o.Origin, err = httpserver.ParseOrigin(s.Origin); err != nil {
		t.Fatalf("naming the issuer: %v", err)
	}
	if s.Issuer, err = issuer.New(o); err != nil {
		t.Fatalf("making the issuer: %v", err)
	}
	for _, route := range s.Issuer.Routes() {
		mux.Handle(route.Method+" "+route.Pattern, route.Handler)
	}
	return s
}

// Host is an https server with a public name on a loopback port.
type Host struct {
	Origin  string         // https://example.com:port
	RootCAs *x509.CertPool // believes every Host
	Client  *http.Client   // reaches every Host by its Origin
}

// StartHost starts a server with any handler, such as a hostile issuer.
func StartHost(t testing.TB, handler http.Handler) *Host {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError) // clients that believe nothing
	server.StartTLS()
	t.Cleanup(server.Close)
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatalf("naming the server: %v", err)
	}
	h := &Host{Origin: "https://" + net.JoinHostPort("example.com", port), RootCAs: x509.NewCertPool()}
	h.RootCAs.AddCert(server.Certificate())
	transport := server.Client().Transport.(*http.Transport).Clone()
	transport.DialContext = Dialer().DialContext
	h.Client = &http.Client{Transport: transport}
	t.Cleanup(h.Client.CloseIdleConnections)
	return h
}

// Dialer leads every name to the loopback address.
func Dialer() *egress.Dialer {
	return egress.New(egress.Options{AllowLoopback: true, Resolver: loopback{}})
}

// Resolver makes a resolver that reaches every Host. Options that are empty
// are filled in.
func (h *Host) Resolver(t testing.TB, o issuer.ResolverOptions) *issuer.Resolver {
	t.Helper()
	if o.Dialer == nil {
		o.Dialer = Dialer()
	}
	if o.RootCAs == nil {
		o.RootCAs = h.RootCAs
	}
	r, err := issuer.NewResolver(o)
	if err != nil {
		t.Fatalf("making the resolver: %v", err)
	}
	return r
}

// loopback is a name server that knows one address.
type loopback struct{}

// LookupNetIP implements egress.Resolver.
func (loopback) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
}
