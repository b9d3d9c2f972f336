package mqttbridge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/carrier/bridge"
	"github.com/parleykit/parley/internal/egress"
	"github.com/parleykit/parley/protocol/canonical"
	"github.com/parleykit/parley/protocol/card"
	"github.com/parleykit/parley/protocol/envelope"
)

// SideOptions of NewSide. Broker, Signer and Dialer are required.
type SideOptions struct {
	Broker     string // mqtts://host:port
	Credential Credential
	// Dial reaches the broker in place of the dialer; for one in this process.
	Dial   func(ctx context.Context) (net.Conn, error)
	Signer Signer // the bridge's key, which logs in where Credential is empty
	Dialer *egress.Dialer

	// Recipients are the keys whose inboxes are read. None is everybody's, which the
	// broker of this package grants to no one: it wants each topic by its name.
	Recipients []string
	// Cards says that the cards retained at the broker are read.
	Cards bool
	// Topic is where envelopes for a key go; nil is InboxTopic.
	Topic func(pubkey string) string
	// Instance tells this process from others with the same key.
	Instance string
	Window   int // publishes that are not acknowledged; 0 is 20

	Logger     *slog.Logger          // nil discards
	Registerer prometheus.Registerer // nil leaves the metrics unregistered
	Now        func() time.Time      // nil is time.Now

	Reconnect carrier.Backoff // between two connections to read; zero fields are 1 s and 1 min
}

// Side is a broker as one side of a bridge: it writes envelopes to inboxes and cards
// to retained topics, and reads both.
type Side struct {
	opts       Options
	topic      func(pubkey string) string
	broker     string
	subscriber *subscriber
	publishers *publishers
}

var _ bridge.Side = (*Side)(nil)

// NewSide makes a side; it connects to nothing. Close it when it is no longer needed.
func NewSide(opts SideOptions) (*Side, error) {
	if opts.Signer == nil || opts.Dialer == nil {
		return nil, errors.New("mqttbridge: SideOptions.Signer and SideOptions.Dialer are required")
	}
	broker, err := ParseBroker(opts.Broker)
	if err != nil {
		return nil, fmt.Errorf("mqttbridge: broker %.100q: %w", opts.Broker, err)
	}
	filters, err := opts.filters()
	if err != nil {
		return nil, err
	}
	s := &Side{broker: broker, topic: opts.Topic, opts: Options{
		Signer: opts.Signer, Dialer: opts.Dialer, Instance: opts.Instance, Window: opts.Window,
		Logger: opts.Logger, Now: opts.Now, Reconnect: opts.Reconnect,
	}}
	if s.topic == nil {
		s.topic = InboxTopic
	}
	s.opts.setDefaults()
	m := newMetrics(opts.Registerer)
	inbox := Inbox{Credential: opts.Credential, Dial: opts.Dial}
	s.subscriber = newSubscriber(&s.opts, m, broker, inbox)
	s.subscriber.topics, s.subscriber.ordered = filters, true
	s.publishers = newPublishers(&s.opts, m)
	s.publishers.configure(broker, inbox)
	s.publishers.signer = opts.Signer
	return s, nil
}

// filters are what the side subscribes to.
func (o *SideOptions) filters() ([]string, error) {
	var filters []string
	for _, pubkey := range o.Recipients {
		if !canonical.IsHex(pubkey, 32) {
			return nil, fmt.Errorf("mqttbridge: recipient %.80q is not a key", pubkey)
		}
		filters = append(filters, InboxTopic(pubkey))
	}
	if len(filters) == 0 {
		filters = append(filters, inboxPrefix+"+")
	}
	if o.Cards {
		filters = append(filters, cardPrefix+"+/+")
	}
	slices.Sort(filters)
	return slices.Compact(filters), nil
}

// Name implements bridge.Side.
func (s *Side) Name() string { return Scheme }

// Close ends the connection that was made to write.
func (s *Side) Close() { s.publishers.close() }

// Read implements bridge.Side. There is no cursor: the broker keeps what was not
// acknowledged, and hands out all cards again in each session.
func (s *Side) Read(ctx context.Context, from carrier.Cursor, handle func(ctx context.Context, data []byte, next carrier.Cursor) error) error {
	s.subscriber.listen(ctx, func(ctx context.Context, m arrived) error {
		if len(m.payload) == 0 { // a card that was taken away
			return nil
		}
		return handle(carrier.WithInlet(ctx, m.topic), m.payload, from)
	})
	return context.Cause(ctx)
}

// Write implements bridge.Side. What has expired is refused for good: a broker of 3.1.1
// would keep it for ever.
func (s *Side) Write(ctx context.Context, item bridge.Item) error {
	if !item.Expires.IsZero() && !s.opts.Now().Before(item.Expires) {
		return fmt.Errorf("%w: mqtt: the event has expired", carrier.ErrPermanent)
	}
	topic, retained, err := s.place(item)
	if err != nil {
		return err
	}
	return s.publishers.publish(ctx, s.broker, publication{topic: topic, retained: retained, payload: item.Event})
}

// place is where an event goes: an envelope to its recipient's inbox, a card to its
// own retained topic. Nothing else has a place.
func (s *Side) place(item bridge.Item) (topic string, retained bool, err error) {
	switch {
	case item.Kind == envelope.KindWrap && canonical.IsHex(item.Recipient, 32):
		topic = s.topic(item.Recipient)
	case item.Kind == card.Kind && canonical.IsHex(item.PubKey, 32):
		retained = true
		topic, err = Topic(cardPrefix+"{pubkey}/{d}", map[string]string{"pubkey": item.PubKey, "d": item.D})
	default:
		err = errors.New("an event of this kind has no topic")
	}
	if err == nil {
		err = checkTopic(topic)
	}
	if err != nil {
		return "", false, fmt.Errorf("%w: mqtt: %w", carrier.ErrPermanent, err)
	}
	return topic, retained, nil
}
