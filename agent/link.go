package agent

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	gonostr "github.com/nbd-wtf/go-nostr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/carrier/https"
	"github.com/parleykit/parley/carrier/nostr"
	"github.com/parleykit/parley/mqttbridge"
	"github.com/parleykit/parley/ntfybridge"
	"github.com/parleykit/parley/protocol/message"
)

// relayTimeout bounds one question to a relay and one event given to it.
const relayTimeout = 15 * time.Second

// link is the agent's way out: made from the pinned servers and made anew when
// they change.
type link struct {
	servers  []Server
	engine   *carrier.Engine
	own      []OwnCarrier   // ways by which this agent is reached, the best first
	relays   *nostr.Carrier // nil before a server with a relay is pinned
	mailbox  *https.Carrier
	brokers  *mqttbridge.Carrier
	ntfy     *ntfybridge.Carrier
	timeout  time.Duration // of one exchange with a relay by a command
	registry *retractable
}

func (l *link) close() {
	l.registry.retract()
	if l.relays != nil {
		l.relays.Close()
	}
	if l.mailbox != nil {
		l.mailbox.Close()
	}
	if l.brokers != nil {
		l.brokers.Close()
	}
	if l.ntfy != nil {
		l.ntfy.Close()
	}
}

// isVenue reports whether a key is the venue of a pinned server.
func (l *link) isVenue(pubkey string) bool {
	return slices.ContainsFunc(l.servers, func(s Server) bool { return s.Venue == pubkey })
}

// current is the link in use.
func (a *Agent) current() (*link, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.link == nil {
		return nil, unavailable("the agent is closing")
	}
	return a.link, nil
}

// online is the link in use, or an error before a server is pinned.
func (a *Agent) online() (*link, error) {
	l, err := a.current()
	if err == nil && l.relays == nil {
		return nil, errNoServer()
	}
	return l, err
}

// relink makes the link for the servers pinned now and lets the worker change
// over to it.
func (a *Agent) relink(ctx context.Context) error {
	servers, err := a.servers(ctx)
	if err != nil {
		return fmt.Errorf("reading the servers: %w", err)
	}
	old, err := a.exchange(ctx, servers)
	if old != nil {
		old.close() // outside the lock: it waits for handlers, which ask for the link
	}
	return err
}

// exchange puts a new link in the place of the old one, which it returns for
// closing once it is out of use.
func (a *Agent) exchange(ctx context.Context, servers []Server) (old *link, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.link != nil {
		a.link.registry.retract() // the new one registers the same names
	}
	fresh, err := a.newLink(ctx, servers)
	if err != nil {
		return nil, err
	}
	old, a.link = a.link, fresh
	close(a.relinks)
	a.relinks = make(chan struct{})
	return old, nil
}

func (a *Agent) newLink(ctx context.Context, servers []Server) (*link, error) {
	l := &link{servers: servers, timeout: relayTimeout, registry: newRetractable(a.opts.Registerer)}
	opts := carrier.Options{
		DB: a.db, Keyer: a.key, Resolve: a.resolve, Handle: a.handle, IsMember: a.isMember,
		Now: a.opts.Now, Logger: a.opts.Logger, Registerer: l.registry,
	}
	var err error
	if opts.Carriers, err = a.newCarriers(ctx, l); err != nil {
		l.close()
		return nil, err
	}
	if l.engine, err = carrier.New(ctx, opts); err != nil {
		return nil, fmt.Errorf("preparing delivery: %w", err)
	}
	return l, nil
}

// resolve names where a key is reached: a pinned venue at its server, others where
// they told this agent and by their card, and those without one at the own relays.
func (a *Agent) resolve(ctx context.Context, pubkey string) ([]carrier.Address, error) {
	l, err := a.current()
	if err != nil {
		return nil, err
	}
	if list := l.venueAddresses(pubkey); len(list) > 0 {
		return list, nil
	}
	told, err := a.told(ctx, pubkey)
	if err != nil {
		return nil, err
	}
	c, err := a.knownCard(ctx, pubkey)
	if err != nil {
		return nil, err
	}
	if len(told) == 0 && (c == nil || c.Expired) {
		if fresh, err := a.freshCard(ctx, pubkey); err == nil {
			c = fresh
		}
	}
	var onCard []carrier.Address
	if c == nil || c.Expired {
		for i, relay := range relaysOf(l.servers) {
			onCard = append(onCard, carrier.Address{Scheme: nostr.Scheme, Address: relay, Priority: i})
		}
		return merge(told, onCard), nil
	}
	for _, known := range c.Carriers {
		onCard = append(onCard, carrier.Address(known))
	}
	return merge(told, onCard), nil
}

