package httpserver

import (
	"log/slog"
	"net/http"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// ServeHTTP answers one request with all rules of the server applied. It is
// exported for tests that need no listener.
func (s *Server) ServeHTTP(writer http.ResponseWriter, r *http.Request) {
	start := s.opts.Now()
	w := &response{ResponseWriter: writer, server: s}
	s.metrics.inFlight.Inc()
	defer func() {
		s.metrics.inFlight.Dec()
		aborted := s.recovered(w, r, recover())
		elapsed := s.opts.Now().Sub(start)
		s.metrics.observe(w, elapsed)
		s.logger.DebugContext(r.Context(), "request", "method", method(r), "owner", w.owner, "status", w.status,
			"duration", elapsed, "remote", network(s.ClientIP(r)))
		if aborted {
			panic(http.ErrAbortHandler) // net/http cuts the connection without a word
		}
	}()
	s.secure(w.Header())
	if !s.origin.serves(r.Host) {
		Problem(w, r, http.StatusMisdirectedRequest, "misdirected", "This server is "+s.origin.String()+".")
		return
	}
	if _, pattern := s.mux.Handler(r); pattern == "" {
		Problem(w, r, http.StatusNotFound, "not_found", "Nothing is served here.")
		return
	}
	s.mux.ServeHTTP(w, r)
}

// method is the request's method for the log, from a closed set.
func method(r *http.Request) string {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return r.Method
	}
	return "other"
}

// recovered deals with a handler's panic. It answers when nothing was sent yet
// and reports whether the connection has to be cut instead.
func (s *Server) recovered(w *response, r *http.Request, value any) (cut bool) {
	if value == nil {
		return false
	}
	if value == http.ErrAbortHandler {
		return true
	}
	s.metrics.panics.Inc()
	s.logger.LogAttrs(r.Context(), slog.LevelError, "handler panicked",
		slog.String("owner", w.owner), slog.Any("err", value), slog.String("stack", string(debug.Stack())))
	if w.hijacked || w.status != 0 {
		w.status = http.StatusInternalServerError
		return !w.hijacked
	}
	Problem(w, r, http.StatusInternalServerError, "internal", "The server made a mistake; it has been noted.")
	return false
}

// secure sets the headers every answer has; a handler may replace them.
func (s *Server) secure(header http.Header) {
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("X-Frame-Options", "DENY")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Content-Security-Policy", "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	if s.origin.Secure() {
		header.Set("Strict-Transport-Security", "max-age=31536000")
	}
}

// observerHandler answers on the metrics listener.
func (s *Server) observerHandler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.opts.Registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, r *http.Request) { plain(w, http.StatusOK, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if s.draining.Load() {
			plain(w, http.StatusServiceUnavailable, "draining")
		} else if err := s.opts.Ready(); err != nil {
			plain(w, http.StatusServiceUnavailable, err.Error())
		} else {
			plain(w, http.StatusOK, "ready")
		}
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.secure(w.Header())
		if !s.opts.AllowRemoteMetrics && !IsLoopback(r.Host) {
			Problem(w, r, http.StatusMisdirectedRequest, "misdirected", "Ask for a loopback address.")
			return
		}
		mux.ServeHTTP(w, r)
	})
}

func plain(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text + "\n"))
}
