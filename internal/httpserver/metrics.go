package httpserver

import (
	"cmp"
	"runtime/debug"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// noOwner labels requests that no route answered.
const noOwner = "none"

// classes is the closed label set of status codes.
var classes = [...]string{"1xx", "2xx", "3xx", "4xx", "5xx"}

// metrics of the server; docs/metrics.md explains each.
type metrics struct {
	requests *prometheus.CounterVec   // owner, code
	duration *prometheus.HistogramVec // owner
	inFlight prometheus.Gauge
	panics   prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) *metrics {
	factory := promauto.With(reg)
	m := &metrics{
		requests: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "parley_http_requests_total", Help: "Requests answered, by owner of the route and class of the status code.",
		}, []string{"owner", "code"}),
		duration: factory.NewHistogramVec(prometheus.HistogramOpts{
			Name: "parley_http_request_duration_seconds", Help: "Time to answer a request, without upgraded connections.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 8), NativeHistogramBucketFactor: 1.1,
		}, []string{"owner"}),
		inFlight: factory.NewGauge(prometheus.GaugeOpts{
			Name: "parley_http_requests_in_flight", Help: "Requests being answered, with upgraded connections whose handler has not returned.",
		}),
		panics: factory.NewCounter(prometheus.CounterOpts{
			Name: "parley_http_panics_total", Help: "Panics of handlers, each answered and logged.",
		}),
	}
	m.initialize(noOwner)
	return m
}

// initialize makes an owner's series start at 0.
func (m *metrics) initialize(owner string) {
	for _, class := range classes {
		m.requests.WithLabelValues(owner, class)
	}
	m.duration.WithLabelValues(owner)
}

func (m *metrics) observe(w *response, elapsed time.Duration) {
	owner := cmp.Or(w.owner, noOwner)
	status := cmp.Or(w.status, 200)
	m.requests.WithLabelValues(owner, classes[min(max(status/100, 1), 5)-1]).Inc()
	if !w.hijacked {
		m.duration.WithLabelValues(owner).Observe(elapsed.Seconds())
	}
}

// NewRegistry makes a registry with the Go and process collectors and
// parley_build_info.
func NewRegistry() *prometheus.Registry {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	version, revision, goversion := build()
	promauto.With(registry).NewGauge(prometheus.GaugeOpts{
		Name: "parley_build_info", Help: "Always 1; the labels say what is running.",
		ConstLabels: prometheus.Labels{"version": version, "revision": revision, "goversion": goversion},
	}).Set(1)
	return registry
}

// build reads version, revision and Go version from the binary itself.
func build() (version, revision, goversion string) {
	version, revision, goversion = "unknown", "unknown", "unknown"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return version, revision, goversion
	}
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" {
			revision = setting.Value
		}
	}
	return cmp.Or(info.Main.Version, version), revision, info.GoVersion
}
