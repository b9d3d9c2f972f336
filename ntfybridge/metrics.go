package ntfybridge

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/parleykit/parley/carrier"
)

// Results of a publication.
const (
	resultAccepted    = "accepted"
	resultPermanent   = "permanent"
	resultRateLimited = "rate_limited"
	resultTransient   = "transient"
)

// Reasons why something of a stream was left out.
const (
	droppedLine       = "line"       // no JSON, or no event of ntfy
	droppedOversized  = "oversized"  // a line or message that is too long
	droppedTopic      = "topic"      // not one that was asked for
	droppedAttachment = "attachment" // what is in it stays on the server
)

// Reasons why a stream ended.
const (
	endedSilent = "silent"
	endedOther  = "other"
)

type metrics struct {
	published *prometheus.CounterVec // result
	received  *prometheus.CounterVec // kind
	dropped   *prometheus.CounterVec // reason
	ended     *prometheus.CounterVec // reason
	streams   prometheus.Gauge
	woken     prometheus.Counter
}

// newMetrics registers the metrics, or finds those that another part of the
// same process registered.
func newMetrics(reg prometheus.Registerer) *metrics {
	counter := func(name, help, label string) *prometheus.CounterVec {
		return register(reg, prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label}))
	}
	m := &metrics{
		published: counter("parley_ntfybridge_publications_total", "Messages given to ntfy servers, by result.", "result"),
		received:  counter("parley_ntfybridge_messages_total", "Messages of the topics listened to, by what they were.", "kind"),
		dropped:   counter("parley_ntfybridge_dropped_total", "What servers sent and was left out, by reason.", "reason"),
		ended:     counter("parley_ntfybridge_streams_ended_total", "Streams that ended, by reason.", "reason"),
		streams: register(reg, prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "parley_ntfybridge_streams", Help: "Open streams of ntfy servers.",
		})),
		woken: register(reg, prometheus.NewCounter(prometheus.CounterOpts{
			Name: "parley_ntfybridge_wake_ups_total", Help: "Times that wake-ups and pointers made the agent read its relays.",
		})),
	}
	preset(m.published, resultAccepted, resultPermanent, resultRateLimited, resultTransient)
	preset(m.received, kindEnvelope, kindFrame, kindWakeUp, kindPointer, kindUnknown, kindOversized)
	preset(m.dropped, droppedLine, droppedOversized, droppedTopic, droppedAttachment)
	preset(m.ended, endedSilent, endedOther)
	return m
}

func register[T prometheus.Collector](reg prometheus.Registerer, collector T) T {
	if reg == nil {
		return collector
	}
	var known prometheus.AlreadyRegisteredError
	if err := reg.Register(collector); errors.As(err, &known) {
		return known.ExistingCollector.(T)
	} else if err != nil {
		panic(err) // as promauto: two metrics of one name
	}
	return collector
}

func preset(counter *prometheus.CounterVec, values ...string) {
	for _, value := range values {
		counter.WithLabelValues(value)
	}
}

// publishResult is the label of the end of a publication.
func publishResult(err error) string {
	var limited *carrier.RateLimited
	switch {
	case err == nil:
		return resultAccepted
	case errors.Is(err, carrier.ErrPermanent):
		return resultPermanent
	case errors.As(err, &limited):
		return resultRateLimited
	}
	return resultTransient
}
