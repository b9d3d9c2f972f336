package relay

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// ErrOptions is wrapped by every refusal of New to take its Options.
var ErrOptions = errors.New("relay: invalid options")

// Options configures a Relay. Origin and one of Store and Dir are required;
// every other field has a working zero value.
type Options struct {
	// Store keeps the events. The Relay closes it when Run returns.
	Store Store
	// Dir is the folder of an embedded Pebble store, used when Store is nil.
	// It is created when missing.
	Dir string

	// Origin is the public origin of the server, "https://relay.example" or
	// "http://127.0.0.1:8417", without a path. AUTH events must name it
	// (NIP-42) with the scheme wss or ws.
	Origin string
	// Version is shown in the relay information document (NIP-11).
	Version string

	// Policy is what the relay takes; Reconfigure swaps it.
	Policy Policy
	// Plugin is asked about every event the policy takes; nil asks nobody.
	Plugin *Plugin
	// Limits bounds what peers may ask for; its zero fields take the values
	// of DefaultLimits.
	Limits Limits
	// SweepInterval is the pause between two removals of expired events; 0
	// means one minute.
	SweepInterval time.Duration
	// DrainTimeout bounds the orderly end of Run; 0 means ten seconds.
	DrainTimeout time.Duration

	// ClientIP gives the address that limits are counted by. Nil takes the
	// remote address of the connection; behind a proxy that is the proxy.
	ClientIP func(*http.Request) netip.Addr
	// CheckOrigin refuses WebSocket requests by their Origin header. Nil
	// accepts every one.
	CheckOrigin func(*http.Request) error

	Logger     *slog.Logger          // nil discards
	Registerer prometheus.Registerer // nil registers nothing
	Now        func() time.Time      // nil means time.Now
}

// Limits bounds one relay. A rate counts per second and may be exceeded once
// by its burst; a negative rate or burst switches that limit off.
type Limits struct {
	FrameBytes   int           // one WebSocket message from a peer
	EventBytes   int           // one event in NIP-01 JSON
	EventTags    int           // tags of one event
	CreatedAhead time.Duration // how far created_at may lie ahead

	Connections           int // at one time
	ConnectionsPerAddress int // at one time, by /64 for IPv6
	Subscriptions         int // at one time per connection
	Filters               int // in one REQ
	FilterValues          int // in one list of a filter
	FilterBytes           int // memory of the open filters of one connection, as weight counts it
	Results               int // stored events answered per filter
	Scan                  int // index entries read per filter

	ConnectionBytes           int           // memory of all connections together, estimated; negative bounds each only
	CardBytes                 int           // memory for cards, profiles and relay lists, at start; negative holds none
	Reconciliations           int           // open at one time (NIP-77); negative switches them off
	ReconciliationsPerAddress int           // of them, by /64 for IPv6
	ReconciliationEvents      int           // of one reconciliation
	ReconciliationTime        time.Duration // from its beginning

	OutboundMessages int           // waiting for one slow peer
	OutboundBytes    int           // waiting for one slow peer
	WriteTimeout     time.Duration // for one message to a peer
	QueryTimeout     time.Duration // for all stored events of one REQ

	EventRate, EventBurst                   int // EVENTs of one connection
	RequestRate, RequestBurst               int // REQs and AUTHs of one connection
	AddressEventRate, AddressEventBurst     int // EVENTs of one address
	KeyEventRate, KeyEventBurst             int // EVENTs of one author, signed by it
	AddressRequestRate, AddressRequestBurst int // REQs and AUTHs of one address
	Addresses                               int // addresses, and authors, remembered
	PendingEvents                           int // EVENTs of one connection whose commit is awaited
}

// DefaultLimits returns the limits of a relay for cards and wraps. They are
// generous: many agents may share one address behind a NAT.
func DefaultLimits() Limits {
	return Limits{
		FrameBytes:   128 << 10,
		EventBytes:   64 << 10,
		EventTags:    200,
		CreatedAhead: 15 * time.Minute,

		Connections:           4096,
		ConnectionsPerAddress: 1024,
		Subscriptions:         64,
		Filters:               16,
		FilterValues:          256,
		FilterBytes:           512 << 10,
		Results:               500,
		Scan:                  50_000,

		ConnectionBytes:           512 << 20,
		CardBytes:                 256 << 20,
		Reconciliations:           32,
		ReconciliationsPerAddress: 8,
		ReconciliationEvents:      50_000,
		ReconciliationTime:        2 * time.Minute,

		OutboundMessages: 2048,
		OutboundBytes:    4 << 20,
		WriteTimeout:     10 * time.Second,
		QueryTimeout:     30 * time.Second,

		EventRate: 200, EventBurst: 2000,
		RequestRate: 200, RequestBurst: 2000,
		AddressEventRate: 1000, AddressEventBurst: 10_000,
		KeyEventRate: 200, KeyEventBurst: 2000,
		AddressRequestRate: 1000, AddressRequestBurst: 10_000,
		Addresses:     1 << 16,
		PendingEvents: 256,
	}
}

// limitField is one field of Limits with its default. Only the fields that
// may be off take a negative value.
type limitField struct {
	name   string
	have   *int
	def    int
	mayOff bool
}

