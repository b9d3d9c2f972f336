package database

import (
	"context"
	"errors"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// metrics of one DB; docs/metrics.md explains each.
type metrics struct {
	jobs           *prometheus.CounterVec // kind
	batchJobs      prometheus.Histogram
	commitDuration prometheus.Histogram
	reruns         prometheus.Counter
	retries        prometheus.Counter
	errors         *prometheus.CounterVec // reason
}

// The closed label sets.
var (
	kinds   = []string{"write", "tx", "view"}
	reasons = []string{"busy", "transient", "unknown", "unique", "constraint", "panic", "context", "job"}
)

func newMetrics(reg prometheus.Registerer) *metrics {
	factory := promauto.With(reg)
	m := &metrics{
		jobs: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "parley_database_jobs_total", Help: "Jobs run, by kind.",
		}, []string{"kind"}),
		batchJobs: factory.NewHistogram(prometheus.HistogramOpts{
			Name: "parley_database_batch_jobs", Help: "Jobs that shared one transaction.",
			Buckets: []float64{1, 2, 4, 8, 16, 32, 64, 128}, NativeHistogramBucketFactor: 1.1,
		}),
		commitDuration: factory.NewHistogram(prometheus.HistogramOpts{
			Name: "parley_database_commit_duration_seconds", Help: "Time of a synced commit.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 3, 10), NativeHistogramBucketFactor: 1.1,
		}),
		reruns: factory.NewCounter(prometheus.CounterOpts{
			Name: "parley_database_batch_reruns_total", Help: "Batches undone and run again, with savepoints or job by job.",
		}),
		retries: factory.NewCounter(prometheus.CounterOpts{
			Name: "parley_database_job_retries_total", Help: "Runs of jobs undone because others got in their way, and tried again.",
		}),
		errors: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "parley_database_errors_total", Help: "Jobs that ended with an error, by reason.",
		}, []string{"reason"}),
	}
	for _, kind := range kinds {
		m.jobs.WithLabelValues(kind)
	}
	for _, reason := range reasons {
		m.errors.WithLabelValues(reason)
	}
	return m
}

// countError counts a classified error. "job" is an error that the job itself
// returned: often a refusal, not a fault.
func (m *metrics) countError(err error) { m.errors.WithLabelValues(reasonOf(err)).Inc() }

func reasonOf(err error) string {
	for _, known := range []struct {
		sentinel error
		reason   string
	}{
		{ErrPanic, "panic"},
		{ErrBusy, "busy"},
		{ErrUnknownOutcome, "unknown"},
		{ErrTransient, "transient"},
		{ErrUnique, "unique"},
		{ErrConstraint, "constraint"},
		{context.Canceled, "context"},
		{context.DeadlineExceeded, "context"},
	} {
		if errors.Is(err, known.sentinel) {
			return known.reason
		}
	}
	return "job"
}
