package mqttbridge

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"sync"
	"time"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/parleykit/parley/protocol/httpauth"
)

// BrokerOptions of NewBroker. Names and one of Listen and Listener are required.
type BrokerOptions struct {
	Listen   string       // host:port; port 0 takes a free one
	Listener net.Listener // in place of Listen; the broker closes it
	Names    []string     // addresses that logins may name, such as mqtts://parley.example:8483
	// TLS of every connection; nil is none, for loopback.
	TLS *tls.Config
	// Dir is the folder of sessions, what waits for them, and cards; empty keeps
	// everything in memory.
	Dir string
	// Bridges may read inboxes of others and write cards.
	Bridges []BrokerBridge
	// Admit says whose inboxes are served; nil is everybody's.
	Admit func(pubkey string) bool
	// Presence lets keys say on their presence topics whether they are up.
	Presence bool
	Limits   BrokerLimits

	Logger     *slog.Logger          // nil discards
	Registerer prometheus.Registerer // nil leaves the metrics unregistered
	Now        func() time.Time      // nil is time.Now
}

// BrokerBridge is a key that carries envelopes and cards between here and a relay.
type BrokerBridge struct {
	Key        string   // 64 lowercase hex characters
	Recipients []string // whose inboxes it reads; none is everybody's
}

// BrokerLimits bound what clients can make a broker hold. Zero fields have defaults.
type BrokerLimits struct {
	Clients           int           // open connections; 0 is 4096
	ClientsPerAddress int           // of them, by /64 for IPv6; 0 is 256
	Sessions          int           // kept for who is away; 0 is 16384
	SessionsPerKey    int           // 0 is 8
	Waiting           int           // messages that wait for one session; 0 is 2048
	WaitingBytes      int64         // size of what waits for all sessions; 0 is 512 MiB
	Subscriptions     int           // of one session that is no bridge; 0 is 64
	Cards             int           // 0 is 100,000
	SessionLife       time.Duration // of who does not come back; 0 is 32 days
}

func (l *BrokerLimits) setDefaults() {
	l.Clients = cmp.Or(l.Clients, 4096)
	l.ClientsPerAddress = cmp.Or(l.ClientsPerAddress, 256)
	l.Sessions = cmp.Or(l.Sessions, 1<<14)
	l.SessionsPerKey = cmp.Or(l.SessionsPerKey, 8)
	l.Waiting = min(cmp.Or(l.Waiting, 2048), 1<<16-1)
	l.WaitingBytes = cmp.Or(l.WaitingBytes, 512<<20)
	l.Subscriptions = cmp.Or(l.Subscriptions, 64)
	l.Cards = cmp.Or(l.Cards, 100_000)
	l.SessionLife = cmp.Or(l.SessionLife, 32*24*time.Hour)
}

// Broker is an MQTT 3.1.1 broker for inboxes and cards.
type Broker struct {
	opts     BrokerOptions
	logger   *slog.Logger
	metrics  *brokerMetrics
	server   *mqtt.Server
	listener net.Listener
	rules    *rules

	mu        sync.Mutex
	addresses map[netip.Addr]int // open connections
	conns     map[net.Conn]bool
	closed    bool
	clients   sync.WaitGroup
}

const (
	loginTime    = 10 * time.Second // to log in
	maxKeepAlive = 300              // seconds that a client may be silent
	inflight     = 100              // messages that one client has not acknowledged
)

// NewBroker opens the listener and what is stored. Run serves.
func NewBroker(opts BrokerOptions) (*Broker, error) {
	if len(opts.Names) == 0 {
		return nil, errors.New("mqttbridge: BrokerOptions.Names is required")
	}
	opts.Limits.setDefaults()
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	listener := opts.Listener
	if listener == nil {
		var err error
		if listener, err = net.Listen("tcp", opts.Listen); err != nil {
			return nil, fmt.Errorf("mqttbridge: listening: %w", err)
		}
	}
	b := &Broker{
		opts: opts, logger: opts.Logger.With("component", "broker"), metrics: newBrokerMetrics(opts.Registerer),
		listener: listener, addresses: map[netip.Addr]int{}, conns: map[net.Conn]bool{},
	}
	b.server = mqtt.New(&mqtt.Options{
		Capabilities: capabilities(opts.Limits), InlineClient: true,
		Logger: slog.New(slog.DiscardHandler), // it writes packets, with what they hold
	})
	b.rules = newRules(&b.opts, b.server, b.metrics, httpauth.NewVerifier(opts.Now))
	err := b.server.AddHook(b.rules, nil)
	if err == nil && opts.Dir != "" {
		err = b.server.AddHook(newPersistence(), storeOptions(filepath.Join(opts.Dir, "broker.db")))
	}
	if err == nil {
		err = b.server.Serve() // reads what is stored; it has no listener of its own
	}
	if err != nil {
		listener.Close()
		return nil, fmt.Errorf("mqttbridge: opening the broker: %w", err)
	}
	b.rules.count()
	return b, nil
}

