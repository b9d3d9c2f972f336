package mqttbridge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/internal/egress"
)

// MaxInboxes is the most topics one carrier listens to.
const MaxInboxes = 16

// Inbox is a topic that the agent listens on.
type Inbox struct {
	Address    string // mqtts://host:port/topic
	Credential Credential
	// Dial reaches the broker in place of the dialer; for one in this process.
	Dial func(ctx context.Context) (net.Conn, error)
}

// Options of New. Signer and Dialer are required.
type Options struct {
	// Inboxes are the topics that envelopes for the agent are read from, at most
	// MaxInboxes. Without any the carrier only sends.
	Inboxes []Inbox
	Signer  Signer         // the agent's key, which logs in to listen
	Dialer  *egress.Dialer // addresses of others go through its FromCard
	// Credentials are those of brokers that are only sent to, by host:port. Others
	// are logged in to with a key that is thrown away.
	Credentials map[string]Credential
	// Instance tells this process from others of the same agent: two with one
	// client id would cut each other off.
	Instance string
	// Presence says on the agent's presence topics whether it is up. Everybody who
	// may read there learns it.
	Presence bool

	Logger     *slog.Logger          // nil discards
	Registerer prometheus.Registerer // nil leaves the metrics unregistered
	Now        func() time.Time      // nil is time.Now

	Window         int           // publishes that one connection has not been acknowledged; 0 is 20
	ConnectTimeout time.Duration // 0 is 10 s
	KeepAlive      time.Duration // 0 is 30 s
	IdleTimeout    time.Duration // until an unused sending connection is closed; 0 is 30 s
	Handlers       int           // messages of one broker handled at a time; 0 is 16

	Reconnect carrier.Backoff // between two connections to listen; zero fields are 1 s and 1 min
}

func (o *Options) setDefaults() {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Logger = o.Logger.With("component", Scheme)
	o.Window = cmp.Or(max(0, o.Window), 20)
	o.ConnectTimeout = cmp.Or(max(0, o.ConnectTimeout), 10*time.Second)
	o.KeepAlive = cmp.Or(max(0, o.KeepAlive), 30*time.Second)
	o.IdleTimeout = cmp.Or(max(0, o.IdleTimeout), 30*time.Second)
	o.Handlers = cmp.Or(max(0, o.Handlers), 16)
	o.Reconnect.Base = cmp.Or(o.Reconnect.Base, time.Second)
	o.Reconnect.Cap = cmp.Or(o.Reconnect.Cap, time.Minute)
}

// Carrier sends and receives envelopes over brokers.
type Carrier struct {
	opts        Options
	metrics     *metrics
	subscribers []*subscriber
	publishers  *publishers
}

var (
	_ carrier.Carrier = (*Carrier)(nil)
	_ carrier.Poller  = (*Carrier)(nil)
)

// New makes a carrier; it connects to nothing. Close it when it is no longer needed.
func New(opts Options) (*Carrier, error) {
	if opts.Signer == nil || opts.Dialer == nil {
		return nil, errors.New("mqttbridge: Options.Signer and Options.Dialer are required")
	}
	if len(opts.Inboxes) > MaxInboxes {
		return nil, fmt.Errorf("mqttbridge: %d inboxes, at most %d", len(opts.Inboxes), MaxInboxes)
	}
	opts.setDefaults()
	c := &Carrier{opts: opts, metrics: newMetrics(opts.Registerer)}
	c.publishers = newPublishers(&c.opts, c.metrics)
	for _, inbox := range opts.Inboxes {
		at, err := ParseAddress(inbox.Address)
		if err != nil {
			return nil, fmt.Errorf("mqttbridge: inbox %.100q: %w", inbox.Address, err)
		}
		c.subscriber(at, inbox).add(at.Topic)
		c.publishers.configure(at.Broker, inbox)
	}
	return c, nil
}

// subscriber is the one of a broker; topics of one broker share a connection.
func (c *Carrier) subscriber(at Address, inbox Inbox) *subscriber {
	for _, s := range c.subscribers {
		if s.broker == at.Broker {
			return s
		}
	}
	s := newSubscriber(&c.opts, c.metrics, at.Broker, inbox)
	if c.opts.Presence {
		s.presence = PresenceTopic(c.opts.Signer.PublicKey())
	}
	c.subscribers = append(c.subscribers, s)
	return s
}

// Close ends every connection that was made to send.
func (c *Carrier) Close() { c.publishers.close() }

// Scheme implements carrier.Carrier.
func (c *Carrier) Scheme() string { return Scheme }

// MaxFrame implements carrier.Carrier: a broker takes a whole envelope.
func (c *Carrier) MaxFrame(carrier.Address) int { return 0 }

// Send implements carrier.Carrier: it publishes the bytes as they are, with QoS 1,
// and returns when the broker has acknowledged them.
func (c *Carrier) Send(ctx context.Context, to carrier.Address, wrap []byte) error {
	at, err := ParseAddress(to.Address)
	if err != nil {
		return err
	}
	if len(wrap) > MaxPayload { // no reader would take it
		return fmt.Errorf("%w: mqtt: %d bytes, at most %d", carrier.ErrPermanent, len(wrap), MaxPayload)
	}
	return c.publishers.publish(ctx, at.Broker, publication{topic: at.Topic, payload: wrap})
}

// Receive implements carrier.Carrier. There is no cursor: the broker keeps what was
// not acknowledged.
func (c *Carrier) Receive(ctx context.Context, from carrier.Cursor, handle carrier.Handler) error {
	var group sync.WaitGroup
	for _, s := range c.subscribers {
		group.Go(func() { s.listen(ctx, handing(handle, from)) })
	}
	group.Wait()
	<-ctx.Done() // without inboxes too: there is nothing to restart for
	return context.Cause(ctx)
}

// Poll implements carrier.Poller: it ends when a broker has been silent for a moment.
// The error joins those of the brokers that could not be read.
func (c *Carrier) Poll(ctx context.Context, from carrier.Cursor, handle carrier.Handler) error {
	failures := make([]error, len(c.subscribers))
	var group sync.WaitGroup
	for i, s := range c.subscribers {
		group.Go(func() {
			if err := s.poll(ctx, handing(handle, from)); err != nil {
				failures[i] = fmt.Errorf("reading %s: %w", s.broker, err)
			}
		})
	}
	group.Wait()
	return errors.Join(failures...)
}

// handing gives a message to the engine under the name of its topic.
func handing(handle carrier.Handler, cursor carrier.Cursor) func(context.Context, arrived) error {
	return func(ctx context.Context, m arrived) error {
		return handle(carrier.WithInlet(ctx, m.topic), m.payload, cursor)
	}
}
