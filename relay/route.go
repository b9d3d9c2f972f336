package relay

import (
	"mime"
	"net/http"
	"strings"

	"github.com/coder/websocket"

	"github.com/parleykit/parley/internal/httpserver"
)

// informationType is the media type of NIP-11.
const informationType = "application/nostr+json"

// Routes returns what the relay answers: under "/" WebSocket requests, requests
// for the relay information document and calls of the management, everything
// else there being for others; under "/relay/" pages for people.
func (r *Relay) Routes() []httpserver.Route {
	return append([]httpserver.Route{
		{
			Method: http.MethodGet, Pattern: "/{$}", Owner: "relay", Summary: "Nostr relay (WebSocket, NIP-01)",
			Match: isUpgrade, Handler: http.HandlerFunc(r.serveWebSocket),
		},
		{
			Method: http.MethodGet, Pattern: "/{$}", Owner: "relay", Summary: "relay information document (NIP-11)",
			Match: wantsInformation, Handler: http.HandlerFunc(r.serveInformation),
		},
		{
			Method: http.MethodOptions, Pattern: "/{$}", Owner: "relay", Summary: "preflight of the relay information document",
			Match: isPreflight, Handler: http.HandlerFunc(r.serveInformation),
		},
		{
			Method: http.MethodPost, Pattern: "/{$}", Owner: "relay", Summary: "relay management (NIP-86), for its administrators",
			Match: isManagement, MaxBody: maxCall + 1, Handler: http.HandlerFunc(r.serveManagement),
		},
	}, r.pageRoutes()...)
}

// isUpgrade reports whether req asks for a WebSocket. Connection and Upgrade
// are lists without regard to case (RFC 9110, section 7.8).
func isUpgrade(req *http.Request) bool {
	return hasToken(req.Header, "Connection", "upgrade") && hasToken(req.Header, "Upgrade", "websocket")
}

func hasToken(h http.Header, name, token string) bool {
	for _, line := range h.Values(name) {
		for item := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(strings.TrimSpace(item), token) {
				return true
			}
		}
	}
	return false
}

// wantsInformation reports whether the Accept list of req names the type of
// NIP-11, in any place and case, unless it does so with q=0.
func wantsInformation(req *http.Request) bool {
	for _, line := range req.Header.Values("Accept") {
		for item := range strings.SplitSeq(line, ",") {
			media, params, err := mime.ParseMediaType(item)
			if err == nil && media == informationType && !isZero(params["q"]) {
				return true
			}
		}
	}
	return false
}

// isZero reports whether a quality value is there and zero (RFC 9110, section
// 12.4.2).
func isZero(q string) bool { return q != "" && strings.Trim(q, "0.") == "" }

// isPreflight reports whether a page of another origin asks whether it may
// read the document, which needs no credential, or call the management, whose
// credential is in the request itself.
func isPreflight(req *http.Request) bool {
	method := req.Header.Get("Access-Control-Request-Method")
	return method == http.MethodGet || method == http.MethodPost
}

// serveWebSocket upgrades the request and serves the connection to its end.
func (r *Relay) serveWebSocket(w http.ResponseWriter, req *http.Request) {
	if err := r.opts.CheckOrigin(req); err != nil {
		r.metrics.refused.WithLabelValues(refusedOrigin).Inc()
		httpserver.Problem(w, req, http.StatusForbidden, "origin_refused", "This page may not connect here.")
		return
	}
	address := r.opts.ClientIP(req)
	if reason := r.admit(address); reason != "" {
		r.metrics.refused.WithLabelValues(reason).Inc()
		if reason == refusedMemory {
			r.relieve(connectionBytes)
		}
		w.Header().Set("Retry-After", "10")
		httpserver.Problem(w, req, http.StatusServiceUnavailable, "too_many_connections", "No more connections are taken now.")
		return
	}
	response := &wired{ResponseWriter: w, timeout: r.limits().WriteTimeout}
	// The origin was checked above, by the rule of the whole server.
	conn, err := websocket.Accept(response, req, &websocket.AcceptOptions{InsecureSkipVerify: true})
	if err != nil {
		r.leave(address)
		return
	}
	go func() { // what the request holds is let go
		defer r.leave(address)
		r.serve(conn, response.wire, address)
	}()
}
