package relay

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/parleykit/parley/internal/negentropy"
)

// Bounds of reconciliations.
const (
	maxReconciliations  = 4      // open ones of one connection
	reconciliationBytes = 60_000 // of one answer before hex; peers take 128 KiB a frame
)

// Texts of NEG-ERR (NIP-77).
const (
	textTooBig  = "blocked: this query is too big"
	textTooSlow = "closed: you took too long to respond!"
)

// reconciliation is one NEG-OPEN of one connection: the events that matched
// then. It ends with NEG-CLOSE, an error, the connection or its time.
type reconciliation struct {
	id    string
	owner *session
	timer *time.Timer
	size  int // in the account of the owner

	mu     sync.Mutex
	server *negentropy.Server // nil after the end
}

// answer handles one message and sends the answer before an end can be told;
// open is false after the end.
func (r *reconciliation) answer(message string, send func(text string)) (open bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.server == nil {
		return false, nil
	}
	text, err := r.server.Answer(message)
	if err == nil {
		send(text)
	}
	return true, err
}

func (r *reconciliation) ended() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.server == nil
}

// end gives the memory and the place back and reports whether this call did it.
func (r *reconciliation) end() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.server == nil {
		return false
	}
	r.server = nil
	r.timer.Stop()
	r.owner.account.add(-r.size)
	r.owner.relay.giveReconciliation(r.owner.address)
	r.owner.relay.metrics.reconciliations.Dec()
	return true
}

// negentropy handles the messages of NIP-77.
func (s *session) negentropy(m message) {
	switch m.label {
	case "NEG-OPEN":
		s.openReconciliation(m)
	case "NEG-MSG":
		s.reconcileFurther(m)
	case "NEG-CLOSE":
		s.endReconciliation(m.id)
	}
}

// openReconciliation handles NEG-OPEN. One of the same id ends.
func (s *session) openReconciliation(m message) {
	if s.pending.wait(s.ctx) != nil {
		return
	}
	s.endReconciliation(m.id)
	first, scopes, result, text := s.readOpening(m)
	if text != "" {
		s.refuseReconciliation(m.id, result, text)
		return
	}
	if text := s.relay.takeReconciliation(s.address); text != "" {
		s.refuseReconciliation(m.id, requestRateLimited, text)
		return
	}
	set, err := s.setOf(scopes)
	if err != nil {
		s.relay.giveReconciliation(s.address)
		result, text := s.failure(s.ctx, err)
		if errors.Is(err, ErrTooBroad) {
			text = textTooBig
		}
		s.refuseReconciliation(m.id, result, text)
		return
	}
	size := reconciledBytes * set.Size()
	if !s.take(size, shortReconciliation) {
		s.relay.giveReconciliation(s.address)
		s.refuseReconciliation(m.id, requestRateLimited, shortOfMemory)
		return
	}
	s.relay.metrics.reconciliations.Inc()
	r := &reconciliation{id: m.id, owner: s, size: size, server: negentropy.NewServer(set, reconciliationBytes)}
	r.mu.Lock()
	r.timer = time.AfterFunc(s.relay.limits().ReconciliationTime, func() { s.expireReconciliation(r) })
	r.mu.Unlock()
	s.reconciliations[m.id] = r
	if s.reconcile(r, first) {
		s.relay.metrics.negentropy.WithLabelValues(requestServed).Inc()
	}
}

// readOpening reads a NEG-OPEN, or says why it is refused.
func (s *session) readOpening(m message) (first string, scopes []scope, result, text string) {
	limits := s.relay.limits()
	switch {
	case limits.Reconciliations < 0:
		return "", nil, requestRestricted, "blocked: this relay does not reconcile"
	case len(m.filters) != 2 || !readText(m.filters[1], &first):
		return "", nil, requestInvalid, "invalid: a NEG-OPEN has one filter and one message in hex"
	case s.openReconciliations() >= maxReconciliations:
		return "", nil, requestRestricted, "restricted: too many reconciliations on this connection"
	}
	limits.Results = limits.ReconciliationEvents + 1 // no limit but that of one more than is too many
	scopes, result, text = s.scopes(m.filters[:1], limits)
	return first, scopes, result, text
}

