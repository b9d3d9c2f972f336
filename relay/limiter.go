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
type budget struct {
	events, requests *rate.Limiter
	vanishing        *rate.Limiter // of an address
}

// Requests to vanish of one address, lastingly and at once: each leaves a mark
// for good, and neither lists nor the plugin refuse one.
const (
	vanishPause = 6 * time.Second
	vanishBurst = 100
)

// generations remembers a bounded number of things. When the younger
// generation is full it becomes the older one and the older one is forgotten:
// what is in use is carried over.
type generations[K comparable, V any] struct{ younger, older map[K]V }

// get returns what is remembered of k, or makes it. At most limit are held.
func (g *generations[K, V]) get(k K, limit int, make func() V) V {
	if v, ok := g.younger[k]; ok {
		return v
	}
	v, ok := g.older[k]
	if !ok {
		v = make()
	}
	if g.younger == nil || 2*len(g.younger) >= limit {
		g.older, g.younger = g.younger, map[K]V{}
	}
	g.younger[k] = v
	return v
}

// has reports whether k is remembered.
func (g *generations[K, V]) has(k K) bool {
	_, younger := g.younger[k]
	_, older := g.older[k]
	return younger || older
}

// keyTable holds what each author may publish.
type keyTable struct {
	mu      sync.Mutex
	limits  Limits
	budgets generations[string, *rate.Limiter]
}

// budget returns the budget of the author.
func (t *keyTable) budget(pubkey string) *rate.Limiter {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.budgets.get(pubkey, t.limits.Addresses, func() *rate.Limiter {
		return newLimiter(t.limits.KeyEventRate, t.limits.KeyEventBurst)
	})
}

// limit sets new limits and begins again.
func (t *keyTable) limit(l Limits) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.limits, t.budgets = l, generations[string, *rate.Limiter]{}
}

// addressTable holds the budget of each address, its connections and its
// reconciliations.
type addressTable struct {
	mu              sync.Mutex
	limits          Limits
	budgets         generations[netip.Addr, *budget]
	sessions        tally // open connections
	reconciliations tally // open ones
}

func newAddressTable(l Limits) *addressTable {
	return &addressTable{limits: l, sessions: tally{}, reconciliations: tally{}}
}

// tally counts what each network has open.
type tally map[netip.Addr]int

// add counts one more and reports whether the address may have it. A negative
// limit is none.
func (t tally) add(a netip.Addr, limit int) bool {
	a = network(a)
	if limit >= 0 && t[a] >= limit {
		return false
	}
	t[a]++
	return true
}

// remove undoes one add.
func (t tally) remove(a netip.Addr) {
	a = network(a)
	if t[a]--; t[a] <= 0 {
		delete(t, a)
	}
}

// limit sets new limits; budgets begin again for new connections.
func (t *addressTable) limit(l Limits) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.limits, t.budgets = l, generations[netip.Addr, *budget]{}
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
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.budgets.get(network(a), t.limits.Addresses, func() *budget {
		return &budget{
			events:   newLimiter(t.limits.AddressEventRate, t.limits.AddressEventBurst),
			requests: newLimiter(t.limits.AddressRequestRate, t.limits.AddressRequestBurst),

			vanishing: rate.NewLimiter(rate.Every(vanishPause), vanishBurst),
		}
	})
}

// open counts a connection and reports whether the address may have it.
func (t *addressTable) open(a netip.Addr) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.sessions.add(a, t.limits.ConnectionsPerAddress)
}

// close undoes one open.
func (t *addressTable) close(a netip.Addr) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sessions.remove(a)
}

// reconcile counts a reconciliation and reports whether the address may have it.
func (t *addressTable) reconcile(a netip.Addr) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.reconciliations.add(a, t.limits.ReconciliationsPerAddress)
}

// reconciled undoes one reconcile.
func (t *addressTable) reconciled(a netip.Addr) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reconciliations.remove(a)
}
