package mqttbridge

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// Labels of the metrics, closed sets.
const (
	rolePublisher  = "publisher"
	roleSubscriber = "subscriber"

	dialOK      = "ok"
	dialRefused = "refused" // the broker or the egress rule does not want us
	dialFailed  = "failed"

	publishAcknowledged = "acknowledged"
	publishFailed       = "failed" // the broker may have it all the same

	receivedHanded   = "handed"
	receivedTooLarge = "too_large" // never handed on
	receivedOverflow = "overflow"  // QoS 0 while too many waited
	receivedKept     = "kept"      // the Handler failed: it comes again
)

type metrics struct {
	connections *prometheus.GaugeVec   // role
	dials       *prometheus.CounterVec // role, result
	published   *prometheus.CounterVec // result
	received    *prometheus.CounterVec // result
	takeovers   prometheus.Counter
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	m := &metrics{
		connections: registered(registerer, prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "parley_mqtt_connections", Help: "Open connections to brokers, by what they are for.",
		}, []string{"role"})),
		dials: registered(registerer, prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "parley_mqtt_dials_total", Help: "Connections tried to brokers, by what they are for and result.",
		}, []string{"role", "result"})),
		published: registered(registerer, prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "parley_mqtt_published_total", Help: "Messages given to brokers, by whether they were acknowledged.",
		}, []string{"result"})),
		received: registered(registerer, prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "parley_mqtt_received_total", Help: "Messages that brokers sent, by what became of them.",
		}, []string{"result"})),
		takeovers: registered(registerer, prometheus.NewCounter(prometheus.CounterOpts{
			Name: "parley_mqtt_takeovers_total", Help: "Times that sessions were lost again and again soon after they began: somebody else uses the same client id.",
		})),
	}
	for _, role := range []string{rolePublisher, roleSubscriber} {
		m.connections.WithLabelValues(role)
		for _, result := range []string{dialOK, dialRefused, dialFailed} {
			m.dials.WithLabelValues(role, result)
		}
	}
	for _, result := range []string{publishAcknowledged, publishFailed} {
		m.published.WithLabelValues(result)
	}
	for _, result := range []string{receivedHanded, receivedTooLarge, receivedOverflow, receivedKept} {
		m.received.WithLabelValues(result)
	}
	return m
}

// registered is the collector, or the equal one that is registered already: a process
// may have several sides, which count together.
func registered[C prometheus.Collector](registerer prometheus.Registerer, c C) C {
	if registerer == nil {
		return c
	}
	err := registerer.Register(c)
	if already, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); ok {
		return already.ExistingCollector.(C)
	}
	if err != nil {
		panic(err) // as promauto does: it is a mistake of the program
	}
	return c
}
