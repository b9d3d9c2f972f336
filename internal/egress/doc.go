// Package egress is the one way out: the dialer and HTTP client that every
// outgoing connection of Parley takes.
//
// It exists because addresses come from strangers' cards and messages. A name
// is resolved here, every address it resolves to is checked, and exactly the
// checked addresses are dialed, so a name server cannot answer twice
// differently (DNS rebinding). Refused is every address that is not global
// unicast by the IANA special-purpose registries (RFC 6890 and its updates):
// loopback, private, link-local, shared (RFC 6598), unique local, multicast,
// unspecified, documentation, benchmarking, Teredo, and 6to4 (RFC 3056), NAT64
// (RFC 6052) or IPv4-mapped addresses around such an IPv4 address. Exceptions
// are made by Options only.
//
// Trust: a hostile server may answer slowly, endlessly or with redirects.
// Times, header and body sizes are bounded, at most three redirects are
// followed and each is dialed through the same check; https never becomes
// http. Proxy settings of the environment are ignored. Not implemented: a check
// of the port, outgoing proxies, SOCKS.
//
// A Dialer is safe for concurrent use.
package egress
