package issuer

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/parleykit/parley/protocol/receipt"
)

// issuerMetrics of an issuer; docs/metrics.md explains each.
type issuerMetrics struct {
	receipts *prometheus.CounterVec // result
	verdicts *prometheus.CounterVec // verdict
	attached *prometheus.CounterVec // result
	purposes *prometheus.CounterVec // reason
}

// What became of a receipt for an answer.
const (
	attachedHeader = "header" // in PEAC-Receipt
	attachedURL    = "url"    // named in PEAC-Receipt-URL
	attachedNone   = "none"   // too large, and no URL for it
	attachedFailed = "failed" // not issued
)

func newIssuerMetrics(reg prometheus.Registerer) *issuerMetrics {
	factory := promauto.With(reg)
	m := &issuerMetrics{
		receipts: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "parley_issuer_receipts_total", Help: "Receipts asked for, by result.",
		}, []string{"result"}),
		verdicts: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "parley_issuer_verdicts_total", Help: "Requests to the verification endpoint, by verdict.",
		}, []string{"verdict"}),
		attached: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "parley_issuer_attached_total", Help: "Receipts for answers over HTTP, by what became of them.",
		}, []string{"result"}),
		purposes: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "parley_issuer_purposes_total", Help: "Requests whose purpose was judged, by the reason in the answer.",
		}, []string{"reason"}),
	}
	initialize(m.receipts, "issued", "failed")
	initialize(m.verdicts, VerdictValid, VerdictInvalid, VerdictUndetermined, "rate_limited", "unreadable")
	initialize(m.attached, attachedHeader, attachedURL, attachedNone, attachedFailed)
	initialize(m.purposes, string(receipt.ReasonAllowed), string(receipt.ReasonDenied),
		string(receipt.ReasonUndeclaredDefault), string(receipt.ReasonUnknownPreserved), "invalid")
	return m
}

func (m *issuerMetrics) issued(err error) {
	if err != nil {
		m.receipts.WithLabelValues("failed").Inc()
		return
	}
	m.receipts.WithLabelValues("issued").Inc()
}

// resolverMetrics of a resolver.
type resolverMetrics struct {
	fetches  *prometheus.CounterVec // document, result
	incoming *prometheus.CounterVec // result
}

// Documents that are fetched.
const (
	documentIssuer = "issuer"
	documentKeySet = "keyset"
	documentPolicy = "policy"
)

// fetchResults are the labels of the codes that a fetch ends with.
var fetchResults = map[receipt.Code]string{
	"":                                    "fetched",
	receipt.CodeVerifyIssuerConfigMissing: "missing",
	receipt.CodePolicyNotFound:            "missing",
	receipt.CodeVerifyKeyFetchBlocked:     "blocked",
	receipt.CodePolicySSRFBlocked:         "blocked",
	receipt.CodeVerifyInsecureScheme:      "blocked",
	receipt.CodePolicyInsecureScheme:      "blocked",
	receipt.CodeVerifyKeyFetchTimeout:     "timeout",
	receipt.CodePolicyTimeout:             "timeout",
	receipt.CodeVerifyKeyFetchFailed:      "failed",
	receipt.CodePolicyFetchFailed:         "failed",
}

func newResolverMetrics(reg prometheus.Registerer) *resolverMetrics {
	factory := promauto.With(reg)
	m := &resolverMetrics{
		fetches: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "parley_issuer_fetches_total", Help: "Documents of other issuers that were asked for, by document and result.",
		}, []string{"document", "result"}),
		incoming: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "parley_issuer_incoming_total", Help: "Requests looked at for a receipt, by what was found.",
		}, []string{"result"}),
	}
	for _, document := range [...]string{documentIssuer, documentKeySet, documentPolicy} {
		for _, result := range fetchResults {
			m.fetches.WithLabelValues(document, result)
		}
	}
	initialize(m.incoming, incomingNone, incomingValid, incomingInvalid)
	return m
}

func (m *resolverMetrics) fetched(document string, err error) {
	m.fetches.WithLabelValues(document, fetchResults[receipt.CodeOf(err)]).Inc()
}

// initialize makes series start at 0.
func initialize(counter *prometheus.CounterVec, values ...string) {
	for _, value := range values {
		counter.WithLabelValues(value)
	}
}
