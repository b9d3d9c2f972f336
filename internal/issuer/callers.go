package issuer

import (
	"net/http"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// What one address may ask of the verification endpoint.
const (
	callsPerSecond = 5
	callBurst      = 20
	maxCallers     = 4096 // addresses remembered
)

// callers bounds what each address asks.
type callers struct {
	mu    sync.Mutex
	known generations[netip.Addr, *rate.Limiter]
}

func newCallers() *callers {
	return &callers{known: generations[netip.Addr, *rate.Limiter]{limit: maxCallers}}
}

// allow takes one call of what is left to an address.
func (c *callers) allow(a netip.Addr, now time.Time) bool {
	a = network(a)
	c.mu.Lock()
	defer c.mu.Unlock()
	limiter, known := c.known.get(a)
	if !known {
		limiter = rate.NewLimiter(callsPerSecond, callBurst)
		c.known.put(a, limiter)
	}
	return limiter.AllowN(now, 1)
}

// network is the unit that is counted: an IPv4 address or the /64 of an IPv6
// address, of which one caller has as many as it likes.
func network(a netip.Addr) netip.Addr {
	a = a.Unmap().WithZone("")
	if a.Is6() {
		prefix, _ := a.Prefix(64)
		return prefix.Addr()
	}
	return a
}

// peer is the address at the other end of the connection.
func peer(r *http.Request) netip.Addr {
	address, _ := netip.ParseAddrPort(r.RemoteAddr)
	return address.Addr()
}
