package mqttbridge

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/internal/egress"
)

const (
	// MaxPayload is the largest message that is handed on, in bytes: a wrap has at
	// most 64 KiB, and a frame of it in text a third more.
	MaxPayload = 96 << 10

	waiting      = 128                    // messages that were read and are not handled
	maxFilters   = 256                    // of one SUBSCRIBE
	quiet        = 300 * time.Millisecond // after which a poll has read what was stored
	refusedPause = 5 * time.Minute        // before a broker that refused is asked again
	takeovers    = 4                      // sessions lost within a minute that are reported
)

// errHandling is beside the Handler's own error.
var errHandling = errors.New("handling a message")

// subscriber reads topics of one broker over one session, which the broker keeps
// while it is away.
type subscriber struct {
	opts     *Options
	metrics  *metrics
	broker   string
	inbox    Inbox
	topics   []string
	presence string // empty: nothing is said
	ordered  bool   // the messages of a topic are handled one after the other
	clientID string
	session  sync.Mutex  // one connection at a time: a second would cut off the first
	losses   []time.Time // of the last minute; guarded by session
}

func newSubscriber(opts *Options, m *metrics, broker string, inbox Inbox) *subscriber {
	return &subscriber{opts: opts, metrics: m, broker: broker, inbox: inbox, clientID: clientID(opts.Signer.PublicKey(), opts.Instance, broker)}
}

// clientID is the same in every life of a process, within the 23 characters that
// every broker takes (MQTT 3.1.1, section 3.1.3.1).
func clientID(pubkey, instance, broker string) string {
	sum := sha256.Sum256([]byte(pubkey + "\n" + instance + "\n" + broker))
	return "parley-" + hex.EncodeToString(sum[:8])
}

func (s *subscriber) add(topic string) {
	if !slices.Contains(s.topics, topic) {
		s.topics = append(s.topics, topic)
	}
}

// dialer reaches the broker of an inbox: in this process, or as configured.
func (i Inbox) dialer(d *egress.Dialer) func(context.Context, string, string) (net.Conn, error) {
	if i.Dial == nil {
		return d.DialContext
	}
	return func(ctx context.Context, _, _ string) (net.Conn, error) { return i.Dial(ctx) }
}

// listen reads until ctx ends. Not even a refusal ends it: the owner wants this
// broker, and its operator may admit the key tomorrow.
func (s *subscriber) listen(ctx context.Context, handle func(context.Context, arrived) error) {
	for failures := 0; ctx.Err() == nil; failures++ {
		began := s.opts.Now()
		err := s.run(ctx, handle)
		if ctx.Err() != nil {
			return
		}
		if s.opts.Now().Sub(began) > time.Minute {
			failures = 0
		}
		pause := s.opts.Reconnect.Delay(failures)
		if errors.Is(err, carrier.ErrPermanent) && !errors.Is(err, errHandling) {
			pause = refusedPause
		}
		s.opts.Logger.WarnContext(ctx, "a broker does not deliver", "broker", s.broker, "retry_after", pause, "err", err)
		sleep(ctx, pause)
	}
}

// poll reads what is stored. A session that runs reads it already.
func (s *subscriber) poll(ctx context.Context, handle func(context.Context, arrived) error) error {
	if !s.session.TryLock() {
		return nil
	}
	defer s.session.Unlock()
	return s.connected(ctx, handle, true)
}

// run is one session, after the one that may run now.
func (s *subscriber) run(ctx context.Context, handle func(context.Context, arrived) error) error {
	s.session.Lock()
	defer s.session.Unlock()
	return s.connected(ctx, handle, false)
}

// connected connects, subscribes and hands on what comes, until the connection is
// lost, ctx ends or, where once is true, nothing comes any more. The caller holds
// session.
func (s *subscriber) connected(ctx context.Context, handle func(context.Context, arrived) error, once bool) error {
	queues := s.queues()
	ended := make(chan struct{})
	var order ackOrder
	conn, err := s.connect(ctx, func(m arrived) {
		m.ack = order.next(m.ack)
		s.enqueue(queues[lane(m.topic, len(queues))], ended, m)
	})
	s.metrics.dials.WithLabelValues(roleSubscriber, dialResult(err)).Inc()
	if err != nil {
		return err
	}
	s.metrics.connections.WithLabelValues(roleSubscriber).Inc()
	defer s.metrics.connections.WithLabelValues(roleSubscriber).Dec()
	activity := make(chan struct{}, 1)
	life, fail := context.WithCancelCause(ctx) // of the session; what is being handled may end later
	defer fail(nil)
	var group sync.WaitGroup
	stop := func() {
		close(ended)
		group.Wait() // what is being handled is acknowledged before the connection goes
		s.farewell(conn)
		conn.close()
	}
	defer stop()
	for i := range s.opts.Handlers {
		group.Go(func() { s.work(ctx, queues[i%len(queues)], ended, activity, fail, handle) })
	}
	if err = s.begin(life, conn); err == nil {
		err = s.await(life, conn, activity, once)
	}
	if errors.Is(err, errLost) {
		s.noteLoss(ctx)
	}
	return err
}

