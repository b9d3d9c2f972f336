package egress

import "net/netip"

// class says why an address is not global; "" is global unicast.
type class string

const (
	global      class = ""
	loopback    class = "loopback"
	private     class = "private"    // RFC 1918, RFC 6598, RFC 4193
	linkLocal   class = "link-local" // with the cloud's metadata services
	multicast   class = "multicast"
	unspecified class = "unspecified"
	reserved    class = "reserved" // documentation, benchmarking, protocol use
)

// special are the ranges inside otherwise global space, and the classes of the
// rest of IPv4. The first match decides.
var special = []struct {
	prefix netip.Prefix
	class  class
}{
	{netip.MustParsePrefix("127.0.0.0/8"), loopback},
	{netip.MustParsePrefix("10.0.0.0/8"), private},
	{netip.MustParsePrefix("172.16.0.0/12"), private},
	{netip.MustParsePrefix("192.168.0.0/16"), private},
	{netip.MustParsePrefix("100.64.0.0/10"), private},
	{netip.MustParsePrefix("169.254.0.0/16"), linkLocal},
	{netip.MustParsePrefix("0.0.0.0/8"), unspecified},
	{netip.MustParsePrefix("192.0.0.0/24"), reserved},    // RFC 6890
	{netip.MustParsePrefix("192.0.2.0/24"), reserved},    // RFC 5737
	{netip.MustParsePrefix("192.88.99.0/24"), reserved},  // RFC 7526
	{netip.MustParsePrefix("198.18.0.0/15"), reserved},   // RFC 2544
	{netip.MustParsePrefix("198.51.100.0/24"), reserved}, // RFC 5737
	{netip.MustParsePrefix("203.0.113.0/24"), reserved},  // RFC 5737
	{netip.MustParsePrefix("224.0.0.0/4"), multicast},
	{netip.MustParsePrefix("240.0.0.0/4"), reserved},   // RFC 1112 and broadcast
	{netip.MustParsePrefix("2001::/23"), reserved},     // RFC 2928: Teredo, benchmarking, ORCHID
	{netip.MustParsePrefix("2001:db8::/32"), reserved}, // RFC 3849
	{netip.MustParsePrefix("3fff::/20"), reserved},     // RFC 9637
	{netip.MustParsePrefix("::1/128"), loopback},
	{netip.MustParsePrefix("::/128"), unspecified},
	{netip.MustParsePrefix("fc00::/7"), private},       // RFC 4193
	{netip.MustParsePrefix("64:ff9b:1::/48"), private}, // RFC 8215
	{netip.MustParsePrefix("fe80::/10"), linkLocal},
	{netip.MustParsePrefix("fec0::/10"), private}, // RFC 3879
	{netip.MustParsePrefix("ff00::/8"), multicast},
}

var (
	sixToFour     = netip.MustParsePrefix("2002::/16")    // RFC 3056: IPv4 in bytes 2 to 5
	nat64         = netip.MustParsePrefix("64:ff9b::/96") // RFC 6052: IPv4 in bytes 12 to 15
	globalUnicast = netip.MustParsePrefix("2000::/3")     // RFC 4291
)

// classOf looks an address up, seen through its IPv4-mapped, 6to4 and NAT64
// forms. An address with a zone is link-local.
func classOf(addr netip.Addr) class {
	addr = addr.Unmap()
	if !addr.IsValid() {
		return unspecified
	}
	if addr.Zone() != "" {
		return linkLocal
	}
	for _, known := range special {
		if known.prefix.Contains(addr) {
			return known.class
		}
	}
	if addr.Is4() {
		return global
	}
	bytes := addr.As16()
	switch {
	case sixToFour.Contains(addr):
		return classOf(netip.AddrFrom4([4]byte(bytes[2:6])))
	case nat64.Contains(addr):
		return classOf(netip.AddrFrom4([4]byte(bytes[12:16])))
	case !globalUnicast.Contains(addr):
		return reserved
	}
	return global
}
