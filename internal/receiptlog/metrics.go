package receiptlog

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/parleykit/parley/protocol/logproof"
)

// Values of the label result.
const (
	resultServed  = "served"
	resultWaiting = "waiting"
	resultUnknown = "unknown"
	resultInvalid = "invalid"
	resultError   = "error"

	resultCosigned = "cosigned"
	resultFailed   = "failed"
)

type metrics struct {
	entries     prometheus.Gauge
	checkpoints prometheus.Counter
	failures    prometheus.Counter
	proofs      *prometheus.CounterVec // result
	witness     *prometheus.CounterVec // result
}

func newMetrics(reg prometheus.Registerer) *metrics {
	factory := promauto.With(reg)
	m := &metrics{
		entries: factory.NewGauge(prometheus.GaugeOpts{
			Name: "parley_receiptlog_entries", Help: "Receipts that the newest checkpoint of this process covers.",
		}),
		checkpoints: factory.NewCounter(prometheus.CounterOpts{
			Name: "parley_receiptlog_checkpoints_total", Help: "Checkpoints of the receipt log that this process signed.",
		}),
		failures: factory.NewCounter(prometheus.CounterOpts{
			Name: "parley_receiptlog_failures_total", Help: "Checkpoints of the receipt log that could not be made, per attempt.",
		}),
		proofs: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "parley_receiptlog_proofs_total", Help: "Proofs asked for over HTTP, by result.",
		}, []string{"result"}),
		witness: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "parley_receiptlog_witness_requests_total", Help: "Requests to witnesses for a cosignature, by result.",
		}, []string{"result"}),
	}
	for _, result := range []string{resultCosigned, resultFailed} {
		m.witness.WithLabelValues(result)
	}
	for _, result := range []string{resultServed, resultWaiting, resultUnknown, resultInvalid, resultError} {
		m.proofs.WithLabelValues(result)
	}
	return m
}

// made is told of every try to make a checkpoint.
func (m *metrics) made(c logproof.Checkpoint, err error) {
	if err != nil {
		m.failures.Inc()
		return
	}
	m.checkpoints.Inc()
	m.entries.Set(float64(c.Size))
}
