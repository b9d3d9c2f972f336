package egress

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// metrics of a dialer; docs/metrics.md explains each.
type metrics struct {
	dials *prometheus.CounterVec // result
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{dials: promauto.With(reg).NewCounterVec(prometheus.CounterOpts{
		Name: "parley_egress_dials_total", Help: "Outgoing connections asked for, by result.",
	}, []string{"result"})}
	for _, result := range []string{"connected", "refused", "failed"} {
		m.dials.WithLabelValues(result)
	}
	return m
}

func (m *metrics) count(err error) {
	result := "connected"
	switch {
	case errors.Is(err, ErrRefusedAddress) || errors.Is(err, ErrAddress):
		result = "refused"
	case err != nil:
		result = "failed"
	}
	m.dials.WithLabelValues(result).Inc()
}
