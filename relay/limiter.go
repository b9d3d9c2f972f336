package relay

import (
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// newLimiter returns a limiter, or nil for no limit.
func newLimiter(perSecond, burst int) *rate.Limiter {
	if perSecond < 0 || burst < 0 {
		return nil
	}
	return rate.NewLimiter(rate.Limit(perSecond), burst)
}

// allow takes a token when there is one; a nil limiter has always one.
func allow(l *rate.Limiter, now time.Time) bool { return l == nil || l.AllowN(now, 1) }

// budget is what one peer, or one address, may send.
type budget struct{ events, requests *rate.Limiter }

// addressTable holds the budget of each address and bounds how many are
// remembered. When the younger generation is full it becomes the older one
// and the older one is forgotten: an address in use is carried over.
type addressTable struct {
	limits Limits

	mu       sync.Mutex
	younger  map[netip.Addr]*budget
	older    map[netip.Addr]*budget
	sessions map[netip.Addr]int // open connections
}

func newAddressTable(l Limits) *addressTable {
	return &addressTable{limits: l, younger: map[netip.Addr]*budget{}, sessions: map[netip.Addr]int{}}
}

// network is the unit limits are counted by: an IPv4 address or the /64 of an
// IPv6 address.
func network(a netip.Addr) netip.Addr {
	a = a.Unmap().WithZone("")
	if a.Is6() {
		p, _ := a.Prefix(64)
		return p.Addr()
	}
	return a
}

// budget returns the shared budget of the address.
func (t *addressTable) budget(a netip.Addr) *budget {
	a = network(a)
	t.mu.Lock()
	defer t.mu.Unlock()
	if b, ok := t.younger[a]; ok {
		return b
	}
	b, ok := t.older[a]
	if !ok {
		b = &budget{
			events:   newLimiter(t.limits.AddressEventRate, t.limits.AddressEventBurst),
			requests: newLimiter(t.limits.AddressRequestRate, t.limits.AddressRequestBurst),
		}
	}
	if 2*len(t.younger) >= t.limits.Addresses {
		t.older, t.younger = t.younger, map[netip.Addr]*budget{}
	}
	t.younger[a] = b
	return b
}

// open counts a connection and reports whether the address may have it.
func (t *addressTable) open(a netip.Addr) bool {
	a = network(a)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.limits.ConnectionsPerAddress >= 0 && t.sessions[a] >= t.limits.ConnectionsPerAddress {
		return false
	}
	t.sessions[a]++
	return true
}

// close undoes one open.
func (t *addressTable) close(a netip.Addr) {
	a = network(a)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.sessions[a]--; t.sessions[a] <= 0 {
		delete(t.sessions, a)
	}
}
