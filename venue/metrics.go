package venue

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/parleykit/parley/protocol/agreement"
)

// Values of the label result beside the codes of refusals.
const (
	resultAccepted = "accepted"
	resultReplayed = "replayed"
)

// actions are the values of the label action: what a participant may do, and
// one for a command that was refused before its action was read.
var actions = []string{
	agreement.ActionComment, agreement.ActionQuestion, agreement.ActionChangeRequest, agreement.ActionAgree,
	agreement.ActionDisagree, agreement.ActionAbstain, agreement.ActionWithdraw, actionUnknown,
}

const actionUnknown = "unknown"

var outcomes = []string{
	agreement.OutcomePending, agreement.OutcomeReached, agreement.OutcomeDisagreed,
	agreement.OutcomeNoConsensus, agreement.OutcomeExpired,
}

var codes = []string{
	agreement.CodeInvalid, agreement.CodeUnknownAgreement, agreement.CodeUnknownParticipant, agreement.CodeStaleDigest,
	agreement.CodeClosed, agreement.CodeExpired, agreement.CodeAlreadyDecided, agreement.CodeEventLimit,
	agreement.CodeKeyConflict, agreement.CodeSignatureRequired, agreement.CodeSignatureInvalid,
	agreement.CodeNotPermitted, agreement.CodeCap,
}

// metrics count what was decided inside a transaction; one that is rolled back
// and run again counts again.
type metrics struct {
	commands  *prometheus.CounterVec // action, result
	proposals *prometheus.CounterVec // result
	queries   *prometheus.CounterVec // result
	closed    *prometheus.CounterVec // outcome
	oversize  prometheus.Counter
	failures  prometheus.Counter
}

func newMetrics(reg prometheus.Registerer, rooms func() (map[string]int64, error)) *metrics {
	factory := promauto.With(reg)
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return factory.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	m := &metrics{
		commands:  counter("parley_venue_commands_total", "Commands to rooms, by action and result.", "action", "result"),
		proposals: counter("parley_venue_proposals_total", "Proposals of agreements, by result.", "result"),
		queries:   counter("parley_venue_queries_total", "Queries for rooms, by result.", "result"),
		closed:    counter("parley_venue_rooms_closed_total", "Rooms that got a final outcome.", "outcome"),
		oversize: factory.NewCounter(prometheus.CounterOpts{
			Name: "parley_venue_oversize_bundles_total", Help: "Bundles too large for a message, kept in the store only.",
		}),
		failures: factory.NewCounter(prometheus.CounterOpts{
			Name: "parley_venue_expiry_failures_total", Help: "Rooms that could not be closed at their deadline, per attempt.",
		}),
	}
	m.initialise()
	if reg != nil {
		reg.MustRegister(&roomCollector{count: rooms, desc: roomsDesc})
	}
	return m
}

func (m *metrics) initialise() {
	results := append([]string{resultAccepted, resultReplayed}, codes...)
	for _, result := range results {
		m.proposals.WithLabelValues(result)
		for _, action := range actions {
			m.commands.WithLabelValues(action, result)
		}
		if result != resultReplayed {
			m.queries.WithLabelValues(result)
		}
	}
	for _, outcome := range outcomes[1:] {
		m.closed.WithLabelValues(outcome)
	}
}

var roomsDesc = prometheus.NewDesc("parley_venue_rooms", "Stored rooms, by outcome.", []string{"outcome"}, nil)

// roomCollector counts the rooms in the store when it is asked, so that the
// gauge is right whatever committed or was rolled back.
type roomCollector struct {
	count func() (map[string]int64, error)
	desc  *prometheus.Desc
}

// Describe implements prometheus.Collector.
func (c *roomCollector) Describe(ch chan<- *prometheus.Desc) { ch <- c.desc }

// Collect implements prometheus.Collector. A store that cannot be read makes
// the series absent, which an alert can see.
func (c *roomCollector) Collect(ch chan<- prometheus.Metric) {
	counts, err := c.count()
	if err != nil {
		return
	}
	for _, outcome := range outcomes {
		ch <- prometheus.MustNewConstMetric(c.desc, prometheus.GaugeValue, float64(counts[outcome]), outcome)
	}
}
