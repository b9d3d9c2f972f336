package ntfybridge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/internal/egress"
)

// MaxTopics is the most topics of one server: all stand in one URL.
const MaxTopics = 200

// Options of New. Dialer is required.
type Options struct {
	// Topics are the full addresses https://host/topic that are listened to, of
	// at most MaxServers servers and MaxTopics of each. SetTopics changes them.
	Topics []string
	// Tokens are the credentials by origin, https://host. A server with one
	// counts as configured by the owner.
	Tokens map[string]Credential
	// Allowances are what servers of one's own take, by origin.
	Allowances map[string]Allowance
	Dialer     *egress.Dialer // addresses of others go through its FromCard

	MaxInline int    // frames of one envelope to a server without an allowance; 0 is 4
	Binary    bool   // publishes with up=1: messages of any bytes
	Woken     func() // called for wake-ups and pointers, at most once in 10 s; may be nil

	Logger     *slog.Logger          // nil discards
	Registerer prometheus.Registerer // nil leaves the metrics unregistered
	Now        func() time.Time      // nil is time.Now

	KeepAlive time.Duration   // of the servers' streams, which may be silent for 100/45 of it; 0 is 45 s
	Reconnect carrier.Backoff // between two streams; zero fields are 1 s and 2 min
}

// Carrier sends and receives envelopes over ntfy.
type Carrier struct {
	ear    *ear
	sender *publisher

	mu      sync.Mutex
	topics  map[string][]string // by origin
	changed chan struct{}       // closed and replaced by SetTopics
}

var (
	_ carrier.Carrier     = (*Carrier)(nil)
	_ carrier.Poller      = (*Carrier)(nil)
	_ carrier.TextCarrier = (*Carrier)(nil)
)

// New makes a carrier; it connects to nothing. Close it when it is no longer
// needed.
func New(opts Options) (*Carrier, error) {
	topics, err := parseTopics(opts.Topics)
	if err != nil {
		return nil, err
	}
	m := newMetrics(opts.Registerer)
	client, err := newClient(opts.Dialer, opts.Tokens, slices.Sorted(maps.Keys(topics)), opts.Now, m)
	if err != nil {
		return nil, err
	}
	sender, err := newPublisher(client, opts.Allowances, opts.MaxInline, opts.Binary)
	if err != nil {
		return nil, err
	}
	return &Carrier{ear: newEar(client, opts), sender: sender, topics: topics, changed: make(chan struct{})}, nil
}

// newEar is the receiving half of a carrier or side.
func newEar(client *Client, opts Options) *ear {
	e := &ear{
		client: client, logger: opts.Logger, look: time.Second, reconnect: opts.Reconnect,
		silence: cmp.Or(opts.KeepAlive, 45*time.Second) * 100 / 45,
	}
	if e.logger == nil {
		e.logger = slog.New(slog.DiscardHandler)
	}
	e.reconnect.Base, e.reconnect.Cap = cmp.Or(e.reconnect.Base, time.Second), cmp.Or(e.reconnect.Cap, 2*time.Minute)
	call := opts.Woken
	if call != nil {
		call = func() { client.metrics.woken.Inc(); opts.Woken() }
	}
	e.waker = &waker{call: call, now: client.now}
	return e
}

func parseTopics(texts []string) (map[string][]string, error) {
	topics := make(map[string][]string)
	for _, text := range texts {
		address, err := ParseAddress(text)
		if err != nil {
			return nil, fmt.Errorf("ntfybridge: a topic to listen to: %w", err)
		}
		if !slices.Contains(topics[address.Origin], address.Topic) {
			topics[address.Origin] = append(topics[address.Origin], address.Topic)
		}
		if len(topics[address.Origin]) > MaxTopics {
			return nil, fmt.Errorf("ntfybridge: more than %d topics of one server", MaxTopics)
		}
	}
	if len(topics) > MaxServers {
		return nil, fmt.Errorf("ntfybridge: %d servers, at most %d", len(topics), MaxServers)
	}
	return topics, nil
}

