package agent

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Reasons of parley_agent_refusals_total: what failed, never applied.
const (
	refusedVenue     = "venue"     // not from the venue of the room, or from no pinned venue
	refusedRevision  = "revision"  // bytes that are not an agreement in canonical form
	refusedSignature = "signature" // the initiator's signature does not match
	refusedRoster    = "roster"    // this key is not in the roster
	refusedConflict  = "conflict"  // another revision or event where one is known
	refusedChain     = "chain"     // an event that does not follow from the ones before it
	refusedBundle    = "bundle"    // a bundle that does not verify
	refusedDigest    = "digest"    // a bundle about another digest
	refusedUnknown   = "unknown"   // about an agreement or a command that is not known
	refusedCard      = "card"      // a card that does not verify or is older than one seen
	refusedShape     = "shape"     // a body that is not of its type
)

var refusalReasons = []string{
	refusedVenue, refusedRevision, refusedSignature, refusedRoster, refusedConflict, refusedChain,
	refusedBundle, refusedDigest, refusedUnknown, refusedCard, refusedShape,
}

var requestResults = []Code{
	"ok", CodeInvalid, CodeRefused, CodeNotFound, CodeTimeout, CodeUnavailable, CodeInternal,
}

type metrics struct {
	requests  *prometheus.CounterVec
	peers     *prometheus.CounterVec
	refusals  *prometheus.CounterVec
	artifacts prometheus.Counter
	cards     prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) *metrics {
	f := promauto.With(reg)
	m := &metrics{
		requests: f.NewCounterVec(prometheus.CounterOpts{
			Name: "parley_agent_requests_total",
			Help: "Requests answered on the agent's socket.",
		}, []string{"operation", "result"}),
		peers: f.NewCounterVec(prometheus.CounterOpts{
			Name: "parley_agent_connections_rejected_total",
			Help: "Connections to the agent's socket that were closed unread.",
		}, []string{"reason"}),
		refusals: f.NewCounterVec(prometheus.CounterOpts{
			Name: "parley_agent_refusals_total",
			Help: "Things that failed a check of the agent and were not applied.",
		}, []string{"reason"}),
		artifacts: f.NewCounter(prometheus.CounterOpts{
			Name: "parley_agent_artifacts_total",
			Help: "Bundles that passed every check and were stored.",
		}),
		cards: f.NewCounter(prometheus.CounterOpts{
			Name: "parley_agent_cards_published_total",
			Help: "Own cards that a relay acknowledged.",
		}),
	}
	for _, op := range operations {
		for _, result := range requestResults {
			m.requests.WithLabelValues(op.Name, string(result))
		}
	}
	for _, reason := range []string{"peer", "full"} {
		m.peers.WithLabelValues(reason)
	}
	for _, reason := range refusalReasons {
		m.refusals.WithLabelValues(reason)
	}
	return m
}

func (m *metrics) request(operation string, result Code) {
	m.requests.WithLabelValues(operation, string(result)).Inc()
}

func (m *metrics) rejected(reason string) { m.peers.WithLabelValues(reason).Inc() }
