package relay

import (
	"context"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// metrics are the numbers of one relay; docs/metrics.md explains each.
type metrics struct {
	connections     prometheus.Gauge
	refused         *prometheus.CounterVec
	messages        *prometheus.CounterVec
	events          *prometheus.CounterVec
	requests        *prometheus.CounterVec
	authentications *prometheus.CounterVec
	subscriptions   prometheus.Gauge
	deliveries      prometheus.Counter
	slowConsumers   prometheus.Counter
	queryDuration   prometheus.Histogram
	commitEvents    prometheus.Histogram
	commitDuration  prometheus.Histogram
	expired         prometheus.Counter
	followed        prometheus.Counter
	panics          prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) *metrics {
	f := promauto.With(reg)
	counter := func(name, help string) prometheus.Counter {
		return f.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	gauge := func(name, help string) prometheus.Gauge {
		return f.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	}
	vector := func(name, help, label string, values ...string) *prometheus.CounterVec {
		v := f.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
		for _, value := range values {
			v.WithLabelValues(value)
		}
		return v
	}
	histogram := func(name, help string, buckets []float64) prometheus.Histogram {
		return f.NewHistogram(prometheus.HistogramOpts{
			Name: name, Help: help, Buckets: buckets, NativeHistogramBucketFactor: 1.1,
		})
	}
	seconds := prometheus.ExponentialBuckets(0.0005, 2, 14)
	return &metrics{
		connections: gauge("parley_relay_connections", "Open WebSocket connections."),
		refused: vector("parley_relay_refused_connections_total", "WebSocket requests refused, by reason.", "reason",
			refusedOrigin, refusedFull, refusedAddress, refusedStopping),
		messages: vector("parley_relay_messages_total", "Messages from peers, by type.", "type",
			"event", "req", "close", "auth", "other", "malformed"),
		events: vector("parley_relay_events_total", "EVENTs answered, by result.", "result",
			resultStored, resultDuplicate, resultStale, resultDeleted, resultInvalid, resultBlocked,
			resultRestricted, resultAuthRequired, resultRateLimited, resultError),
		requests: vector("parley_relay_requests_total", "REQs answered, by result.", "result",
			requestServed, requestInvalid, requestAuthRequired, requestRateLimited, requestRestricted,
			requestTooBroad, requestError),
		authentications: vector("parley_relay_authentications_total", "AUTH messages answered, by result.", "result",
			"accepted", "refused"),
		subscriptions:  gauge("parley_relay_subscriptions", "Open subscriptions."),
		deliveries:     counter("parley_relay_deliveries_total", "Live events queued for subscriptions."),
		slowConsumers:  counter("parley_relay_slow_consumers_total", "Connections closed because the peer did not read."),
		queryDuration:  histogram("parley_relay_query_duration_seconds", "Time to send the stored events of a REQ.", seconds),
		commitEvents:   histogram("parley_relay_commit_events", "Events in one commit.", prometheus.ExponentialBuckets(1, 2, 9)),
		commitDuration: histogram("parley_relay_commit_duration_seconds", "Time of one synced commit.", seconds),
		expired:        counter("parley_relay_expired_events_total", "Events removed because they expired."),
		followed:       counter("parley_relay_followed_events_total", "Live events that other processes stored."),
		panics:         counter("parley_relay_panics_total", "Panics that were contained; each is a defect."),
	}
}

// panicked counts and logs a recovered panic.
func (r *Relay) panicked(ctx context.Context, p any) {
	r.metrics.panics.Inc()
	r.log.ErrorContext(ctx, "panic contained", "err", p, "stack", string(debug.Stack()))
}
