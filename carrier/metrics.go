package carrier

import (
	"context"
	"database/sql"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/parleykit/parley/protocol/envelope"
)

// Results of a received wrap beside the reasons of package envelope.
const (
	resultStored       = "stored"        // in the inbox
	resultRequest      = "request"       // in the request box
	resultAnswer       = "answer"        // an ack, nack or error that names a message of ours
	resultUnmatched    = "unmatched"     // an ack, nack or error that names none
	resultPart         = "part"          // waits for the other parts
	resultDuplicate    = "duplicate"     // known by wrap id or by sender and message id
	resultRequestFull  = "request_full"  // beyond a bound of the request box
	resultPartsFull    = "parts_full"    // beyond a bound of stored parts
	resultFrame        = "frame"         // waits for the other frames of its wrap
	resultFrameInvalid = "frame_invalid" // not a frame
	resultProbe        = "probe"         // what Probe sent
)

var receiveResults = []string{
	resultStored, resultRequest, resultAnswer, resultUnmatched, resultPart, resultDuplicate, resultRequestFull, resultPartsFull,
	resultFrame, resultFrameInvalid, resultProbe,
}

// Why frames were dropped.
const (
	droppedExpired  = "expired"  // the others did not come in time
	droppedEvicted  = "evicted"  // beyond a budget
	droppedConflict = "conflict" // they contradict each other
)

// Results of one Send.
const (
	resultAccepted    = "accepted"
	resultPermanent   = "permanent"
	resultTransient   = "transient"
	resultRateLimited = "rate_limited"
)

// Results of Handle.
const (
	resultDone   = "done"
	resultRetry  = "retry"
	resultFailed = "failed"
)

type metrics struct {
	received        *prometheus.CounterVec // scheme, result
	sent            *prometheus.CounterVec // scheme, result
	handled         *prometheus.CounterVec // result
	acks            *prometheus.CounterVec // direction: queued, received
	receiveFailures *prometheus.CounterVec // scheme
	partsExpired    prometheus.Counter
	held            prometheus.Counter
	ackLag          prometheus.Histogram
	nacks           *prometheus.CounterVec // direction: queued, received
	framesDropped   *prometheus.CounterVec // reason
	frames          prometheus.Gauge
	circuits        *prometheus.GaugeVec   // scheme
	circuitsOpened  *prometheus.CounterVec // scheme
	outboxBytes     prometheus.Gauge
	outbox          *prometheus.GaugeVec // state
	inbox           *prometheus.GaugeVec // state
	parts           prometheus.Gauge
	oldestQueued    prometheus.Gauge
	oldestPending   prometheus.Gauge
}

func newMetrics(reg prometheus.Registerer, schemes []string) *metrics {
	auto := promauto.With(reg)
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return auto.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	gauge := func(name, help string) prometheus.Gauge {
		return auto.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	}
	m := &metrics{
		received:        counter("parley_carrier_received_total", "Wraps received, by what became of them.", "scheme", "result"),
		sent:            counter("parley_carrier_sent_total", "Wraps handed to a carrier, by its answer.", "scheme", "result"),
		handled:         counter("parley_carrier_handled_total", "Stored messages given to the application, by outcome.", "result"),
		acks:            counter("parley_carrier_acks_total", "Acknowledgements queued and received.", "direction"),
		receiveFailures: counter("parley_carrier_receive_failures_total", "Times a carrier stopped receiving.", "scheme"),
		partsExpired:    auto.NewCounter(prometheus.CounterOpts{Name: "parley_carrier_parts_expired_total", Help: "Parts dropped because the others did not come."}),
		outbox:          auto.NewGaugeVec(prometheus.GaugeOpts{Name: "parley_carrier_outbox_messages", Help: "Messages in the outbox, by state."}, []string{"state"}),
		inbox:           auto.NewGaugeVec(prometheus.GaugeOpts{Name: "parley_carrier_inbox_messages", Help: "Messages in inbox and request box, by state."}, []string{"state"}),
		nacks:           counter("parley_carrier_nacks_total", "Requests for missing parts, queued and received.", "direction"),
		ackLag: auto.NewHistogram(prometheus.HistogramOpts{
			Name: "parley_carrier_ack_lag_seconds", Help: "Time from Send to the acknowledgement.",
			Buckets: []float64{1, 2, 5, 15, 60, 300, 3600, 6 * 3600, 24 * 3600, 7 * 24 * 3600},
		}),
		held:           auto.NewCounter(prometheus.CounterOpts{Name: "parley_carrier_held_total", Help: "Messages that had to wait for an earlier one of their thread."}),
		framesDropped:  counter("parley_carrier_frames_dropped_total", "Frames dropped before their wrap was complete.", "reason"),
		frames:         gauge("parley_carrier_frames", "Stored frames that wait for others."),
		circuits:       auto.NewGaugeVec(prometheus.GaugeOpts{Name: "parley_carrier_open_circuits", Help: "Addresses that are left alone after repeated failures."}, []string{"scheme"}),
		circuitsOpened: counter("parley_carrier_circuits_opened_total", "Times an address was given up for a while after repeated failures.", "scheme"),
		outboxBytes:    gauge("parley_carrier_outbox_bytes", "Size of the sealed messages that no carrier has taken."),
		parts:          gauge("parley_carrier_parts", "Stored parts that wait for others."),
		oldestQueued:   gauge("parley_carrier_oldest_queued_age_seconds", "Age of the oldest message that no carrier has taken; 0 when there is none."),
		oldestPending:  gauge("parley_carrier_oldest_pending_age_seconds", "Age of the oldest stored message that was not processed; 0 when there is none."),
	}
	m.initialise(schemes)
	return m
}

