package relay

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/nbd-wtf/go-nostr"
)

// Results of a REQ, the closed label set of parley_relay_requests_total.
const (
	requestServed       = "served"
	requestInvalid      = "invalid"
	requestAuthRequired = "auth_required"
	requestRateLimited  = "rate_limited"
	requestRestricted   = "restricted"
	requestTooBroad     = "too_broad"
	requestError        = "error"
)

// request handles REQ: it waits for the commits of the EVENTs before it,
// replaces a subscription of the same id, and sends the stored events, EOSE
// and then the live events that were stored meanwhile.
func (s *session) request(m message) {
	if s.pending.wait(s.ctx) != nil {
		return
	}
	if old := s.subscriptions[m.id]; old != nil {
		s.drop(old)
	}
	scopes, result, text := s.scopes(m)
	if text != "" {
		s.refuseRequest(m.id, result, text)
		return
	}
	var filters []nostr.Filter
	for _, sc := range scopes {
		filters = append(filters, sc.parts...)
	}
	sub := newSubscription(m.id, filters, s.keys, s.deliver)
	sub.weight = weight(filters)
	if s.weight+sub.weight > s.relay.opts.Limits.FilterBytes {
		s.refuseRequest(m.id, requestRestricted, "restricted: the open filters of this connection hold too many values")
		return
	}
	s.weight += sub.weight
	s.subscriptions[m.id] = sub
	s.relay.metrics.subscriptions.Inc()
	s.relay.subscriptions.add(sub)
	s.serve(sub, scopes)
}

// scopes reads the filters of a REQ, or says why it is refused.
func (s *session) scopes(m message) (scopes []scope, result, text string) {
	l := s.relay.opts.Limits
	switch {
	case !s.allowRequest():
		return nil, requestRateLimited, "rate-limited: too many requests, slow down"
	case len(m.filters) == 0:
		return nil, requestInvalid, "invalid: a REQ has at least one filter"
	case len(m.filters) > l.Filters:
		return nil, requestInvalid, fmt.Sprintf("invalid: a REQ has at most %d filters", l.Filters)
	case len(s.subscriptions) >= l.Subscriptions:
		return nil, requestRestricted, fmt.Sprintf("restricted: a connection has at most %d subscriptions", l.Subscriptions)
	}
	for _, raw := range m.filters {
		f, err := parseFilter(raw, l)
		if errors.Is(err, errUnknownElement) {
			return nil, requestInvalid, "unsupported: " + err.Error()
		}
		if err != nil {
			return nil, requestInvalid, "invalid: " + err.Error()
		}
		sc, err := scopeOf(f, s.keys)
		if err != nil {
			return nil, requestAuthRequired, "auth-required: " + err.Error()
		}
		scopes = append(scopes, sc)
	}
	return scopes, "", ""
}

// refuseRequest answers a REQ that opens no subscription.
func (s *session) refuseRequest(id, result, text string) {
	s.relay.metrics.requests.WithLabelValues(result).Inc()
	if result == requestInvalid {
		s.strike()
	}
	s.send(closedMessage(id, text))
}

// serve sends what is stored and lets the subscription go live.
func (s *session) serve(sub *subscription, scopes []scope) {
	ctx, cancel := context.WithTimeout(s.ctx, s.relay.opts.Limits.QueryTimeout)
	defer cancel()
	begin := time.Now()
	err := s.sendStored(ctx, sub, scopes)
	if err == nil {
		err = s.goLive(ctx, sub)
	}
	s.relay.metrics.queryDuration.Observe(time.Since(begin).Seconds())
	if err == nil {
		s.relay.metrics.requests.WithLabelValues(requestServed).Inc()
		return
	}
	s.drop(sub)
	switch {
	case s.ctx.Err() != nil || errors.Is(err, errOutboundClosed):
		s.relay.metrics.requests.WithLabelValues(requestError).Inc()
	case errors.Is(err, ErrTooBroad):
		s.refuseRequest(sub.id, requestTooBroad, "error: the filter reads too much, make it narrower")
	case errors.Is(err, errOverflow):
		s.refuseRequest(sub.id, requestError, "error: too many new events during the query, ask again")
	case errors.Is(err, context.DeadlineExceeded):
		s.refuseRequest(sub.id, requestError, "error: the query took too long")
	default:
		s.relay.log.ErrorContext(ctx, "querying events", "err", err)
		s.refuseRequest(sub.id, requestError, "error: the store could not be read")
	}
}

