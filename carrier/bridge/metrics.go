package bridge

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Results of items.
const (
	resultQueued    = "queued"    // stored for the other side
	resultDuplicate = "duplicate" // known by its id, or an older card
	resultInvalid   = "invalid"   // no event, or forged
	resultUnwanted  = "unwanted"  // not of the configured kinds and keys
	resultExpired   = "expired"
	resultFrame     = "frame" // waits for the others of its event
	resultSent      = "sent"
	resultRetry     = "retry"
	resultDead      = "dead" // refused for good
)

type metrics struct {
	bridge string
	items  *prometheus.CounterVec // bridge, direction, result
	queued *prometheus.GaugeVec   // bridge, direction
	holder *prometheus.GaugeVec   // bridge
}

func newMetrics(registerer prometheus.Registerer, bridge string) *metrics {
	factory := promauto.With(registerer)
	m := &metrics{
		bridge: bridge,
		items:  factory.NewCounterVec(prometheus.CounterOpts{Name: "parley_bridge_items_total", Help: "Items by what became of them.", ConstLabels: prometheus.Labels{"bridge": bridge}}, []string{"direction", "result"}),
		queued: factory.NewGaugeVec(prometheus.GaugeOpts{Name: "parley_bridge_queued_items", Help: "Items that wait.", ConstLabels: prometheus.Labels{"bridge": bridge}}, []string{"direction"}),
		holder: factory.NewGaugeVec(prometheus.GaugeOpts{Name: "parley_bridge_holder", Help: "Whether this process runs the bridge.", ConstLabels: prometheus.Labels{"bridge": bridge}}, nil),
	}
	for _, direction := range []string{"a_to_b", "b_to_a"} {
		for _, result := range []string{resultQueued, resultDuplicate, resultInvalid, resultUnwanted, resultExpired, resultFrame, resultSent, resultRetry, resultDead} {
			m.items.WithLabelValues(direction, result)
		}
		m.queued.WithLabelValues(direction)
	}
	m.holder.WithLabelValues()
	return m
}
