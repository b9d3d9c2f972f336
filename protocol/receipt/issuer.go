package receipt

import (
	"net/netip"
	"regexp"
	"strconv"
	"strings"
)

var bareDID = regexp.MustCompile(`^did:[a-z0-9]+:[^#?/]+$`)

// isIssuer reports whether s is an issuer in its one spelling: an https origin
// or a DID without path, query and fragment (WIRE-0.2, section 8).
func isIssuer(s string) bool {
	if len(s) > maxIssuer {
		return false
	}
	if strings.HasPrefix(s, "did:") {
		return bareDID.MatchString(s)
	}
	return isOrigin(s, "https", 443)
}

// isOrigin reports whether s is scheme://host or scheme://host:port in the
// spelling that a browser gives an origin: lower case, ASCII, the default port
// left out, nothing behind.
func isOrigin(s, scheme string, defaultPort uint64) bool {
	authority, found := strings.CutPrefix(s, scheme+"://")
	if !found {
		return false
	}
	host := authority
	if colon := strings.LastIndexByte(authority, ':'); colon > strings.LastIndexByte(authority, ']') {
		host = authority[:colon]
		port := authority[colon+1:]
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == defaultPort || strconv.FormatUint(n, 10) != port {
			return false
		}
	}
	return isHost(host)
}

var (
	hostLabel     = regexp.MustCompile(`^[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?$`)
	numericalPart = regexp.MustCompile(`^([0-9]+|0x[0-9a-f]*)$`)
)

// isHost knows names and addresses in their canonical spelling. A name whose
// last label is a number would be read as an IPv4 address.
func isHost(host string) bool {
	if inner, bracketed := strings.CutPrefix(host, "["); bracketed {
		inner, closed := strings.CutSuffix(inner, "]")
		addr, err := netip.ParseAddr(inner)
		return closed && err == nil && addr.Is6() && addr.Zone() == "" && addr.String() == inner
	}
	if len(host) > 253 {
		return false
	}
	labels := strings.Split(host, ".")
	if numericalPart.MatchString(labels[len(labels)-1]) {
		addr, err := netip.ParseAddr(host)
		return err == nil && addr.Is4() && addr.String() == host
	}
	for _, label := range labels {
		if !hostLabel.MatchString(label) {
			return false
		}
	}
	return true
}
