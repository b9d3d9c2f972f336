package relay

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// What things take in memory besides their bytes.
const (
	connectionBytes = 32 << 10 // a connection that does nothing
	messageBytes    = 64       // a place in a queue
	foundBytes      = 128      // an id that was sent as a stored event
	reconciledBytes = 40       // an event of a reconciliation
)

// What there was no memory for, the closed label set of
// parley_relay_memory_refusals_total.
const (
	shortConnection     = "connection"
	shortMessage        = "message"
	shortEvent          = "event"
	shortRequest        = "request"
	shortReconciliation = "reconciliation"
	shortOutbound       = "outbound"
)

// shortOfMemory tells a peer that another time may be better.
const shortOfMemory = "rate-limited: the relay is short of memory, try again later"

// memory counts the bytes that all connections hold, as near as can be told.
// New work is refused when there is no room for it, answers and events are not.
// Both make room by the end of the connection that holds most (Relay.relieve).
type memory struct {
	held     atomic.Int64
	refusals *prometheus.CounterVec
}

func newMemory(reg prometheus.Registerer) *memory {
	m := &memory{}
	f := promauto.With(reg)
	f.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "parley_relay_connection_bytes", Help: "Estimated memory that all connections hold.",
	}, func() float64 { return float64(m.held.Load()) })
	m.refusals = f.NewCounterVec(prometheus.CounterOpts{
		Name: "parley_relay_memory_refusals_total", Help: "Work refused, and connections cut off (outbound), for want of memory, by what it was for.",
	}, []string{"work"})
	for _, work := range []string{shortConnection, shortMessage, shortEvent, shortRequest, shortReconciliation, shortOutbound} {
		m.refusals.WithLabelValues(work)
	}
	return m
}

// take counts n bytes of new work, or counts a refusal when they would exceed
// the limit. A negative limit is none.
func (m *memory) take(n, limit int, work string) bool {
	if held := m.held.Add(int64(n)); limit < 0 || held <= int64(limit) {
		return true
	}
	m.held.Add(-int64(n))
	m.refusals.WithLabelValues(work).Inc()
	return false
}

// account is what one connection holds of it, besides connectionBytes. An event
// that several connections wait for is in the account of each, and counted once
// in all.
type account struct {
	all *memory
	own atomic.Int64
}

// add counts n bytes more, or less, without asking.
func (a *account) add(n int) {
	a.own.Add(int64(n))
	a.all.held.Add(int64(n))
}

// take is memory.take for this connection.
func (a *account) take(n, limit int, work string) bool {
	if !a.all.take(n, limit, work) {
		return false
	}
	a.own.Add(int64(n))
	return true
}

// hold counts a message that begins to wait.
func (a *account) hold(o outgoing) {
	a.add(len(o.head) + messageBytes)
	if o.rec == nil {
		return
	}
	a.own.Add(int64(len(o.rec.JSON)))
	if o.rec.waiting.Add(1) == 1 {
		a.all.held.Add(int64(len(o.rec.JSON)))
	}
}

// release undoes hold.
func (a *account) release(o outgoing) {
	a.add(-len(o.head) - messageBytes)
	if o.rec == nil {
		return
	}
	a.own.Add(-int64(len(o.rec.JSON)))
	if o.rec.waiting.Add(-1) == 0 {
		a.all.held.Add(-int64(len(o.rec.JSON)))
	}
}

// take counts new work of this connection, or reports that there is no memory
// for it; there may be soon.
func (s *session) take(n int, work string) bool {
	ok := s.account.take(n, s.relay.limits().ConnectionBytes, work)
	if !ok {
		s.relay.relieve(n)
	}
	return ok
}

// relieve cuts off the connection that holds most when all of them hold too
// much for n bytes more, and it more than that. Those that were cut off and did
// not end yet count as gone.
func (r *Relay) relieve(n int) {
	limit := int64(r.limits().ConnectionBytes) - int64(n)
	if limit < -int64(n) || r.memory.held.Load() <= limit {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	over := r.memory.held.Load() - limit
	var most *session
	for s := range r.sessions {
		switch own := s.account.own.Load(); {
		case s.shed:
			over -= own
		case most == nil || own > most.account.own.Load():
			most = s
		}
	}
	if over > 0 && most != nil && most.account.own.Load() > int64(n) {
		most.shed = true
		r.memory.refusals.WithLabelValues(shortOutbound).Inc()
		most.cancel()
	}
}
