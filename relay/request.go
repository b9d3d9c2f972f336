package relay

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/nbd-wtf/go-nostr"
)

// Results of a REQ, COUNT or NEG-OPEN, the closed label set of
// parley_relay_requests_total and its like.
const (
	requestServed       = "served"
	requestInvalid      = "invalid"
	requestAuthRequired = "auth_required"
	requestRateLimited  = "rate_limited"
	requestRestricted   = "restricted"
	requestTooBroad     = "too_broad"
	requestError        = "error"
)

var requestResults = []string{
	requestServed, requestInvalid, requestAuthRequired, requestRateLimited, requestRestricted, requestTooBroad, requestError,
}

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
	limits := s.relay.limits()
	if len(s.subscriptions) >= limits.Subscriptions {
		s.refuseRequest(m.id, requestRestricted, fmt.Sprintf("restricted: a connection has at most %d subscriptions", limits.Subscriptions))
		return
	}
	scopes, result, text := s.scopes(m.filters, limits)
	if text != "" {
		s.refuseRequest(m.id, result, text)
		return
	}
	var filters []nostr.Filter
	found := 0 // bytes of the ids that may be sent
	for _, sc := range scopes {
		filters = append(filters, sc.parts...)
		found += foundBytes * sc.limit
	}
	sub := newSubscription(m.id, filters, s.readers(scopes), s.deliver)
	sub.weight = weight(filters)
	if s.weight+sub.weight > s.relay.limits().FilterBytes {
		s.refuseRequest(m.id, requestRestricted, "restricted: the open filters of this connection hold too many values")
		return
	}
	if !s.take(sub.weight+found, shortRequest) {
		s.refuseRequest(m.id, requestRateLimited, shortOfMemory)
		return
	}
	defer s.account.add(-found)
	s.weight += sub.weight
	s.subscriptions[m.id] = sub
	s.relay.metrics.subscriptions.Inc()
	s.relay.subscriptions.add(sub)
	s.serve(sub, scopes)
}

// scopes reads the filters of a request, or says why it is refused.
func (s *session) scopes(filters []jsontext.Value, l Limits) (scopes []scope, result, text string) {
	switch {
	case !s.allowRequest():
		return nil, requestRateLimited, "rate-limited: too many requests, slow down"
	case len(filters) == 0:
		return nil, requestInvalid, "invalid: a request has at least one filter"
	case len(filters) > l.Filters:
		return nil, requestInvalid, fmt.Sprintf("invalid: a request has at most %d filters", l.Filters)
	}
	for i, raw := range filters {
		if i > 0 && !s.allowRequest() { // each filter costs what a request of one does
			return nil, requestRateLimited, "rate-limited: too many requests, slow down"
		}
		f, err := parseFilter(raw, l)
		if errors.Is(err, errUnknownElement) {
			return nil, requestInvalid, "unsupported: " + err.Error()
		}
		if err != nil {
			return nil, requestInvalid, "invalid: " + err.Error()
		}
		sc, err := s.scopeOf(f)
		if errors.Is(err, errAuthRequired) {
			return nil, requestAuthRequired, "auth-required: " + err.Error()
		}
		if err != nil {
			s.relay.log.ErrorContext(s.ctx, "reading the right of a bridge", "err", err)
			return nil, requestError, "error: the store could not be read"
		}
		scopes = append(scopes, sc.searched(f))
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
	ctx, cancel := context.WithTimeout(s.ctx, s.relay.limits().QueryTimeout)
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
	if s.ctx.Err() != nil || errors.Is(err, errOutboundClosed) {
		s.relay.metrics.requests.WithLabelValues(requestError).Inc()
		return
	}
	result, text := s.failure(ctx, err)
	s.refuseRequest(sub.id, result, text)
}

// failure says why reading for a peer failed: the result and the text for it.
func (s *session) failure(ctx context.Context, err error) (result, text string) {
	switch {
	case errors.Is(err, ErrTooBroad):
		return requestTooBroad, "error: the filter reads too much, make it narrower"
	case errors.Is(err, errOverflow):
		return requestError, "error: too many new events during the query, ask again"
	case errors.Is(err, context.DeadlineExceeded):
		return requestError, "error: the query took too long"
	}
	if s.ctx.Err() == nil {
		s.relay.log.ErrorContext(ctx, "querying events", "err", err)
	}
	return requestError, "error: the store could not be read"
}

// errOverflow says that more live events came during a query than are held.
var errOverflow = errors.New("relay: too many live events")

// sendStored sends the stored events of all scopes, each once, then EOSE: what
// is searched for by scope, the best first, then the others newest first.
func (s *session) sendStored(ctx context.Context, sub *subscription, scopes []scope) error {
	var sources []iter.Seq2[*Record, error]
	for _, sc := range scopes {
		if !sc.searches() {
			sources = append(sources, s.readScope(ctx, sc, s.relay.limits().Scan))
			continue
		}
		s.relay.metrics.searches.Inc()
		found := s.relay.store.Query(ctx, sc.parts[0], s.relay.opts.Now(), s.relay.limits().Scan)
		if err := s.sendRecords(ctx, sub, found); err != nil {
			return err
		}
	}
	if err := s.sendRecords(ctx, sub, inOrder(sources)); err != nil {
		return err
	}
	sub.stored(s.relay.committer.seam())
	return s.out.pushWait(ctx, outgoing{head: eoseMessage(sub.id)})
}

func (s *session) sendRecords(ctx context.Context, sub *subscription, records iter.Seq2[*Record, error]) error {
	for rec, err := range records {
		if err != nil {
			return err
		}
		if !visible(rec, sub.keys) || !sub.sent(rec.Event.ID) {
			continue
		}
		if err := s.out.gather(ctx, outgoing{head: sub.head, rec: rec}); err != nil {
			return err
		}
		s.relay.relieve(0)
	}
	return nil
}

// readScope queries the parts of one scope under its one limit, each part
// reading at most scan index entries.
func (s *session) readScope(ctx context.Context, sc scope, scan int) iter.Seq2[*Record, error] {
	var parts []iter.Seq2[*Record, error]
	for _, f := range sc.parts {
		parts = append(parts, s.relay.store.inTime(ctx, f, s.relay.opts.Now(), scan))
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
			if err := s.out.pushWait(ctx, outgoing{head: sub.head, rec: rec}); err != nil {
				return err
			}
			s.relay.relieve(0)
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