// venueAddresses are where a pinned venue is reached: the relay of its server, and
// what else the server's document names.
func (l *link) venueAddresses(pubkey string) (list []carrier.Address) {
	for _, s := range l.servers {
		if s.Venue != pubkey {
			continue
		}
		if s.Relay != "" {
			list = append(list, carrier.Address{Scheme: nostr.Scheme, Address: s.Relay, Priority: len(list)})
		}
		for _, c := range s.Carriers {
			if own, ok := c.own(pubkey); ok && c.Scheme != ntfybridge.Scheme {
				list = append(list, carrier.Address{Scheme: own.Scheme, Address: own.Address, Priority: len(list)})
			}
		}
	}
	return list
}

// handle gives one message to its kind's own function. Types that an agent does
// not act on are done by having been stored.
func (a *Agent) handle(ctx context.Context, tx *sql.Tx, in *carrier.Incoming) error {
	m := in.Message
	switch m.Type {
	case message.TypeText:
		return a.takeText(ctx, tx, m)
	case message.TypeAgreementInvite:
		return a.takeInvite(ctx, tx, m)
	case message.TypeAgreementEvent:
		return a.takeEvent(ctx, tx, m)
	case message.TypeAgreementResult:
		return a.takeResult(ctx, tx, m)
	case message.TypeAgreementArtifact:
		return a.takeArtifact(ctx, tx, m)
	case message.TypeContactCarriers:
		return a.takeCarriers(ctx, tx, m)
	default:
		return nil
	}
}

// isMember lets the venue of a known room speak even when it is no contact any
// more.
func (a *Agent) isMember(ctx context.Context, tx *sql.Tx, pubkey string, _ *message.Message) bool {
	var known bool
	err := tx.QueryRowContext(ctx, `SELECT count(*) > 0 FROM agent_rooms WHERE venue = $1`, pubkey).Scan(&known)
	return err == nil && known
}

// addVenue makes a server's venue a contact, unless it is one.
func (a *Agent) addVenue(ctx context.Context, s Server) error {
	if s.Venue == "" || s.Venue == a.key.PublicKey() {
		return nil
	}
	l, err := a.current()
	if err != nil {
		return err
	}
	if _, err := l.engine.Contact(ctx, s.Venue); !errors.Is(err, carrier.ErrNotFound) {
		return err
	}
	venue := carrier.Contact{PubKey: s.Venue, Note: "venue of " + s.Origin}
	if err := l.engine.AddContact(ctx, venue); err != nil {
		return fmt.Errorf("adding the venue: %w", err)
	}
	return nil
}

// sendTx queues m in the caller's transaction.
func (a *Agent) sendTx(ctx context.Context, tx *sql.Tx, m *message.Message) error {
	l, err := a.current()
	if err != nil {
		return err
	}
	if err := l.engine.SendTx(ctx, tx, m); err != nil {
		return fmt.Errorf("queueing a message: %w", err)
	}
	return nil
}

// delivery reads how far a sent message has come.
func (a *Agent) delivery(ctx context.Context, id string) (*Delivery, error) {
	l, err := a.current()
	if err != nil {
		return nil, err
	}
	rows, err := l.engine.Outbox(ctx, carrier.OutboxFilter{MessageID: id})
	if err != nil {
		return nil, fmt.Errorf("reading the outbox: %w", err)
	}
	if len(rows) == 0 {
		return nil, notFound("the message %s is not in the outbox any more", id)
	}
	row := rows[0]
	d := &Delivery{ID: id, To: row.Recipient, State: string(row.State), Reason: row.Reason, Tried: len(row.Deliveries)}
	if left := row.NextAt.Sub(a.now()); !row.NextAt.IsZero() && left > 0 {
		d.NextSeconds = int(left.Seconds()) + 1
	}
	return d, nil
}

func (a *Agent) publishEvent(ctx context.Context, relay string, ev *gonostr.Event) error {
	l, err := a.online()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	return l.relays.Client().Publish(ctx, relay, ev)
}

func (a *Agent) queryEvents(ctx context.Context, relay string, filter gonostr.Filter) ([]*gonostr.Event, error) {
	l, err := a.online()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	return l.relays.Client().Query(ctx, relay, filter)
}

// retractable is a Registerer whose metrics can be taken back, so that what is
// made anew can register the same names.
type retractable struct {
	mu    sync.Mutex
	under prometheus.Registerer // nil is allowed
	own   []prometheus.Collector
}

func newRetractable(under prometheus.Registerer) *retractable { return &retractable{under: under} }

// Register implements prometheus.Registerer.
func (r *retractable) Register(c prometheus.Collector) error {
	if r.under == nil {
		return nil
	}
	if err := r.under.Register(c); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.own = append(r.own, c)
	return nil
}

// MustRegister implements prometheus.Registerer.
func (r *retractable) MustRegister(list ...prometheus.Collector) {
	for _, c := range list {
		if err := r.Register(c); err != nil {
			panic(err) // as the interface demands; only a name used twice leads here
		}
	}
}

// Unregister implements prometheus.Registerer.
func (r *retractable) Unregister(c prometheus.Collector) bool {
	return r.under != nil && r.under.Unregister(c)
}

func (r *retractable) retract() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.own {
		r.under.Unregister(c)
	}
	r.own = nil
}
