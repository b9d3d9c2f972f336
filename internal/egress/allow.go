package egress

import (
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Allow is one exception the owner configured.
type Allow struct {
	prefix netip.Prefix // valid for addresses and networks
	host   string       // lower-case name otherwise
	port   uint16       // 0 is any
}

var hostPattern = regexp.MustCompile(`^[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*$`)

// ParseAllow reads an exception: "192.168.1.5", "10.0.0.0/8", "fd00::/8",
// "[fd00::1]:1883", "broker.lan" or "broker.lan:1883". Without a port it holds
// for every port. A name allows whatever address it resolves to.
func ParseAllow(text string) (Allow, error) {
	if prefix, err := netip.ParsePrefix(text); err == nil {
		if prefix != prefix.Masked() {
			return Allow{}, fmt.Errorf("egress: network %.60q has host bits, want %s", text, prefix.Masked())
		}
		return Allow{prefix: prefix}, nil
	}
	host, port, err := splitPort(text)
	if err != nil {
		return Allow{}, err
	}
	host = canonicalHost(host)
	if addr, err := netip.ParseAddr(host); err == nil && addr.Zone() == "" {
		addr = addr.Unmap()
		return Allow{prefix: netip.PrefixFrom(addr, addr.BitLen()), port: port}, nil
	}
	if len(host) > 253 || !hostPattern.MatchString(host) {
		return Allow{}, fmt.Errorf("egress: %.60q is neither an address, a network nor a host name", text)
	}
	return Allow{host: host, port: port}, nil
}

// splitPort cuts ":port" off when there is one.
func splitPort(text string) (string, uint16, error) {
	if _, err := netip.ParseAddr(text); err == nil || !strings.Contains(text, ":") {
		return text, 0, nil
	}
	host, digits, err := net.SplitHostPort(text)
	if err != nil {
		return "", 0, fmt.Errorf("egress: %.60q is not host:port", text)
	}
	port, err := strconv.ParseUint(digits, 10, 16)
	if err != nil || port == 0 {
		return "", 0, fmt.Errorf("egress: %.60q has no usable port", text)
	}
	return host, uint16(port), nil
}

func canonicalHost(host string) string { return strings.ToLower(strings.TrimSuffix(host, ".")) }

// String is the exception as ParseAllow reads it.
func (a Allow) String() string {
	text := a.host
	if text == "" {
		text = a.prefix.String()
		if a.prefix.IsSingleIP() {
			text = a.prefix.Addr().String()
		}
	}
	if a.port == 0 {
		return text
	}
	return net.JoinHostPort(text, strconv.Itoa(int(a.port)))
}

// covers reports whether the exception holds for an address that host (a
// canonical name, or the address itself) led to.
func (a Allow) covers(host string, addr netip.Addr, port uint16) bool {
	if a.port != 0 && a.port != port {
		return false
	}
	if a.host != "" {
		return a.host == host
	}
	return a.prefix.Contains(addr)
}

func anyCovers(allowed []Allow, host string, addr netip.Addr, port uint16) bool {
	return slices.ContainsFunc(allowed, func(a Allow) bool { return a.covers(host, addr, port) })
}
