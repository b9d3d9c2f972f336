package nostr

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/internal/egress"
	"github.com/parleykit/parley/protocol/canonical"
)

// MaxRelays is the most relays one carrier listens to: their marks must fit
// one cursor.
const MaxRelays = 12

// Options of New. Signer and Dialer are required.
type Options struct {
	// Relays are the URLs that wraps for the agent are read from, at most
	// MaxRelays. Without any the carrier only sends.
	Relays []string
	Signer Signer         // the agent's key
	Dialer *egress.Dialer // addresses of others go through its FromCard

	Logger     *slog.Logger          // nil discards
	Registerer prometheus.Registerer // nil leaves the metrics unregistered
	Now        func() time.Time      // nil is time.Now

	DialTimeout time.Duration // 0 is 10 s
	IdleTimeout time.Duration // until an unused sending connection is closed; 0 is 30 s
	Handlers    int           // wraps of one relay handled at a time; 0 is 16

	Reconnect carrier.Backoff // between two connections to one relay; zero fields are 1 s and 2 min
}

// Carrier sends and receives wraps over relays.
type Carrier struct {
	opts   Options
	relays []string
	own    *Client // to relays the owner configured
	others *Client // to relays that others named
	me     string

	clockPeriod time.Duration // between two looks at the clock
}

var (
	_ carrier.Carrier = (*Carrier)(nil)
	_ carrier.Poller  = (*Carrier)(nil)
)

// New makes a carrier; it connects to nothing. Close it when it is no longer
// needed.
func New(opts Options) (*Carrier, error) {
	if opts.Signer == nil || opts.Dialer == nil {
		return nil, errors.New("nostr: Options.Signer and Options.Dialer are required")
	}
	if opts.Handlers <= 0 {
		opts.Handlers = 16
	}
	opts.Reconnect.Base = cmp.Or(opts.Reconnect.Base, reconnect.Base)
	opts.Reconnect.Cap = cmp.Or(opts.Reconnect.Cap, reconnect.Cap)
	c := &Carrier{opts: opts, me: opts.Signer.PublicKey(), clockPeriod: clockPeriod}
	for _, relay := range opts.Relays {
		url, err := ParseAddress(relay)
		if err != nil {
			return nil, fmt.Errorf("nostr: relay %.100q: %w", relay, err)
		}
		if !slices.Contains(c.relays, url) {
			c.relays = append(c.relays, url)
		}
	}
	if len(c.relays) > MaxRelays {
		return nil, fmt.Errorf("nostr: %d relays, at most %d", len(c.relays), MaxRelays)
	}
	m := newMetrics(opts.Registerer)
	c.own = newClient(c.clientOptions(opts.Dialer), m)
	c.own.reconnect = opts.Reconnect // only these are listened to
	c.others = newClient(c.clientOptions(opts.Dialer.FromCard()), m)
	return c, nil
}

func (c *Carrier) clientOptions(dialer *egress.Dialer) ClientOptions {
	return ClientOptions{
		Dialer: dialer, Signer: c.opts.Signer, Logger: c.opts.Logger, Now: c.opts.Now,
		DialTimeout: c.opts.DialTimeout, IdleTimeout: c.opts.IdleTimeout,
	}
}

// Close ends every connection.
func (c *Carrier) Close() {
	c.own.Close()
	c.others.Close()
}

// Client is the carrier's client for relays that the owner configured.
func (c *Carrier) Client() *Client { return c.own }

// CardClient is the carrier's client for relays that cards or messages named.
func (c *Carrier) CardClient() *Client { return c.others }

// Scheme implements carrier.Carrier.
func (c *Carrier) Scheme() string { return Scheme }

// MaxFrame implements carrier.Carrier: a relay takes a whole wrap.
func (c *Carrier) MaxFrame(carrier.Address) int { return 0 }

// Send implements carrier.Carrier: it publishes the wrap's bytes as they are.
func (c *Carrier) Send(ctx context.Context, to carrier.Address, wrap []byte) error {
	url, err := ParseAddress(to.Address)
	if err != nil {
		return err
	}
	ev, err := canonical.DecodeEvent(wrap)
	if err != nil {
		return fmt.Errorf("%w: not an event: %w", carrier.ErrPermanent, err)
	}
	client := c.others
	if slices.Contains(c.relays, url) {
		client = c.own
	}
	return client.publish(ctx, url, ev.ID, wrap)
}

// Receive implements carrier.Carrier.
func (c *Carrier) Receive(ctx context.Context, from carrier.Cursor, handle carrier.Handler) error {
	at := newPosition(from, c.relays)
	var group sync.WaitGroup
	for _, url := range c.relays {
		group.Go(func() { c.listen(ctx, url, at, handle) })
	}
	group.Wait()
	<-ctx.Done() // without relays too: there is nothing to restart for
	return context.Cause(ctx)
}

// listen reads one relay until ctx ends. Not even a lasting refusal ends it:
// the owner wants this relay, and its operator may admit the key tomorrow.
func (c *Carrier) listen(ctx context.Context, url string, at *position, handle carrier.Handler) {
	for ctx.Err() == nil {
		err := c.own.keepConnected(ctx, url, func(ctx context.Context, conn *connection) error {
			return c.newInlet(ctx, conn, at, handle).run(ctx, true)
		})
		if ctx.Err() != nil {
			return
		}
		c.own.logger.WarnContext(ctx, "relay refuses to deliver", "relay", url, "retry_after", refusedPause, "err", err)
		timer := time.NewTimer(refusedPause)
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// refusedPause is how long to leave a relay alone that refused for good.
const refusedPause = 5 * time.Minute

// Poll implements carrier.Poller. The error joins those of the relays that
// could not be read to the end; the others were.
func (c *Carrier) Poll(ctx context.Context, from carrier.Cursor, handle carrier.Handler) error {
	at := newPosition(from, c.relays)
	failures := make([]error, len(c.relays))
	var group sync.WaitGroup
	for i, url := range c.relays {
		group.Go(func() {
			err := c.own.session(ctx, url, func(ctx context.Context, conn *connection) error {
				return c.newInlet(ctx, conn, at, handle).run(ctx, false)
			})
			if err != nil {
				failures[i] = fmt.Errorf("reading %s: %w", url, err)
			}
		})
	}
	group.Wait()
	return errors.Join(failures...)
}