func (l *Limits) fields() []limitField {
	d := DefaultLimits()
	return []limitField{
		{"FrameBytes", &l.FrameBytes, d.FrameBytes, false},
		{"EventBytes", &l.EventBytes, d.EventBytes, false},
		{"EventTags", &l.EventTags, d.EventTags, false},
		{"Connections", &l.Connections, d.Connections, true},
		{"ConnectionsPerAddress", &l.ConnectionsPerAddress, d.ConnectionsPerAddress, true},
		{"Subscriptions", &l.Subscriptions, d.Subscriptions, false},
		{"Filters", &l.Filters, d.Filters, false},
		{"FilterValues", &l.FilterValues, d.FilterValues, false},
		{"FilterBytes", &l.FilterBytes, d.FilterBytes, false},
		{"Results", &l.Results, d.Results, false},
		{"Scan", &l.Scan, d.Scan, false},
		{"ConnectionBytes", &l.ConnectionBytes, d.ConnectionBytes, true},
		{"CardBytes", &l.CardBytes, d.CardBytes, true},
		{"Reconciliations", &l.Reconciliations, d.Reconciliations, true},
		{"ReconciliationsPerAddress", &l.ReconciliationsPerAddress, d.ReconciliationsPerAddress, true},
		{"ReconciliationEvents", &l.ReconciliationEvents, d.ReconciliationEvents, false},
		{"OutboundMessages", &l.OutboundMessages, d.OutboundMessages, false},
		{"OutboundBytes", &l.OutboundBytes, d.OutboundBytes, false},
		{"EventRate", &l.EventRate, d.EventRate, true},
		{"EventBurst", &l.EventBurst, d.EventBurst, true},
		{"RequestRate", &l.RequestRate, d.RequestRate, true},
		{"RequestBurst", &l.RequestBurst, d.RequestBurst, true},
		{"AddressEventRate", &l.AddressEventRate, d.AddressEventRate, true},
		{"AddressEventBurst", &l.AddressEventBurst, d.AddressEventBurst, true},
		{"KeyEventRate", &l.KeyEventRate, d.KeyEventRate, true},
		{"KeyEventBurst", &l.KeyEventBurst, d.KeyEventBurst, true},
		{"AddressRequestRate", &l.AddressRequestRate, d.AddressRequestRate, true},
		{"AddressRequestBurst", &l.AddressRequestBurst, d.AddressRequestBurst, true},
		{"Addresses", &l.Addresses, d.Addresses, false},
		{"PendingEvents", &l.PendingEvents, d.PendingEvents, false},
	}
}

// withDefaults fills the fields that are zero and refuses those that make no
// sense.
func (l Limits) withDefaults() (Limits, error) {
	for _, f := range l.fields() {
		if *f.have == 0 {
			*f.have = f.def
		}
		if *f.have < 0 && !f.mayOff {
			return l, fmt.Errorf("limit %s is negative", f.name)
		}
	}
	d := DefaultLimits()
	l.CreatedAhead = cmp.Or(l.CreatedAhead, d.CreatedAhead)
	l.WriteTimeout = cmp.Or(l.WriteTimeout, d.WriteTimeout)
	l.QueryTimeout = cmp.Or(l.QueryTimeout, d.QueryTimeout)
	l.ReconciliationTime = cmp.Or(l.ReconciliationTime, d.ReconciliationTime)
	if l.CreatedAhead < 0 || l.WriteTimeout < 0 || l.QueryTimeout < 0 || l.ReconciliationTime < 0 {
		return l, errors.New("a limit on time is negative")
	}
	return l, nil
}

// withDefaults checks o and fills the fields that are zero.
func (o Options) withDefaults() (Options, error) {
	origin, err := parseOrigin(o.Origin)
	if err != nil {
		return o, fmt.Errorf("%w: %w", ErrOptions, err)
	}
	if o.Store == nil && o.Dir == "" {
		return o, fmt.Errorf("%w: neither a store nor a folder", ErrOptions)
	}
	o.Origin = origin
	if o.Policy, o.Limits, err = checkRules(o.Policy, o.Limits); err != nil {
		return o, fmt.Errorf("%w: %w", ErrOptions, err)
	}
	if o.Plugin != nil {
		if o.Plugin, err = o.Plugin.withDefaults(); err != nil {
			return o, fmt.Errorf("%w: %w", ErrOptions, err)
		}
	}
	o.SweepInterval = cmp.Or(o.SweepInterval, time.Minute)
	o.DrainTimeout = cmp.Or(o.DrainTimeout, 10*time.Second)
	if o.SweepInterval < 0 || o.DrainTimeout < 0 {
		return o, fmt.Errorf("%w: a time is negative", ErrOptions)
	}
	return o.withFunctions(), nil
}

// withFunctions fills the functions and the logger that are nil.
func (o Options) withFunctions() Options {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.Logger = o.Logger.With("component", "relay")
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.ClientIP == nil {
		o.ClientIP = remoteAddr
	}
	if o.CheckOrigin == nil {
		o.CheckOrigin = func(*http.Request) error { return nil }
	}
	return o
}

// parseOrigin returns the origin in lower case and without a trailing slash.
func parseOrigin(s string) (string, error) {
	u, err := url.Parse(strings.ToLower(s))
	switch {
	case err != nil:
		return "", fmt.Errorf("parsing origin: %w", err)
	case u.Scheme != "http" && u.Scheme != "https":
		return "", errors.New("origin is not an http or https URL")
	case u.Host == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil:
		return "", errors.New("origin is not just scheme, host and port")
	}
	return u.Scheme + "://" + u.Host, nil
}

// remoteAddr is the address of the connection itself.
func remoteAddr(r *http.Request) netip.Addr {
	ap, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return ap.Addr().Unmap()
}
