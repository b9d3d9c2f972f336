package relay

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
	"golang.org/x/time/rate"

	"github.com/parleykit/parley/protocol/canonical"
)

const (
	pingInterval = 30 * time.Second
	pingTimeout  = 60 * time.Second
	// Messages refused for their form, per second and at once; beyond it the
	// connection is closed.
	strikeRate, strikeBurst = 5, 100
)

// session is one connection. Its reader goroutine, run, owns every field
// without a lock of its own; others only call answer, deliver and drain.
type session struct {
	relay     *Relay
	conn      *websocket.Conn
	address   netip.Addr
	challenge string
	ctx       context.Context
	cancel    context.CancelFunc
	out       *outbound
	pending   *pending
	own       budget  // of this connection
	shared    *budget // of its address
	strikes   *rate.Limiter

	pinging       atomic.Bool
	keys          []string // authenticated public keys
	subscriptions map[string]*subscription
	weight        int // of subscriptions
}

func (r *Relay) newSession(conn *websocket.Conn, address netip.Addr) *session {
	l := r.opts.Limits
	ctx, cancel := context.WithCancel(r.base)
	return &session{
		relay: r, conn: conn, address: address, challenge: newChallenge(), ctx: ctx, cancel: cancel,
		out:     newOutbound(l.OutboundMessages, l.OutboundBytes),
		pending: newPending(l.PendingEvents),
		own: budget{
			events:   newLimiter(l.EventRate, l.EventBurst),
			requests: newLimiter(l.RequestRate, l.RequestBurst),
		},
		shared:        r.addresses.budget(address),
		strikes:       newLimiter(strikeRate, strikeBurst),
		subscriptions: map[string]*subscription{},
	}
}

// run serves the connection until it ends.
func (s *session) run() {
	written := make(chan struct{})
	go func() {
		defer close(written)
		s.write()
	}()
	s.send(challengeMessage(s.challenge))
	s.read()
	for _, sub := range s.subscriptions {
		s.drop(sub)
	}
	<-written
	s.cancel()
}

// read handles the peer's messages in their order.
func (s *session) read() {
	s.conn.SetReadLimit(int64(s.relay.opts.Limits.FrameBytes))
	for {
		kind, data, err := s.conn.Read(s.ctx)
		if err != nil {
			s.cancel()
			return
		}
		switch {
		case s.out.finished():
			// Read on only to see the peer's side of the close.
		case kind != websocket.MessageText:
			s.out.finish(websocket.StatusUnsupportedData, "text messages only")
		default:
			s.handle(data)
		}
	}
}

// handle is the edge at which a panic ends: the connection is closed, the
// process goes on.
func (s *session) handle(data []byte) {
	defer func() {
		if p := recover(); p != nil {
			s.relay.panicked(s.ctx, p)
			s.out.finish(websocket.StatusInternalError, "internal error")
		}
	}()
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
	case "AUTH":
		s.relay.metrics.messages.WithLabelValues("auth").Inc()
		if s.allowRequest() {
			s.authenticate(m.event)
		} else {
			s.send(noticeMessage("rate-limited: too many requests, slow down"))
		}
	default:
		s.relay.metrics.messages.WithLabelValues("other").Inc()
		s.unsupported(m)
	}
}

// unsupported answers a message this relay does not know. COUNT is answered
// as NIP-45 says.
func (s *session) unsupported(m message) {
	s.strike()
	if m.label == "COUNT" {
		s.send(closedMessage(m.id, "unsupported: COUNT"))
		return
	}
	s.send(noticeMessage("unsupported: unknown message"))
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
	if limit := s.relay.opts.Limits.EventBytes; len(rec.JSON) > limit {
		s.answer(ev.ID, refusal(fmt.Sprintf("invalid: event is larger than %d bytes", limit)))
		return
	}
	if s.pending.add(s.ctx) != nil {
		return
	}
	a := s.relay.submit(s.ctx, &submission{rec: rec, session: s})
	if a == nil {
		return
	}
	s.pending.done()
	if a.result == resultInvalid {
		s.strike()
	}
	s.answer(ev.ID, a)
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
	s.push(outgoing{head: sub.head, event: rec.JSON})
}

func (s *session) push(o outgoing) {
	if !s.out.push(o) && s.ctx.Err() == nil {
		s.relay.metrics.slowConsumers.Inc()
		s.cancel()
	}
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

// write sends what is queued until the connection ends. Each message has
// WriteTimeout to get out.
func (s *session) write() {
	defer s.cancel()
	defer s.conn.CloseNow()
	pings := time.NewTicker(pingInterval)
	defer pings.Stop()
	var buf []byte
	for {
		o, err := s.out.pop(s.ctx, pings.C)
		switch {
		case errors.Is(err, errTick):
			s.ping()
			continue
		case err != nil:
			return
		}
		if o.close != nil {
			s.conn.Close(o.close.Code, o.close.Reason)
			return
		}
		buf = o.appendTo(buf[:0])
		if err := s.writeMessage(buf); err != nil {
			return
		}
		if cap(buf) > 256<<10 {
			buf = nil
		}
	}
}

func (s *session) writeMessage(data []byte) error {
	ctx, cancel := context.WithTimeout(s.ctx, s.relay.opts.Limits.WriteTimeout)
	defer cancel()
	err := s.conn.Write(ctx, websocket.MessageText, data)
	if errors.Is(err, context.DeadlineExceeded) || (err != nil && ctx.Err() == context.DeadlineExceeded) {
		s.relay.metrics.slowConsumers.Inc()
	}
	return err
}

// ping asks the peer whether it is there and ends the connection when it does
// not answer. Only one ping is under way at a time.
func (s *session) ping() {
	if !s.pinging.CompareAndSwap(false, true) {
		return
	}
	go func() {
		defer s.pinging.Store(false)
		ctx, cancel := context.WithTimeout(s.ctx, pingTimeout)
		defer cancel()
		if s.conn.Ping(ctx) != nil {
			s.cancel()
		}
	}()
}
