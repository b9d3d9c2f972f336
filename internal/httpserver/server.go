package httpserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Bounds that no option changes.
const (
	maxHeader         = 32 << 10
	readHeaderTimeout = 10 * time.Second
	readTimeout       = 60 * time.Second
	writeTimeout      = 90 * time.Second
	idleTimeout       = 2 * time.Minute
)

// times cut clients that are slow to ask or to read.
type times struct{ header, read, write, idle time.Duration }

// Options of New.
type Options struct {
	// Listen is host:port of the public listener; port 0 takes a free one, ""
	// is none, for a process that only shows its metrics.
	Listen string
	// MetricsListen is host:port of /metrics, /healthz and /readyz; "" for none.
	MetricsListen string
	// AllowRemoteMetrics permits a MetricsListen outside of loopback.
	AllowRemoteMetrics bool
	// Origin is how clients name this server, "https://host[:port]"; "" means
	// http (https with TLS files) on loopback with the port listened on.
	Origin string
	// TrustedProxies are the peers whose X-Forwarded-For counts.
	TrustedProxies []netip.Prefix
	// TLSCert and TLSKey are PEM files; both or neither.
	TLSCert, TLSKey string
	// MaxBody is the largest request body in bytes; 0 means 1 MiB.
	MaxBody int64
	// DrainTimeout is how long Run waits for open requests and upgraded
	// connections at its end; 0 means 10 s.
	DrainTimeout time.Duration
	// Logger; nil discards.
	Logger *slog.Logger
	// Registry takes the metrics and is what /metrics shows; nil makes one
	// with NewRegistry.
	Registry *prometheus.Registry
	// Ready tells /readyz whether the services work; nil is always.
	Ready func() error
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

func (o Options) withDefaults() Options {
	if o.MaxBody <= 0 {
		o.MaxBody = 1 << 20
	}
	if o.DrainTimeout <= 0 {
		o.DrainTimeout = 10 * time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Registry == nil {
		o.Registry = NewRegistry()
	}
	if o.Ready == nil {
		o.Ready = func() error { return nil }
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// Server is a bound, not yet or already running, HTTP front.
type Server struct {
	opts     Options
	logger   *slog.Logger
	metrics  *metrics
	origin   Origin
	listener net.Listener
	observer net.Listener // metrics; nil for none
	inside   *inside      // connections of this process
	cert     *certificate // nil for plain HTTP
	mux      *http.ServeMux
	upgraded upgradedConns
	draining atomic.Bool
	times    times

	mu      sync.Mutex // guards groups, running
	groups  map[string]*routeGroup
	running bool
}

// New checks the options and binds both listeners, or neither. A port that is
// taken, a certificate that cannot be read and a metrics listener outside of
// loopback are errors.
func New(opts Options) (*Server, error) {
	opts = opts.withDefaults()
	s := &Server{
		opts: opts, logger: opts.Logger.With("component", "http"),
		mux: http.NewServeMux(), inside: newInside(), groups: map[string]*routeGroup{},
		times: times{readHeaderTimeout, readTimeout, writeTimeout, idleTimeout},
	}
	if err := s.loadCertificate(); err != nil {
		return nil, err
	}
	if err := s.bind(); err != nil {
		s.Close()
		return nil, err
	}
	if err := s.resolveOrigin(); err != nil {
		s.Close()
		return nil, err
	}
	s.metrics = newMetrics(opts.Registry)
	return s, nil
}

func (s *Server) loadCertificate() error {
	switch {
	case s.opts.TLSCert == "" && s.opts.TLSKey == "":
		return nil
	case s.opts.TLSCert == "" || s.opts.TLSKey == "":
		return errors.New("loading certificate: needs both a certificate and a key file")
	}
	s.cert = &certificate{certFile: s.opts.TLSCert, keyFile: s.opts.TLSKey, now: s.opts.Now, logger: s.logger}
	return s.cert.load()
}

func (s *Server) bind() (err error) {
	if s.opts.MetricsListen != "" {
		if !s.opts.AllowRemoteMetrics && !IsLoopback(s.opts.MetricsListen) {
			return fmt.Errorf("listening for metrics: %s is not a loopback address", s.opts.MetricsListen)
		}
		if s.observer, err = net.Listen("tcp", s.opts.MetricsListen); err != nil {
			return listenError("metrics.listen", err)
		}
	}
	if s.opts.Listen == "" {
		return nil
	}
	if s.listener, err = net.Listen("tcp", s.opts.Listen); err != nil {
		return listenError("listen", err)
	}
	return nil
}

// listenError says what to change when an address is taken.
func listenError(key string, err error) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%w; is another server running? otherwise choose another %s", err, key)
	}
	return fmt.Errorf("%s: %w", key, err)
}

// resolveOrigin takes the configured origin or derives one from the listener.
func (s *Server) resolveOrigin() (err error) {
	if s.listener == nil {
		return nil
	}
	if s.opts.Origin != "" {
		s.origin, err = ParseOrigin(s.opts.Origin)
		return err
	}
	scheme := "http"
	if s.cert != nil {
		scheme = "https"
	}
	bound := s.listener.Addr().(*net.TCPAddr).AddrPort()
	addr := bound.Addr().Unmap()
	switch {
	case addr.IsUnspecified():
		addr = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	case !addr.IsLoopback():
		return fmt.Errorf("listening on %s needs an origin, the name clients use", bound)
	}
	s.origin, err = ParseOrigin(scheme + "://" + netip.AddrPortFrom(addr, bound.Port()).String())
	return err
}

// Addr is the public listener's address; nil for none.
func (s *Server) Addr() net.Addr { return addrOf(s.listener) }

// MetricsAddr is the metrics listener's address; nil for none.
func (s *Server) MetricsAddr() net.Addr { return addrOf(s.observer) }

func addrOf(listener net.Listener) net.Addr {
	if listener == nil {
		return nil
	}
	return listener.Addr()
}

// Origin is how clients name this server, given or derived.
func (s *Server) Origin() Origin { return s.origin }

// Registry is what /metrics shows.
func (s *Server) Registry() *prometheus.Registry { return s.opts.Registry }

// ClientIP is the address the request came from: the peer's, or what trusted
// proxies say in X-Forwarded-For, read from right to left up to the first
// address that is none of theirs. The zero Addr when there is none.
func (s *Server) ClientIP(r *http.Request) netip.Addr { return clientIP(r, s.opts.TrustedProxies) }

// CheckWebSocketOrigin is Origin.CheckWebSocket of the own origin.
func (s *Server) CheckWebSocketOrigin(r *http.Request) error { return s.origin.CheckWebSocket(r) }

// RequireSameOrigin is Origin.CheckCookie of the own origin.
func (s *Server) RequireSameOrigin(r *http.Request, validToken func(*http.Request) bool) error {
	return s.origin.CheckCookie(r, validToken)
}

// Close releases the listeners of a server that is not going to run.
func (s *Server) Close() {
	_ = s.inside.Close()
	for _, listener := range []net.Listener{s.listener, s.observer} {
		if listener != nil {
			_ = listener.Close()
		}
	}
}

// Run serves until ctx ends, then drains: new connections are refused, open
// requests finish, then the context of upgraded connections ends, and what is
// left after DrainTimeout is cut. A drained server returns nil. Run is called
// once.
func (s *Server) Run(ctx context.Context) error {
	s.mu.Lock()
	if s.running {
		s.mu.Unlock()
		return errors.New("httpserver: runs already")
	}
	s.running = true
	s.mu.Unlock()

	base, endRequests := context.WithCancel(context.WithoutCancel(ctx))
	defer endRequests()
	public := s.httpServer(s, base)
	if s.cert != nil {
		public.TLSConfig = s.cert.config()
	}
	failed := make(chan error, 3)
	if s.listener != nil {
		go func() { failed <- s.servePublic(public) }()
		go func() { failed <- public.Serve(s.inside) }()
		s.logger.InfoContext(ctx, "serving", "origin", s.origin.String(), "listen", s.Addr().String())
	}
	private := s.httpServer(s.observerHandler(), base)
	if s.observer != nil {
		go func() { failed <- private.Serve(s.observer) }()
	}
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
		err = fmt.Errorf("serving: %w", err)
	}
	return errors.Join(err, s.drain(public, private, endRequests))
}

func (s *Server) servePublic(server *http.Server) error {
	if s.cert == nil {
		return server.Serve(s.listener)
	}
	return server.ServeTLS(s.listener, "", "")
}

func (s *Server) httpServer(handler http.Handler, base context.Context) *http.Server {
	var protocols http.Protocols // HTTP/1 alone: WebSockets need it, and nothing here gains by HTTP/2
	protocols.SetHTTP1(true)
	return &http.Server{
		Handler:           handler,
		Protocols:         &protocols,
		ReadHeaderTimeout: s.times.header,
		ReadTimeout:       s.times.read,  // a taken-over connection has no deadline
		WriteTimeout:      s.times.write, // a stream lifts it by http.ResponseController
		IdleTimeout:       s.times.idle,
		MaxHeaderBytes:    maxHeader,
		BaseContext:       func(net.Listener) context.Context { return base },
		ErrorLog:          slog.NewLogLogger(s.logger.Handler(), slog.LevelDebug),
	}
}

// drain ends both servers; the metrics one last.
func (s *Server) drain(public, private *http.Server, endRequests context.CancelFunc) error {
	s.draining.Store(true)
	ctx, cancel := context.WithTimeout(context.Background(), s.opts.DrainTimeout)
	defer cancel()
	s.logger.InfoContext(ctx, "draining")
	if err := public.Shutdown(ctx); err != nil {
		s.logger.WarnContext(ctx, "cutting open requests", "err", err)
		_ = public.Close()
	}
	endRequests()
	select {
	case <-s.upgraded.drained():
	case <-ctx.Done():
	}
	return errors.Join(s.upgraded.closeAll(), private.Close())
}
