package https

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Labels of the metrics beside the codes of refusals, closed sets.
const (
	postedStored    = "stored"
	postedDuplicate = "duplicate"
	readPage        = "page"
	readStream      = "stream"

	askedServes = "serves"
	askedRefuse = "refuses" // it does not serve the recipient, or is no mailbox
	askedFailed = "failed"
)

// mailboxMetrics are those of the server's side.
type mailboxMetrics struct {
	posted  *prometheus.CounterVec // result
	reads   *prometheus.CounterVec // result
	fetched prometheus.Counter
	expired prometheus.Counter
	waiting prometheus.Gauge
	bytes   prometheus.Gauge
	readers prometheus.Gauge
}

func newMailboxMetrics(registerer prometheus.Registerer) *mailboxMetrics {
	f := promauto.With(registerer)
	m := &mailboxMetrics{
		posted: f.NewCounterVec(prometheus.CounterOpts{
			Name: "parley_mailbox_posts_total", Help: "Envelopes posted to the mailbox, by what became of them.",
		}, []string{"result"}),
		reads: f.NewCounterVec(prometheus.CounterOpts{
			Name: "parley_mailbox_reads_total", Help: "Requests for a box, by what became of them.",
		}, []string{"result"}),
		fetched: f.NewCounter(prometheus.CounterOpts{
			Name: "parley_mailbox_fetched_total", Help: "Envelopes that their recipients deleted.",
		}),
		expired: f.NewCounter(prometheus.CounterOpts{
			Name: "parley_mailbox_expired_total", Help: "Envelopes that nobody fetched in time.",
		}),
		waiting: f.NewGauge(prometheus.GaugeOpts{
			Name: "parley_mailbox_envelopes", Help: "Envelopes in all boxes.",
		}),
		bytes: f.NewGauge(prometheus.GaugeOpts{
			Name: "parley_mailbox_bytes", Help: "Size of the envelopes in all boxes.",
		}),
		readers: f.NewGauge(prometheus.GaugeOpts{
			Name: "parley_mailbox_readers", Help: "Readers that wait for an envelope or read a stream.",
		}),
	}
	for _, result := range []string{
		postedStored, postedDuplicate, refusedRate.code, refusedLarge.code, refusedInvalid.code, refusedRecipient.code,
		refusedFull.code, refusedCrowded.code, refusedStorage.code,
	} {
		m.posted.WithLabelValues(result)
	}
	for _, result := range []string{readPage, readStream, refusedToken.code, refusedKey.code, refusedRate.code, refusedReaders.code} {
		m.reads.WithLabelValues(result)
	}
	return m
}

// metrics are those of the carrier.
type metrics struct {
	asked *prometheus.CounterVec // result
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	m := &metrics{asked: promauto.With(registerer).NewCounterVec(prometheus.CounterOpts{
		Name: "parley_carrier_https_challenges_total", Help: "Addresses that were asked whether they serve a recipient, by answer.",
	}, []string{"result"})}
	for _, result := range []string{askedServes, askedRefuse, askedFailed} {
		m.asked.WithLabelValues(result)
	}
	return m
}