// initialise makes every series start at 0.
func (m *metrics) initialise(schemes []string) {
	for _, scheme := range schemes {
		for _, result := range append(envelope.Reasons(), receiveResults...) {
			m.received.WithLabelValues(scheme, result)
		}
		for _, result := range []string{resultAccepted, resultPermanent, resultTransient, resultRateLimited} {
			m.sent.WithLabelValues(scheme, result)
		}
		m.receiveFailures.WithLabelValues(scheme)
		m.circuits.WithLabelValues(scheme)
		m.circuitsOpened.WithLabelValues(scheme)
	}
	for _, reason := range []string{droppedExpired, droppedEvicted, droppedConflict} {
		m.framesDropped.WithLabelValues(reason)
	}
	for _, result := range []string{resultDone, resultRetry, resultFailed} {
		m.handled.WithLabelValues(result)
	}
	for _, direction := range []string{"queued", "received"} {
		m.acks.WithLabelValues(direction)
		m.nacks.WithLabelValues(direction)
	}
	for _, state := range OutboxStates {
		m.outbox.WithLabelValues(string(state))
	}
	for _, state := range InboxStates {
		m.inbox.WithLabelValues(string(state))
	}
}

// circuit notes that circuits of a scheme opened (1) or closed (-1).
func (m *metrics) circuit(scheme string, n int) {
	m.circuits.WithLabelValues(scheme).Add(float64(n))
	if n > 0 {
		m.circuitsOpened.WithLabelValues(scheme).Inc()
	}
}

// measurePeriod is how often the gauges are brought up to date.
const measurePeriod = time.Minute

func (e *Engine) measureLoop(ctx context.Context) {
	for ctx.Err() == nil {
		if err := e.measure(ctx); err != nil && ctx.Err() == nil {
			e.logger.WarnContext(ctx, "measuring the boxes", "err", err)
		}
		sleep(ctx, measurePeriod)
	}
}

// measure sets the gauges from the tables.
func (e *Engine) measure(ctx context.Context) error {
	return e.db.View(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if err := countStates(ctx, tx, "SELECT state, count(*) FROM carrier_outbox GROUP BY state", OutboxStates, e.metrics.outbox); err != nil {
			return err
		}
		if err := countStates(ctx, tx, "SELECT state, count(*) FROM carrier_inbox GROUP BY state", InboxStates, e.metrics.inbox); err != nil {
			return err
		}
		if err := scanGauge(ctx, tx, e.metrics.parts, "SELECT count(*) FROM carrier_parts"); err != nil {
			return err
		}
		if err := scanGauge(ctx, tx, e.metrics.frames, "SELECT count(*) FROM carrier_frames"); err != nil {
			return err
		}
		if err := scanGauge(ctx, tx, e.metrics.outboxBytes, "SELECT coalesce(sum(bytes), 0) FROM carrier_waiting"); err != nil {
			return err
		}
		now := e.now().Unix()
		if err := scanGauge(ctx, tx, e.metrics.oldestQueued,
			"SELECT coalesce($1 - min(created_at), 0) FROM carrier_outbox WHERE state = 'queued'", now); err != nil {
			return err
		}
		return scanGauge(ctx, tx, e.metrics.oldestPending,
			"SELECT coalesce($1 - min(received_at), 0) FROM carrier_inbox WHERE state = 'pending'", now)
	})
}

func scanGauge(ctx context.Context, tx *sql.Tx, gauge prometheus.Gauge, query string, args ...any) error {
	var value float64
	if err := tx.QueryRowContext(ctx, query, args...).Scan(&value); err != nil {
		return err
	}
	gauge.Set(value)
	return nil
}

func countStates(ctx context.Context, tx *sql.Tx, query string, states []State, gauge *prometheus.GaugeVec) error {
	counts := make(map[State]float64)
	rows, err := tx.QueryContext(ctx, query)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var state State
		var n float64
		if err := rows.Scan(&state, &n); err != nil {
			return err
		}
		counts[state] = n
	}
	for _, state := range states {
		gauge.WithLabelValues(string(state)).Set(counts[state])
	}
	return rows.Err()
}