// errOverflow says that more live events came during a query than are held.
var errOverflow = errors.New("relay: too many live events")

// sendStored sends the stored events of all scopes, newest first and each
// once, then EOSE.
func (s *session) sendStored(ctx context.Context, sub *subscription, scopes []scope) error {
	var sources []iter.Seq2[*Record, error]
	for _, sc := range scopes {
		sources = append(sources, s.readScope(ctx, sc))
	}
	for rec, err := range inOrder(sources) {
		if err != nil {
			return err
		}
		if !visible(rec, sub.keys) || !sub.sent(rec.Event.ID) {
			continue
		}
		if err := s.out.pushWait(ctx, outgoing{head: sub.head, event: rec.JSON}); err != nil {
			return err
		}
	}
	sub.stored(s.relay.committer.seam())
	return s.out.pushWait(ctx, outgoing{head: eoseMessage(sub.id)})
}

// readScope queries the parts of one scope under its one limit.
func (s *session) readScope(ctx context.Context, sc scope) iter.Seq2[*Record, error] {
	var parts []iter.Seq2[*Record, error]
	for _, f := range sc.parts {
		parts = append(parts, s.relay.store.Query(ctx, f, s.relay.opts.Now(), s.relay.opts.Limits.Scan))
	}
	return first(sc.limit, inOrder(parts))
}

// goLive sends the live events that came during the query and lets the
// subscription pass the next ones on by itself.
func (s *session) goLive(ctx context.Context, sub *subscription) error {
	for {
		records, done, overflow := sub.take(s.relay.committer.offered())
		if overflow {
			return errOverflow
		}
		if done {
			return nil
		}
		for _, rec := range records {
			s.relay.metrics.deliveries.Inc()
			if err := s.out.pushWait(ctx, outgoing{head: sub.head, event: rec.JSON}); err != nil {
				return err
			}
		}
	}
}

// first yields at most n records; an error is not counted.
func first(n int, records iter.Seq2[*Record, error]) iter.Seq2[*Record, error] {
	return func(yield func(*Record, error) bool) {
		if n == 0 {
			return
		}
		left := n
		for rec, err := range records {
			if left--; !yield(rec, err) || left == 0 {
				return
			}
		}
	}
}

// inOrder merges sources that are in the order of answers into one.
func inOrder(sources []iter.Seq2[*Record, error]) iter.Seq2[*Record, error] {
	if len(sources) == 1 {
		return sources[0]
	}
	return func(yield func(*Record, error) bool) {
		var heads []*head
		for _, source := range sources {
			h := &head{}
			h.next, h.stop = iter.Pull2(source)
			defer h.stop()
			if h.advance() {
				heads = append(heads, h)
			}
		}
		for len(heads) > 0 {
			i := earliest(heads)
			h := heads[i]
			if !yield(h.rec, h.err) || h.err != nil {
				return
			}
			if !h.advance() {
				heads = slices.Delete(heads, i, i+1)
			}
		}
	}
}

// head is the next record of one source.
type head struct {
	rec  *Record
	err  error
	next func() (*Record, error, bool)
	stop func()
}

func (h *head) advance() (ok bool) {
	h.rec, h.err, ok = h.next()
	return ok
}

// earliest returns the position of the head to answer first: an error at
// once, else the newest record.
func earliest(heads []*head) int {
	best := 0
	for i, h := range heads {
		if h.err != nil {
			return i
		}
		if compareRecords(h.rec, heads[best].rec) < 0 {
			best = i
		}
	}
	return best
}
