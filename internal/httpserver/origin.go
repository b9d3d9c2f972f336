package httpserver

import (
	"errors"
	"fmt"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// ErrOrigin means a request from a page that may not make it.
var ErrOrigin = errors.New("httpserver: request from a foreign origin")

// Origin is scheme, host and port of a server (RFC 6454): http or https, the
// host in lower case, the port only when it is not the scheme's own.
type Origin struct{ scheme, host string }

// ParseOrigin reads "https://host[:port]". A path other than "/", user,
// query or fragment is an error.
func ParseOrigin(text string) (Origin, error) {
	u, err := url.Parse(text)
	if err != nil || len(text) > 300 {
		return Origin{}, fmt.Errorf("httpserver: origin is not a URL")
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return Origin{}, fmt.Errorf("httpserver: origin must begin with http:// or https://")
	case u.Hostname() == "" || strings.ContainsFunc(u.Host, notOfHost):
		return Origin{}, fmt.Errorf("httpserver: origin has no usable host")
	case u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || u.Path != "" && u.Path != "/":
		return Origin{}, fmt.Errorf("httpserver: origin is scheme and host only")
	}
	return Origin{u.Scheme, canonicalHost(u.Scheme, u.Host)}, nil
}

// notOfHost are the characters that no host has: names beyond ASCII are written
// as xn--… (RFC 5891).
func notOfHost(r rune) bool { return r <= ' ' || r >= 0x7f || strings.ContainsRune("%,\"<>\\", r) }

// canonicalHost lowers a host and drops the scheme's own port.
func canonicalHost(scheme, host string) string {
	host = strings.ToLower(host)
	name, port, err := net.SplitHostPort(host)
	if err != nil || port != map[string]string{"http": "80", "https": "443"}[scheme] {
		return host
	}
	if strings.Contains(name, ":") {
		return "[" + name + "]"
	}
	return name
}

// String is the origin as URLs and the Origin header write it.
func (o Origin) String() string { return o.scheme + "://" + o.host }

// WebSocket is the origin with ws or wss for http or https.
func (o Origin) WebSocket() string { return "ws" + strings.TrimPrefix(o.String(), "http") }

// Host is the host with its port unless that is the scheme's own.
func (o Origin) Host() string { return o.host }

// Secure reports whether the scheme is https.
func (o Origin) Secure() bool { return o.scheme == "https" }

// Loopback reports whether the host names this machine alone.
func (o Origin) Loopback() bool { return IsLoopback(o.host) }

// IsLoopback reports whether host, or host:port, names this machine alone.
func IsLoopback(host string) bool { return loopbackHost(hostname(host)) }

func hostname(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return strings.Trim(host, "[]")
}

func loopbackHost(name string) bool {
	if name == "localhost" || strings.HasSuffix(name, ".localhost") {
		return true
	}
	addr, err := netip.ParseAddr(name)
	return err == nil && addr.Unmap().IsLoopback()
}

// serves reports whether a Host header names this origin.
func (o Origin) serves(host string) bool { return canonicalHost(o.scheme, host) == o.host }

// CheckWebSocket tells whether a WebSocket may be opened: from any page while
// the origin is public, from its own pages or from programs (which send no
// Origin) while it is loopback. ErrOrigin otherwise.
func (o Origin) CheckWebSocket(r *http.Request) error {
	if !o.Loopback() {
		return nil
	}
	return o.checkOwn(r, true)
}

// CheckCookie tells whether a request that is authenticated by a cookie may
// act. GET and HEAD must not come from a foreign page. Every other method needs
// the own Origin and either JSON or, when validToken is not nil, a form whose
// token it accepts. ErrOrigin otherwise. Requests authenticated by a bearer
// token or a signature need no such check.
func (o Origin) CheckCookie(r *http.Request, validToken func(*http.Request) bool) error {
	safe := r.Method == http.MethodGet || r.Method == http.MethodHead
	if err := o.checkOwn(r, safe); err != nil || safe {
		return err
	}
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch {
	case err == nil && media == "application/json":
		return nil
	case err == nil && isForm(media) && validToken != nil && validToken(r):
		return nil
	}
	return fmt.Errorf("%w: neither JSON nor a form with a valid token", ErrOrigin)
}

func isForm(media string) bool {
	return media == "application/x-www-form-urlencoded" || media == "multipart/form-data"
}

// checkOwn compares the Origin header; a missing one passes when allowed.
func (o Origin) checkOwn(r *http.Request, missing bool) error {
	values := r.Header.Values("Origin")
	switch {
	case len(values) == 0 && missing:
		return nil
	case len(values) == 1 && values[0] == o.String():
		return nil
	}
	return ErrOrigin
}

// PublicRead lets pages of any origin read the answer. It is for reads that
// anyone may make without credentials.
func PublicRead(w http.ResponseWriter) { w.Header().Set("Access-Control-Allow-Origin", "*") }
