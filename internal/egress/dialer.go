package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Errors of this package. ErrRefusedAddress and what wraps it name the class of
// an address, never the address.
var (
	// ErrRefusedAddress means that a name or address leads somewhere that is
	// not global and not allowed. Trying again does not help.
	ErrRefusedAddress = errors.New("egress: refused address")
	// ErrAddress means text that is not host:port with a usable port.
	ErrAddress = errors.New("egress: malformed address")
	// ErrTooLarge means an answer over Options.MaxBody.
	ErrTooLarge = errors.New("egress: answer too large")
	// ErrRedirect means a redirect that is not followed.
	ErrRedirect = errors.New("egress: refused redirect")
)

const (
	maxAddresses    = 8                // of one name that are tried
	dialTimeout     = 10 * time.Second // for resolving and connecting
	exchangeTimeout = 30 * time.Second // for a whole HTTP exchange with its body
)

// Resolver turns a name into addresses; *net.Resolver is one. network is "ip",
// "ip4" or "ip6".
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Options of New; the zero value allows global addresses only.
type Options struct {
	// AllowPrivate permits private, shared and unique local addresses; for
	// tests and for servers of one closed network. Link-local stays refused.
	AllowPrivate bool
	// AllowLoopback permits this machine; for a server whose own origin is
	// loopback.
	AllowLoopback bool
	// Allow are the exceptions the owner configured.
	Allow []Allow
	// Self is the own server, reached without leaving the process by
	// HTTPClient; nil for none.
	Self *Self
	// MaxBody is the largest HTTP answer in bytes; 0 means 4 MiB.
	MaxBody int64
	// Resolver; nil is net.DefaultResolver.
	Resolver Resolver
	// Registerer takes the metrics; nil keeps them unregistered.
	Registerer prometheus.Registerer
}

func (o Options) withDefaults() Options {
	if o.MaxBody <= 0 {
		o.MaxBody = 4 << 20
	}
	if o.Resolver == nil {
		o.Resolver = net.DefaultResolver
	}
	return o
}

// Dialer makes outgoing connections.
type Dialer struct {
	opts    Options
	metrics *metrics
	// fromCard forbids exceptions for loopback: see FromCard.
	fromCard bool
}

// New makes a dialer.
func New(opts Options) *Dialer {
	return &Dialer{opts: opts.withDefaults(), metrics: newMetrics(opts.Registerer)}
}

// FromCard is the same dialer for addresses that a card or message named.
// Loopback is then refused even where Options.Allow has an exception for it,
// unless Options.AllowLoopback permits it to everyone.
func (d *Dialer) FromCard() *Dialer {
	strict := *d
	strict.fromCard = true
	return &strict
}

// DialContext connects to host:port over TCP ("tcp", "tcp4", "tcp6"). It fits
// wherever net.Dialer.DialContext does. ErrRefusedAddress when the host is, or
// has among its addresses, one that is not permitted.
func (d *Dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := d.dial(ctx, network, address)
	d.metrics.count(err)
	return conn, err
}

func (d *Dialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	lookup, ok := map[string]string{"tcp": "ip", "tcp4": "ip4", "tcp6": "ip6"}[network]
	if !ok {
		return nil, fmt.Errorf("%w: network is not TCP", ErrAddress)
	}
	host, digits, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("%w: not host:port", ErrAddress)
	}
	port, err := strconv.ParseUint(digits, 10, 16)
	if err != nil || port == 0 || host == "" {
		return nil, fmt.Errorf("%w: no host or no usable port", ErrAddress)
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	addrs, err := d.resolve(ctx, lookup, canonicalHost(host), uint16(port))
	if err != nil {
		return nil, err
	}
	return d.connect(ctx, network, addrs, uint16(port))
}

// resolve returns the addresses of host after checking every one of them.
func (d *Dialer) resolve(ctx context.Context, network, host string, port uint16) ([]netip.Addr, error) {
	addrs := make([]netip.Addr, 1)
	var err error
	if addrs[0], err = netip.ParseAddr(host); err != nil {
		if addrs, err = d.opts.Resolver.LookupNetIP(ctx, network, host); err != nil {
			return nil, fmt.Errorf("resolving host: %w", err)
		}
	}
	if len(addrs) == 0 {
		return nil, errors.New("resolving host: no address")
	}
	for i, addr := range addrs {
		addrs[i] = addr.Unmap()
		if class := classOf(addr); !d.permits(class, host, addrs[i], port) {
			return nil, fmt.Errorf("%w: %s", ErrRefusedAddress, class)
		}
	}
	return addrs[:min(len(addrs), maxAddresses)], nil
}

// permits decides about one address.
func (d *Dialer) permits(class class, host string, addr netip.Addr, port uint16) bool {
	switch {
	case class == global:
		return true
	case class == loopback && d.opts.AllowLoopback, class == private && d.opts.AllowPrivate:
		return true
	case class == loopback && d.fromCard:
		return false
	}
	return anyCovers(d.opts.Allow, host, addr, port)
}

// connect tries the checked addresses one after the other, sharing the time.
func (d *Dialer) connect(ctx context.Context, network string, addrs []netip.Addr, port uint16) (net.Conn, error) {
	var first error
	for i, addr := range addrs {
		conn, err := d.connectOne(ctx, network, netip.AddrPortFrom(addr, port), len(addrs)-i)
		if err == nil {
			return conn, nil
		}
		if first == nil {
			first = err
		}
		if ctx.Err() != nil {
			break
		}
	}
	return nil, fmt.Errorf("connecting: %w", first)
}

func (d *Dialer) connectOne(ctx context.Context, network string, target netip.AddrPort, left int) (net.Conn, error) {
	if deadline, ok := ctx.Deadline(); ok {
		share := time.Until(deadline) / time.Duration(left)
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, max(share, time.Second))
		defer cancel()
	}
	dialer := net.Dialer{ControlContext: only(target)}
	return dialer.DialContext(ctx, network, target.String())
}

// only is the last look before connect(2): the socket goes to the address that
// was checked and to no other.
func only(target netip.AddrPort) func(context.Context, string, string, syscall.RawConn) error {
	return func(_ context.Context, _, address string, _ syscall.RawConn) error {
		actual, err := netip.ParseAddrPort(address)
		if err != nil || actual.Addr().Unmap() != target.Addr() || actual.Port() != target.Port() {
			return fmt.Errorf("%w: changed after the check", ErrRefusedAddress)
		}
		return nil
	}
}
