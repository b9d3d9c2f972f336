package relay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/coder/websocket"
	"golang.org/x/time/rate"

	"github.com/parleykit/parley/protocol/canonical"
)

const (
	// Messages refused for their form, per second and at once; beyond it the
	// connection is closed.
	strikeRate, strikeBurst = 5, 100
	// maxChecks is how many EVENTs of one connection are checked at a time, on
	// as many processors.
	maxChecks = 8
)

// session is one connection. Its reader goroutine, run, owns every field
// without a lock of its own; others only call answer, deliver and drain, and
// check reads the keys, which do not change while a check runs.
type session struct {
	relay     *Relay
	conn      *websocket.Conn
	wire      *wire // below conn
	address   netip.Addr
	challenge string
	ctx       context.Context
	cancel    context.CancelFunc
	account   *account
	out       *outbound
	pending   *pending
	checks    chan struct{}   // a token for each EVENT that is being checked
	checking  sync.WaitGroup  // of checks
	turn      <-chan struct{} // closed when the last EVENT had its turn in the committer
	own       budget          // of this connection
	shared    *budget         // of its address
	strikes   *rate.Limiter

	pinging       atomic.Bool
	keys          []string // authenticated public keys
	subscriptions map[string]*subscription
	weight        int // of subscriptions

	reconciliations map[string]*reconciliation

	shed bool // cut off by relieve; guarded by the relay
}

func (r *Relay) newSession(conn *websocket.Conn, address netip.Addr) *session {
	l := r.limits()
	ctx, cancel := context.WithCancel(r.base)
	own := &account{all: r.memory}
	return &session{
		relay: r, conn: conn, address: address, challenge: newChallenge(), ctx: ctx, cancel: cancel,
		account: own, out: newOutbound(l.OutboundMessages, l.OutboundBytes, own),
		pending: newPending(l.PendingEvents),
		checks:  make(chan struct{}, min(max(2, runtime.GOMAXPROCS(0)), maxChecks)),
		own: budget{
			events:   newLimiter(l.EventRate, l.EventBurst),
			requests: newLimiter(l.RequestRate, l.RequestBurst),
		},
		shared:        r.addresses.budget(address),
		strikes:       newLimiter(strikeRate, strikeBurst),
		subscriptions: map[string]*subscription{}, reconciliations: map[string]*reconciliation{},
	}
}

// run serves the connection until it ends.
func (s *session) run() {
	defer context.AfterFunc(s.ctx, func() { s.wire.Close() })()
	written := make(chan struct{})
	go func() {
		defer close(written)
		s.write()
	}()
	s.send(challengeMessage(s.challenge))
	s.read()
	s.checking.Wait()
	for _, sub := range s.subscriptions {
		s.drop(sub)
	}
	for id := range s.reconciliations {
		s.endReconciliation(id)
	}
	<-written
	s.out.end()
	s.cancel()
}

// read handles the peer's messages in their order.
func (s *session) read() {
	s.conn.SetReadLimit(int64(s.relay.limits().FrameBytes))
	var buf bytes.Buffer
	for {
		kind, taken, err := s.next(&buf)
		if err != nil {
			if errors.Is(err, websocket.ErrMessageTooBig) {
				s.relay.metrics.messages.WithLabelValues("malformed").Inc()
			}
			s.cancel()
			return
		}
		switch {
		case s.out.finished():
			// Read on only to see the peer's side of the close.
		case taken < 0:
			s.out.finish(websocket.StatusTryAgainLater, shortOfMemory)
		case kind != websocket.MessageText:
			s.relay.metrics.messages.WithLabelValues("malformed").Inc()
			s.out.finish(websocket.StatusUnsupportedData, "text messages only")
		default:
			s.handle(buf.Bytes())
		}
		if buf.Cap() > mostRead {
			buf = bytes.Buffer{}
		}
		s.account.add(-max(0, taken))
	}
}

// mostRead is the size of a buffer that a connection keeps between messages.
const mostRead = 8 << 10

// next reads one message into buf and counts what it takes in memory; a message
// for which there is none is passed over, and taken is negative. The end of the
// session closes the wire, so no context is watched for each.
func (s *session) next(buf *bytes.Buffer) (kind websocket.MessageType, taken int, err error) {
	kind, r, err := s.conn.Reader(context.Background())
	if err != nil {
		return 0, 0, err
	}
	buf.Reset()
	n, err := buf.ReadFrom(io.LimitReader(r, mostRead))
	if err != nil || n < mostRead {
		return kind, 0, err
	}
	taken = 2 * s.relay.limits().FrameBytes // a buffer doubles as it grows
	if !s.take(taken, shortMessage) {
		_, err = io.Copy(io.Discard, r)
		return kind, -1, err
	}
	if _, err = buf.ReadFrom(r); err != nil {
		s.account.add(-taken)
	}
	return kind, taken, err
}

// contain is the edge at which a panic ends: the connection is closed, the
// process goes on.
func (s *session) contain() {
	if p := recover(); p != nil {
		s.relay.panicked(s.ctx, p)
		s.out.finish(websocket.StatusInternalError, "internal error")
	}
}

