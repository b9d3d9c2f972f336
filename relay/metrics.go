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
	searches        prometheus.Counter
	counts          *prometheus.CounterVec
	negentropy      *prometheus.CounterVec
	reconciliations prometheus.Gauge
	cards           prometheus.Gauge
	cardBytes       prometheus.Gauge
	reads           *prometheus.CounterVec
	slowConsumers   prometheus.Counter
	queryDuration   prometheus.Histogram
	commitEvents    prometheus.Histogram
	commitDuration  prometheus.Histogram
	expired         prometheus.Counter
	removed         prometheus.Counter
	management      *prometheus.CounterVec
	pluginVerdicts  *prometheus.CounterVec
	pluginRestarts  prometheus.Counter
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
			refusedOrigin, refusedFull, refusedAddress, refusedStopping, refusedBlocked, refusedMemory),
		messages: vector("parley_relay_messages_total", "Messages from peers, by type.", "type",
			"event", "req", "count", "neg", "close", "auth", "other", "malformed"),
		events: vector("parley_relay_events_total", "EVENTs answered, by result.", "result",
			resultStored, resultDuplicate, resultStale, resultDeleted, resultInvalid, resultBlocked,
			resultRestricted, resultAuthRequired, resultRateLimited, resultWork, resultShadowed, resultError),
		requests: vector("parley_relay_requests_total", "REQs answered, by result.", "result", requestResults...),
		counts:   vector("parley_relay_counts_total", "COUNTs answered, by result.", "result", requestResults...),
		negentropy: vector("parley_relay_reconciliations_total", "Reconciliations opened and how those that failed ended, by result.", "result",
			append([]string{reconciliationExpired}, requestResults...)...),
		reconciliations: gauge("parley_relay_reconciliations", "Open reconciliations."),
		searches:        counter("parley_relay_searches_total", "Filters with a search in REQs."),
		cards:           gauge("parley_relay_cards", "Cards, profiles and relay lists held in memory; 0 when they are read from the store."),
		cardBytes:       gauge("parley_relay_card_bytes", "Estimated memory of the events held in memory."),
		reads: vector("parley_relay_reads_total", "Queries, by where they were answered.", "source",
			readMemory, readStore, readBoth),
		authentications: vector("parley_relay_authentications_total", "AUTH messages answered, by result.", "result",
			"accepted", "refused"),
		subscriptions:  gauge("parley_relay_subscriptions", "Open subscriptions."),
		deliveries:     counter("parley_relay_deliveries_total", "Live events queued for subscriptions."),
		slowConsumers:  counter("parley_relay_slow_consumers_total", "Connections closed because the peer did not read."),
		queryDuration:  histogram("parley_relay_query_duration_seconds", "Time to send the stored events of a REQ.", seconds),
		commitEvents:   histogram("parley_relay_commit_events", "Events in one commit.", prometheus.ExponentialBuckets(1, 2, 9)),
		commitDuration: histogram("parley_relay_commit_duration_seconds", "Time of one synced commit.", seconds),
		expired:        counter("parley_relay_expired_events_total", "Events removed because they expired."),
		removed:        counter("parley_relay_removed_events_total", "Events removed because management banned them or their key."),
		management:     vector("parley_relay_management_calls_total", "Calls of the management, by result.", "result", managementResults...),
		pluginVerdicts: vector("parley_relay_plugin_verdicts_total", "Events the plugin was asked about, by what came of it.", "verdict", pluginVerdicts...),
		pluginRestarts: counter("parley_relay_plugin_restarts_total", "Times the plugin was started again."),
		followed:       counter("parley_relay_followed_events_total", "Live events that other processes stored."),
		panics:         counter("parley_relay_panics_total", "Panics that were contained; each is a defect."),
	}
}

// panicked counts and logs a recovered panic.
func (r *Relay) panicked(ctx context.Context, p any) {
	r.metrics.panics.Inc()
	r.log.ErrorContext(ctx, "panic contained", "err", p, "stack", string(debug.Stack()))
}