func capabilities(l BrokerLimits) *mqtt.Capabilities {
	c := mqtt.NewDefaultServerCapabilities()
	c.MaximumClients = int64(l.Clients)
	c.MaximumPacketSize = MaxPayload + 4096 // a topic and a header beside the payload
	c.MaximumQos = qos
	c.MaximumInflight = uint16(l.Waiting)
	c.MaximumClientWritesPending = int32(l.Waiting)
	c.ReceiveMaximum = inflight
	c.MaximumSessionExpiryInterval = uint32(l.SessionLife / time.Second)
	c.MaximumMessageExpiryInterval = int64(l.SessionLife / time.Second)
	c.MinimumProtocolVersion = protocol311
	c.SharedSubAvailable = 0
	return c
}

// Addr is where the broker listens.
func (b *Broker) Addr() net.Addr { return b.listener.Addr() }

// Name is the first address that logins may name.
func (b *Broker) Name() string { return b.opts.Names[0] }

// Run accepts connections until ctx ends, then closes them all and what is stored.
func (b *Broker) Run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { b.listener.Close() })
	defer stop()
	for {
		conn, err := b.listener.Accept()
		if ctx.Err() != nil {
			break
		}
		if err != nil {
			b.logger.ErrorContext(ctx, "accepting a connection", "err", err)
			sleep(ctx, 100*time.Millisecond)
			continue
		}
		b.accept(conn)
	}
	b.closeAll()
	b.clients.Wait()
	err := b.server.Close()
	if err != nil {
		return fmt.Errorf("mqttbridge: closing the broker: %w", err)
	}
	return nil
}

// accept serves one connection, unless its address has too many.
func (b *Broker) accept(conn net.Conn) {
	address := addressOf(conn)
	if !b.enter(address) {
		b.metrics.connections.WithLabelValues(connectionAddress).Inc()
		_ = conn.Close()
		return
	}
	b.metrics.connections.WithLabelValues(connectionOpened).Inc()
	b.metrics.open.Inc()
	_ = conn.SetDeadline(time.Now().Add(loginTime)) // the server sets another after the login
	if b.opts.TLS != nil {
		conn = tls.Server(conn, b.opts.TLS)
	}
	b.serve(conn, func() {
		b.leave(address)
		b.metrics.open.Dec()
	})
}

// serve speaks with one client until the connection is over; ended is called then.
func (b *Broker) serve(conn net.Conn, ended func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		_ = conn.Close()
		return
	}
	b.conns[conn] = true
	b.clients.Go(func() {
		_ = b.server.EstablishConnection("mqtt", conn) // why it ended is no business of ours
		b.mu.Lock()
		delete(b.conns, conn)
		b.mu.Unlock()
		ended()
	})
}

// closeAll cuts every connection off and takes no more.
func (b *Broker) closeAll() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	for conn := range b.conns {
		_ = conn.Close()
	}
}

// Dial connects to the broker within the process, without encryption.
func (b *Broker) Dial(context.Context) (net.Conn, error) {
	client, server := net.Pipe()
	b.serve(server, func() {})
	return client, nil
}

// addressOf is the unit connections are counted by: an IPv4 address or the /64 of an
// IPv6 address.
func addressOf(conn net.Conn) netip.Addr {
	at, err := netip.ParseAddrPort(conn.RemoteAddr().String())
	if err != nil {
		return netip.Addr{}
	}
	address := at.Addr().Unmap().WithZone("")
	if address.Is6() {
		prefix, _ := address.Prefix(64)
		return prefix.Addr()
	}
	return address
}

func (b *Broker) enter(address netip.Addr) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.addresses[address] >= b.opts.Limits.ClientsPerAddress {
		return false
	}
	b.addresses[address]++
	return true
}

func (b *Broker) leave(address netip.Addr) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.addresses[address]--; b.addresses[address] == 0 {
		delete(b.addresses, address)
	}
}
