package httpserver

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// maxForwarded bounds how many hops of X-Forwarded-For are looked at.
const maxForwarded = 32

// clientIP is the address of the peer or, when the peer is a trusted proxy, the
// last entry of X-Forwarded-For that no trusted proxy wrote about itself. The
// zero Addr when the connection has no IP address.
func clientIP(r *http.Request, trusted []netip.Prefix) netip.Addr {
	client, ok := parseHop(r.RemoteAddr)
	if !ok {
		return netip.Addr{}
	}
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for _, hop := range slices.Backward(hops[max(0, len(hops)-maxForwarded):]) {
		if !isTrusted(client, trusted) {
			return client
		}
		next, ok := parseHop(strings.TrimSpace(hop))
		if !ok { // the proxy vouches for nothing readable: stay with the proxy
			return client
		}
		client = next
	}
	return client
}

func isTrusted(addr netip.Addr, trusted []netip.Prefix) bool {
	return slices.ContainsFunc(trusted, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// parseHop reads an address with or without port and brackets.
func parseHop(text string) (netip.Addr, bool) {
	if host, _, err := net.SplitHostPort(text); err == nil {
		text = host
	}
	addr, err := netip.ParseAddr(strings.Trim(text, "[]"))
	if err != nil {
		return netip.Addr{}, false
	}
	return addr.Unmap().WithZone(""), true
}

// network is the address cut to /24 or /48, as logs show it.
func network(addr netip.Addr) string {
	if !addr.IsValid() {
		return "unknown"
	}
	bits := 24
	if addr.Is6() {
		bits = 48
	}
	return netip.PrefixFrom(addr, bits).Masked().String()
}