// handle answers one message.
func (s *session) handle(data []byte) {
	defer s.contain()
	m, err := parseMessage(data)
	if err != nil {
		s.relay.metrics.messages.WithLabelValues("malformed").Inc()
		s.refuseFrame(err.Error())
		return
	}
	switch m.label {
	case "EVENT":
		s.relay.metrics.messages.WithLabelValues("event").Inc()
		s.event(m.event)
	case "REQ":
		s.relay.metrics.messages.WithLabelValues("req").Inc()
		s.request(m)
	case "CLOSE":
		s.relay.metrics.messages.WithLabelValues("close").Inc()
		s.closeSubscription(m.id)
	case "COUNT":
		s.relay.metrics.messages.WithLabelValues("count").Inc()
		s.count(m)
	case "NEG-OPEN", "NEG-MSG", "NEG-CLOSE":
		s.relay.metrics.messages.WithLabelValues("neg").Inc()
		s.negentropy(m)
	case "AUTH":
		s.relay.metrics.messages.WithLabelValues("auth").Inc()
		if s.pending.wait(s.ctx) != nil { // the keys are those of the EVENTs before it
			return
		}
		if s.allowRequest() {
			s.authenticate(m.event)
		} else {
			s.send(noticeMessage("rate-limited: too many requests, slow down"))
		}
	default:
		s.relay.metrics.messages.WithLabelValues("other").Inc()
		s.strike()
		s.send(noticeMessage("unsupported: unknown message"))
	}
}

// event checks one EVENT and hands it on; OK follows its commit.
func (s *session) event(data []byte) {
	ev, err := parseEvent(data)
	if ev == nil {
		s.relay.metrics.events.WithLabelValues(resultInvalid).Inc()
		s.refuseFrame("EVENT: " + err.Error())
		return
	}
	if err != nil {
		s.strike()
		s.answer(ev.ID, refusal("invalid: "+err.Error()))
		return
	}
	rec := &Record{Event: ev, JSON: appendEvent(make([]byte, 0, len(data)+32), ev)}
	if limit := s.relay.limits().EventBytes; len(rec.JSON) > limit {
		s.answer(ev.ID, refusal(fmt.Sprintf("invalid: event is larger than %d bytes", limit)))
		return
	}
	if s.pending.add(s.ctx) != nil {
		return
	}
	size := 2 * len(data) // as JSON and read
	if !s.take(size, shortEvent) {
		s.answer(ev.ID, refusal(shortOfMemory))
		s.pending.done()
		return
	}
	sub := &submission{rec: rec, size: size, session: s, before: s.turn, after: make(chan struct{})}
	select {
	case s.checks <- struct{}{}:
	case <-s.ctx.Done():
		s.settle(sub)
		return
	}
	s.turn = sub.after
	s.checking.Go(func() { s.check(sub) })
}

// check takes an event through the checks, beside the events before and after
// it of the same connection; they are stored in the order they came.
func (s *session) check(sub *submission) {
	defer s.contain()
	defer func() { <-s.checks }()
	a := s.relay.submit(s.ctx, sub)
	sub.pass()
	if a == nil {
		return
	}
	if a.result == resultInvalid {
		s.strike()
	}
	s.answer(sub.rec.Event.ID, a)
	s.settle(sub)
}

// settle ends the wait for an event. The committer calls it too.
func (s *session) settle(sub *submission) {
	s.account.add(-sub.size)
	s.pending.done()
}

// answer sends the OK of an event. The committer calls it too.
func (s *session) answer(id string, a *answer) {
	s.relay.metrics.events.WithLabelValues(a.result).Inc()
	s.send(okMessage(echoID(id), a.ok, a.text))
}

// echoID keeps anything but an id from being sent back.
func echoID(id string) string {
	if canonical.IsHex(id, 32) {
		return id
	}
	return ""
}

// send queues a message; a peer that does not read its messages is cut off.
func (s *session) send(head []byte) { s.push(outgoing{head: head}) }

// deliver queues a live event for the subscription.
func (s *session) deliver(sub *subscription, rec *Record) {
	s.relay.metrics.deliveries.Inc()
	s.push(outgoing{head: sub.head, rec: rec})
}

func (s *session) push(o outgoing) {
	if !s.out.push(o) && s.ctx.Err() == nil {
		s.relay.metrics.slowConsumers.Inc()
		s.cancel()
	}
	s.relay.relieve(0)
}

// refuseFrame answers a message without a usable id.
func (s *session) refuseFrame(text string) {
	s.send(noticeMessage("invalid: " + text))
	s.strike()
}

// strike counts a message that was refused for its form.
func (s *session) strike() {
	if !allow(s.strikes, s.relay.opts.Now()) {
		s.out.finish(websocket.StatusPolicyViolation, "too many refused messages")
	}
}

// allowRequest takes a token of the connection and of its address.
func (s *session) allowRequest() bool {
	now := s.relay.opts.Now()
	return allow(s.own.requests, now) && allow(s.shared.requests, now)
}

// closeSubscription handles CLOSE.
func (s *session) closeSubscription(id string) {
	if s.pending.wait(s.ctx) != nil {
		return
	}
	if sub := s.subscriptions[id]; sub != nil {
		s.drop(sub)
	}
}

// drop ends a subscription.
func (s *session) drop(sub *subscription) {
	s.relay.subscriptions.remove(sub)
	sub.close()
	delete(s.subscriptions, sub.id)
	s.weight -= sub.weight
	s.account.add(-sub.weight)
	s.relay.metrics.subscriptions.Dec()
}

// drain ends the connection in order: no further EVENT is taken, those that
// were are answered, and the peer is told.
func (s *session) drain(ctx context.Context) {
	s.pending.close()
	if s.pending.wait(ctx) != nil {
		s.cancel()
		return
	}
	s.out.finish(websocket.StatusGoingAway, "the relay is shutting down")
}