// SetTopics changes what is listened to, also while Receive runs. Topics that
// are new then are read from their oldest message on. The same ones as before
// change nothing: streams go on.
func (c *Carrier) SetTopics(texts []string) error {
	topics, err := parseTopics(texts)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if maps.EqualFunc(topics, c.topics, slices.Equal) {
		return nil
	}
	c.topics = topics
	c.ear.client.knows(slices.Sorted(maps.Keys(topics)))
	close(c.changed)
	c.changed = make(chan struct{})
	return nil
}

// Close ends the connections that nothing uses.
func (c *Carrier) Close() {
	c.ear.waker.close()
	c.ear.client.Close()
}

// Scheme implements carrier.Carrier.
func (c *Carrier) Scheme() string { return Scheme }

// MaxFrame implements carrier.Carrier.
func (c *Carrier) MaxFrame(carrier.Address) int { return c.sender.frame() }

// TextOnly implements carrier.TextCarrier.
func (c *Carrier) TextOnly(carrier.Address) bool { return !c.sender.binary }

// Send implements carrier.Carrier. An envelope that takes more frames than the
// server gets is a carrier.ErrPermanent with its first frame.
func (c *Carrier) Send(ctx context.Context, to carrier.Address, wrap []byte) error {
	address, err := ParseAddress(to.Address)
	if err != nil {
		return err
	}
	if err := c.sender.checkInline(address.Origin, wrap); err != nil {
		return err
	}
	return c.sender.publish(ctx, address, wrap)
}

// WakeUp tells the owner of a topic to read its relays; a topic that was told
// in the last 30 s is left alone.
func (c *Carrier) WakeUp(ctx context.Context, to carrier.Address) error {
	address, err := ParseAddress(to.Address)
	if err != nil {
		return err
	}
	return c.sender.wakeUp(ctx, address, WakeUp)
}

// listeners makes one listener for each server. before are the topics that
// were listened to until now; nil when there is no such time.
func (c *Carrier) listeners(at *position, before map[string][]string, handle carrier.Handler) (all []*listener, topics map[string][]string, changed chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := *c.ear
	e.origins = slices.Sorted(maps.Keys(c.topics))
	for _, origin := range e.origins {
		l := &listener{ear: &e, origin: origin, topics: c.topics[origin], at: at, handle: handle}
		for _, topic := range l.topics {
			if before != nil && !slices.Contains(before[origin], topic) {
				l.added = append(l.added, topic)
			}
		}
		all = append(all, l)
	}
	return all, c.topics, c.changed
}

// Receive implements carrier.Carrier.
func (c *Carrier) Receive(ctx context.Context, from carrier.Cursor, handle carrier.Handler) error {
	at := newPosition(from)
	var before map[string][]string
	for ctx.Err() == nil {
		listeners, topics, changed := c.listeners(at, before, handle)
		round, stop := context.WithCancel(ctx)
		var group sync.WaitGroup
		for _, l := range listeners {
			group.Go(func() { l.keep(round) })
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
		stop()
		group.Wait()
		before = withoutUnread(topics, listeners)
	}
	return context.Cause(ctx)
}

// withoutUnread leaves out the new topics that were not read to the end, so
// that the next round takes them for new again.
func withoutUnread(topics map[string][]string, listeners []*listener) map[string][]string {
	read := maps.Clone(topics)
	for _, l := range listeners {
		read[l.origin] = slices.DeleteFunc(slices.Clone(read[l.origin]), func(topic string) bool { return slices.Contains(l.added, topic) })
	}
	return read
}

// Poll implements carrier.Poller. The error joins those of the servers that
// could not be read to the end; the others were.
func (c *Carrier) Poll(ctx context.Context, from carrier.Cursor, handle carrier.Handler) error {
	listeners, _, _ := c.listeners(newPosition(from), nil, handle)
	failures := make([]error, len(listeners))
	var group sync.WaitGroup
	for i, l := range listeners {
		group.Go(func() {
			if err := l.catchUp(ctx); err != nil {
				failures[i] = fmt.Errorf("reading %s: %w", l.origin, err)
			}
		})
	}
	group.Wait()
	return errors.Join(failures...)
}
