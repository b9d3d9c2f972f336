package mqttbridge

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Labels of the metrics, closed sets.
const (
	rolePublisher  = "publisher"
	roleSubscriber = "subscriber"

	dialOK      = "ok"
	dialRefused = "refused" // the broker or the egress rule does not want us
	dialFailed  = "failed"

	receivedHanded   = "handed"
	receivedTooLarge = "too_large" // never handed on
	receivedOverflow = "overflow"  // QoS 0 while too many waited
	receivedKept     = "kept"      // the Handler failed: it comes again
)

type metrics struct {
	connections *prometheus.GaugeVec   // role
	dials       *prometheus.CounterVec // role, result
	received    *prometheus.CounterVec // result
	takeovers   prometheus.Counter
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	f := promauto.With(registerer)
	m := &metrics{
		connections: f.NewGaugeVec(prometheus.GaugeOpts{
			Name: "parley_mqtt_connections", Help: "Open connections to brokers, by what they are for.",
		}, []string{"role"}),
		dials: f.NewCounterVec(prometheus.CounterOpts{
			Name: "parley_mqtt_dials_total", Help: "Connections tried to brokers, by what they are for and result.",
		}, []string{"role", "result"}),
		received: f.NewCounterVec(prometheus.CounterOpts{
			Name: "parley_mqtt_received_total", Help: "Messages that brokers sent, by what became of them.",
		}, []string{"result"}),
		takeovers: f.NewCounter(prometheus.CounterOpts{
			Name: "parley_mqtt_takeovers_total", Help: "Sessions that end again and again as soon as they begin: somebody else uses the same client id.",
		}),
	}
	for _, role := range []string{rolePublisher, roleSubscriber} {
		m.connections.WithLabelValues(role)
		for _, result := range []string{dialOK, dialRefused, dialFailed} {
			m.dials.WithLabelValues(role, result)
		}
	}
	for _, result := range []string{receivedHanded, receivedTooLarge, receivedOverflow, receivedKept} {
		m.received.WithLabelValues(result)
	}
	return m
}