// queues are one for all handlers, or one for each where order counts.
func (s *subscriber) queues() []chan arrived {
	n := 1
	if s.ordered {
		n = s.opts.Handlers
	}
	queues := make([]chan arrived, n)
	for i := range queues {
		queues[i] = make(chan arrived, waiting/n)
	}
	return queues
}

// lane is the queue of a topic, always the same.
func lane(topic string, n int) int {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(topic))
	return int(sum.Sum32() % uint32(n))
}

// await waits for the end of a session.
func (s *subscriber) await(ctx context.Context, conn mqttConn, activity <-chan struct{}, once bool) error {
	var silence <-chan time.Time
	timer := time.NewTimer(quiet)
	defer timer.Stop()
	if once {
		silence = timer.C
	}
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-conn.lost():
			return errLost
		case <-activity:
			timer.Reset(quiet)
		case <-silence:
			return nil
		}
	}
}

// begin subscribes, again in each session: a broker may have forgotten.
func (s *subscriber) begin(ctx context.Context, conn mqttConn) error {
	for filters := range slices.Chunk(s.topics, maxFilters) {
		if err := s.within(ctx, func(ctx context.Context) error { return conn.subscribe(ctx, filters) }); err != nil {
			return err
		}
	}
	if s.presence == "" {
		return nil
	}
	return s.within(ctx, func(ctx context.Context) error { return conn.publish(ctx, s.presence, true, []byte(presenceOnline)) })
}

// within gives one exchange with the broker as long as a connection may take.
func (s *subscriber) within(ctx context.Context, exchange func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, s.opts.ConnectTimeout)
	defer cancel()
	return exchange(ctx)
}

// What stands on a presence topic.
const (
	presenceOnline  = "online"
	presenceOffline = "offline"
)

func (s *subscriber) farewell(conn mqttConn) {
	if s.presence == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = conn.publish(ctx, s.presence, true, []byte(presenceOffline)) // else the will says it
}

func (s *subscriber) connect(ctx context.Context, handle func(arrived)) (mqttConn, error) {
	c := connecting{
		broker: s.broker, clientID: s.clientID, tls: s.inbox.Credential.config(s.broker), handle: handle,
		dial: s.inbox.dialer(s.opts.Dialer), connectTimeout: s.opts.ConnectTimeout, keepAlive: s.opts.KeepAlive,
	}
	if s.presence != "" {
		c.will = &will{s.presence, presenceOffline}
	}
	var err error
	if c.username = s.inbox.Credential.Username; c.username != "" {
		c.password, err = s.inbox.Credential.password()
	} else {
		c.username = s.opts.Signer.PublicKey()
		c.password, err = loginPassword(s.opts.Signer, s.broker, s.clientID, s.opts.Now())
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", carrier.ErrTransient, err)
	}
	return dialPaho(ctx, c)
}

// enqueue takes a message from the client library, which must not be held up for
// long: what comes with QoS 0 is dropped when too much waits, what comes with QoS 1
// is bounded by the broker's own window.
func (s *subscriber) enqueue(queue chan<- arrived, ended <-chan struct{}, m arrived) {
	if len(m.payload) > MaxPayload {
		s.metrics.received.WithLabelValues(receivedTooLarge).Inc()
		m.ack()
		return
	}
	if m.once {
		select {
		case queue <- m:
		default:
			s.metrics.received.WithLabelValues(receivedOverflow).Inc()
		}
		return
	}
	select {
	case queue <- m:
	case <-ended:
	}
}

// work hands on messages and acknowledges those that were taken. One that was not
// ends the session, since MQTT has no other way to ask for it again; what follows it
// in the queue comes again behind it.
func (s *subscriber) work(ctx context.Context, queue <-chan arrived, ended <-chan struct{}, activity chan<- struct{}, fail context.CancelCauseFunc, handle func(context.Context, arrived) error) {
	for {
		select {
		case <-ended:
			return
		case m := <-queue:
			if err := handle(ctx, m); err != nil {
				s.metrics.received.WithLabelValues(receivedKept).Inc()
				fail(fmt.Errorf("%w: %w", errHandling, err))
				return
			}
			m.ack()
			s.metrics.received.WithLabelValues(receivedHanded).Inc()
			select {
			case activity <- struct{}{}:
			default:
			}
		}
	}
}

// noteLoss reports sessions that are lost again and again, which is what two clients
// with one id do to each other.
func (s *subscriber) noteLoss(ctx context.Context) {
	now := s.opts.Now()
	s.losses = slices.DeleteFunc(s.losses, func(at time.Time) bool { return now.Sub(at) > time.Minute })
	if s.losses = append(s.losses, now); len(s.losses) < takeovers {
		return
	}
	s.losses = nil
	s.metrics.takeovers.Inc()
	s.opts.Logger.WarnContext(ctx, "sessions are lost soon after they begin: does another process use this client id?",
		"broker", s.broker, "client_id", s.clientID)
}

// sleep waits for d or until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
