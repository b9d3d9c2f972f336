package relay

import (
	"context"
	"iter"
)

// count handles COUNT (NIP-45): how many events the filters find together,
// exactly and each once. It opens no subscription. A limit in a filter holds.
func (s *session) count(m message) {
	if s.pending.wait(s.ctx) != nil {
		return
	}
	limits := s.relay.limits()
	limits.Results = limits.Scan + 1 // no limit but that of reading
	scopes, result, text := s.scopes(m.filters, limits)
	if text != "" {
		s.refuseCount(m.id, result, text)
		return
	}
	ctx, cancel := context.WithTimeout(s.ctx, limits.QueryTimeout)
	defer cancel()
	n, err := s.countScopes(ctx, scopes, s.readers(scopes), limits.Scan)
	if err != nil {
		result, text := s.failure(ctx, err)
		s.refuseCount(m.id, result, text)
		return
	}
	s.relay.metrics.counts.WithLabelValues(requestServed).Inc()
	s.send(countMessage(m.id, n))
}

func (s *session) refuseCount(id, result, text string) {
	s.relay.metrics.counts.WithLabelValues(result).Inc()
	if result == requestInvalid {
		s.strike()
	}
	s.send(closedMessage(id, text))
}

// countScopes counts what the scopes contain for a connection that may read the
// wraps for keys, and gives ErrTooBroad when more than most events are counted
// or read for one filter.
func (s *session) countScopes(ctx context.Context, scopes []scope, keys []string, most int) (n int, err error) {
	for _, err := range s.union(ctx, scopes, keys, most) {
		if err != nil {
			return 0, err
		}
		if n++; n > most {
			return 0, ErrTooBroad
		}
	}
	return n, nil
}

// union yields the events of all scopes that a connection which may read the
// wraps for keys may see, each once and in the order of answers.
func (s *session) union(ctx context.Context, scopes []scope, keys []string, scan int) iter.Seq2[*Record, error] {
	var sources []iter.Seq2[*Record, error]
	for _, sc := range scopes {
		sources = append(sources, s.readScope(ctx, sc, scan))
	}
	return func(yield func(*Record, error) bool) {
		last := ""
		for rec, err := range inOrder(sources) {
			if err != nil {
				yield(nil, err)
				return
			}
			if id := rec.Event.ID; id != last && visible(rec, keys) && !yield(rec, nil) {
				return
			}
			last = rec.Event.ID
		}
	}
}