// openReconciliations forgets those whose time was over and counts the others.
func (s *session) openReconciliations() int {
	for id, r := range s.reconciliations {
		if r.ended() {
			delete(s.reconciliations, id)
		}
	}
	return len(s.reconciliations)
}

func readText(value jsontext.Value, to *string) bool {
	return value.Kind() == '"' && json.Unmarshal(value, to) == nil
}

// takeReconciliation takes one of the places of the relay and of an address, or
// says why there is none.
func (r *Relay) takeReconciliation(address netip.Addr) (refused string) {
	if r.reconciliations.Add(1) > int64(r.limits().Reconciliations) {
		r.reconciliations.Add(-1)
		return "rate-limited: too many reconciliations at this time, try again later"
	}
	if !r.addresses.reconcile(address) {
		r.reconciliations.Add(-1)
		return "rate-limited: too many reconciliations of this address, try again later"
	}
	return ""
}

// giveReconciliation undoes takeReconciliation.
func (r *Relay) giveReconciliation(address netip.Addr) {
	r.reconciliations.Add(-1)
	r.addresses.reconciled(address)
}

// setOf reads what the scopes contain for this connection. It gives ErrTooBroad
// for more events than are reconciled.
func (s *session) setOf(scopes []scope) (*negentropy.Set, error) {
	limits := s.relay.limits()
	ctx, cancel := context.WithTimeout(s.ctx, limits.QueryTimeout)
	defer cancel()
	set := &negentropy.Set{}
	for rec, err := range s.union(ctx, scopes, s.readers(scopes), max(limits.Scan, limits.ReconciliationEvents+1)) {
		if err != nil {
			return nil, err
		}
		if set.Size() == limits.ReconciliationEvents {
			return nil, ErrTooBroad
		}
		if rec.Event.CreatedAt >= negentropy.MaxTime {
			continue
		}
		if err := set.Add(rec.Event.CreatedAt, rec.Event.ID); err != nil {
			return nil, err
		}
	}
	set.Seal()
	return set, nil
}

// reconcileFurther handles NEG-MSG.
func (s *session) reconcileFurther(m message) {
	text := ""
	r := s.reconciliations[m.id]
	switch {
	case !s.allowRequest():
		s.send(negErrMessage(m.id, "rate-limited: too many requests, slow down"))
	case len(m.filters) != 1 || !readText(m.filters[0], &text):
		s.strike()
		s.endReconciliation(m.id)
		s.send(negErrMessage(m.id, "invalid: a NEG-MSG has one message in hex"))
	case r == nil:
		s.strike()
		s.send(negErrMessage(m.id, "closed: no reconciliation of this id is open"))
	default:
		s.reconcile(r, text)
	}
}

// reconcile answers one message of a reconciliation and reports whether it goes
// on. A message that cannot be read ends it.
func (s *session) reconcile(r *reconciliation, text string) bool {
	open, err := r.answer(text, func(answer string) { s.send(negMessage(r.id, answer)) })
	switch {
	case err != nil:
		s.endReconciliation(r.id)
		s.refuseReconciliation(r.id, requestInvalid, "invalid: "+err.Error())
		return false
	case !open: // its time was over and the peer was told
		delete(s.reconciliations, r.id)
		return false
	}
	return true
}

func (s *session) refuseReconciliation(id, result, text string) {
	s.relay.metrics.negentropy.WithLabelValues(result).Inc()
	if result == requestInvalid {
		s.strike()
	}
	s.send(negErrMessage(id, text))
}

// endReconciliation handles NEG-CLOSE, which is not answered.
func (s *session) endReconciliation(id string) {
	if r := s.reconciliations[id]; r != nil {
		r.end()
		delete(s.reconciliations, id)
	}
}

// expireReconciliation ends it after its time, on a goroutine of its own. The
// session drops it when the peer names it again.
func (s *session) expireReconciliation(r *reconciliation) {
	if r.end() {
		s.relay.metrics.negentropy.WithLabelValues(reconciliationExpired).Inc()
		s.send(negErrMessage(r.id, textTooSlow))
	}
}

// reconciliationExpired is a result of its own in
// parley_relay_reconciliations_total.
const reconciliationExpired = "expired"
