package nostr

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/nbd-wtf/go-nostr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/internal/egress"
	"github.com/parleykit/parley/protocol/canonical"
)

// Signer is the key a client authenticates with.
type Signer interface {
	// PublicKey is the key in 64 lowercase hex characters.
	PublicKey() string
	// Sign sets pubkey, id and sig of ev.
	Sign(ev *nostr.Event) error
}

// ClientOptions of NewClient. Dialer is required.
type ClientOptions struct {
	Dialer *egress.Dialer // every connection goes through it; FromCard for addresses of cards
	Signer Signer         // answers relays that want authentication; nil never authenticates

	Logger     *slog.Logger          // nil discards
	Registerer prometheus.Registerer // nil leaves the metrics unregistered; one client for each registry
	Now        func() time.Time      // nil is time.Now

	DialTimeout time.Duration // 0 is 10 s
	IdleTimeout time.Duration // until an unused connection is closed; 0 is 30 s
	Connections int           // kept for Publish and Query; 0 is 64
	MaxEvents   int           // of one Query; 0 is 2000
	MaxBytes    int           // of what a relay answers to one Query; 0 is 32 MiB
}

func (o *ClientOptions) setDefaults() {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.DialTimeout <= 0 {
		o.DialTimeout = 10 * time.Second
	}
	if o.IdleTimeout <= 0 {
		o.IdleTimeout = 30 * time.Second
	}
	if o.Connections <= 0 {
		o.Connections = 64
	}
	if o.MaxEvents <= 0 {
		o.MaxEvents = 2000
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = 32 << 20
	}
}

// Client talks to any number of relays. It keeps a connection to each for a
// while.
type Client struct {
	opts    ClientOptions
	http    *http.Client
	logger  *slog.Logger
	metrics *metrics
	now     func() time.Time
	ctx     context.Context // ends with Close
	cancel  context.CancelCauseFunc
	group   sync.WaitGroup

	reconnect carrier.Backoff // pause between two connections to one relay

	mu   sync.Mutex
	pool map[string]*pooled
}

// NewClient makes a client; it connects to nothing.
func NewClient(opts ClientOptions) (*Client, error) {
	if opts.Dialer == nil {
		return nil, errors.New("nostr: ClientOptions.Dialer is required")
	}
	return newClient(opts, newMetrics(opts.Registerer)), nil
}

func newClient(opts ClientOptions, m *metrics) *Client {
	opts.setDefaults()
	c := &Client{
		opts: opts, http: opts.Dialer.HTTPClient(), logger: opts.Logger.With("component", "nostr"),
		metrics: m, now: opts.Now, reconnect: reconnect, pool: make(map[string]*pooled),
	}
	// A relay that redirects would be authenticated to under the first name.
	c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	return c
}

// Close ends every connection and waits for them. The client cannot be used
// afterwards.
func (c *Client) Close() {
	c.cancel(errClosed)
	c.closeIdle()
	c.group.Wait()
	c.http.CloseIdleConnections()
}

// Publish gives a signed event to one relay. nil means the relay has it, also
// when it had it before. Errors are those of carrier.Carrier.Send.
func (c *Client) Publish(ctx context.Context, relay string, ev *nostr.Event) error {
	data, err := canonical.EncodeEvent(ev)
	if err != nil {
		return fmt.Errorf("%w: %w", carrier.ErrPermanent, err)
	}
	return c.publish(ctx, relay, ev.ID, data)
}

// publish sends the exact bytes of an event.
func (c *Client) publish(ctx context.Context, relay, id string, data []byte) error {
	return c.with(ctx, relay, func(conn *connection) error { return conn.submit(ctx, labelEvent, id, data) })
}

// Query asks one relay for stored events, until it says that there are no
// more. Each event was verified and matches a filter; none comes twice. Their
// order is the relay's.
func (c *Client) Query(ctx context.Context, relay string, filters ...nostr.Filter) (events []*nostr.Event, err error) {
	err = c.with(ctx, relay, func(conn *connection) error {
		events, err = c.collect(ctx, conn, filters)
		return err
	})
	if err != nil {
		return nil, err
	}
	return events, nil
}

// with runs one exchange on a pooled connection; when the relay demands it,
// again after authentication.
func (c *Client) with(ctx context.Context, relay string, exchange func(*connection) error) error {
	url, err := ParseAddress(relay)
	if err != nil {
		return err
	}
	conn, err := c.acquire(ctx, url)
	if err != nil {
		return err
	}
	defer c.release(conn)
	err = exchange(conn)
	if errors.Is(err, errAuthRequired) {
		if err = conn.authenticate(ctx); err == nil {
			err = demanded(exchange(conn))
		}
	}
	if err != nil {
		return transient("talking to the relay", err)
	}
	return nil
}

// demanded makes a second demand for authentication a lasting refusal.
func demanded(err error) error {
	if errors.Is(err, errAuthRequired) {
		return fmt.Errorf("%w: the relay does not accept this key", carrier.ErrPermanent)
	}
	return err
}

func (c *Client) collect(ctx context.Context, conn *connection, filters nostr.Filters) ([]*nostr.Event, error) {
	r, err := conn.open(ctx, filters)
	if err != nil {
		return nil, err
	}
	defer r.stop()
	var events []*nostr.Event
	seen := make(map[string]bool)
	left := c.opts.MaxBytes
	for {
		f, err := r.nextStored(ctx)
		switch {
		case err != nil:
			return nil, err
		case f.label == labelEOSE:
			return events, nil
		case f.label == labelClosed:
			if err := refusal(f.text); err != nil {
				return nil, err
			}
			return events, nil
		}
		// Counted before anything is dropped: a relay that sends nothing of use
		// must come to an end as well.
		if left -= len(f.event); left < 0 {
			return nil, fmt.Errorf("%w: the answer has more than %d bytes", carrier.ErrPermanent, c.opts.MaxBytes)
		}
		ev, _, ok := c.verify(f.event, filters)
		if !ok || seen[ev.ID] {
			continue
		}
		if len(events) == c.opts.MaxEvents {
			return nil, fmt.Errorf("%w: more than %d events match", carrier.ErrPermanent, c.opts.MaxEvents)
		}
		seen[ev.ID] = true
		events = append(events, ev)
	}
}

// verify checks an event that a relay sent: its shape, id and signature, and
// that it was asked for. It returns the event's exact bytes too.
func (c *Client) verify(data []byte, filters nostr.Filters) (*nostr.Event, []byte, bool) {
	ev, err := canonical.DecodeEvent(data)
	if err != nil || !ev.CheckID() {
		c.metrics.events.WithLabelValues(eventInvalid).Inc()
		return nil, nil, false
	}
	if !filters.Match(ev) {
		c.metrics.events.WithLabelValues(eventUnwanted).Inc()
		return nil, nil, false
	}
	exact, err := canonical.EncodeEvent(ev)
	if valid, sigErr := ev.CheckSignature(); err != nil || sigErr != nil || !valid {
		c.metrics.events.WithLabelValues(eventInvalid).Inc()
		return nil, nil, false
	}
	c.metrics.events.WithLabelValues(eventValid).Inc()
	return ev, exact, true
}
