package nostr

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Results of an event that a relay sent.
const (
	eventValid    = "valid"
	eventInvalid  = "invalid"  // shape, id or signature
	eventUnwanted = "unwanted" // does not match the filter
)

type metrics struct {
	connections prometheus.Gauge
	dials       *prometheus.CounterVec // result: ok, failed
	events      *prometheus.CounterVec // result
}

func newMetrics(reg prometheus.Registerer) *metrics {
	auto := promauto.With(reg)
	m := &metrics{
		connections: auto.NewGauge(prometheus.GaugeOpts{
			Name: "parley_carrier_nostr_connections", Help: "Open connections to relays.",
		}),
		dials: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "parley_carrier_nostr_dials_total", Help: "Attempts to connect to a relay, by result.",
		}, []string{"result"}),
		events: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "parley_carrier_nostr_events_total", Help: "Events that relays sent, by what checking them gave.",
		}, []string{"result"}),
	}
	for _, result := range []string{"ok", "failed"} {
		m.dials.WithLabelValues(result)
	}
	for _, result := range []string{eventValid, eventInvalid, eventUnwanted} {
		m.events.WithLabelValues(result)
	}
	return m
}
