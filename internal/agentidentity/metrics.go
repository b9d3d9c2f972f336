package agentidentity

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/parleykit/parley/protocol/receipt"
)

// noMethod labels requests that name no method that is known.
const noMethod Method = "none"

// codes are what Verify refuses with.
var codes = [...]receipt.Code{
	receipt.CodeIdentityMissing, receipt.CodeIdentityInvalidFormat, receipt.CodeIdentityExpired,
	receipt.CodeIdentityNotYetValid, receipt.CodeIdentitySignatureInvalid, receipt.CodeIdentityKeyUnknown,
	receipt.CodeIdentityKeyExpired, receipt.CodeIdentityKeyRevoked, receipt.CodeIdentityBindingMismatch,
	receipt.CodeIdentityBindingStale, receipt.CodeIdentityBindingFuture, receipt.CodeIdentityProofUnsupported,
	receipt.CodeIdentityDirectoryUnavailable, receipt.CodePayloadTooLarge,
}

// metrics of a verifier; docs/metrics.md explains each.
type metrics struct {
	verifications *prometheus.CounterVec // method, result
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{promauto.With(reg).NewCounterVec(prometheus.CounterOpts{
		Name: "parley_agentidentity_verifications_total", Help: "Requests whose proof of identity was checked, by method and result.",
	}, []string{"method", "result"})}
	for _, method := range [...]Method{MessageSignature, DPoP, MTLS, JWKThumbprint, noMethod} {
		m.verifications.WithLabelValues(string(method), "verified")
		for _, code := range codes {
			m.verifications.WithLabelValues(string(method), result(code))
		}
	}
	return m
}

// observe counts one request; err is that of the check.
func (m *metrics) observe(method Method, err error) {
	if provers[method] == nil {
		method = noMethod
	}
	label := "verified"
	if err != nil {
		label = result(receipt.CodeOf(err))
	}
	m.verifications.WithLabelValues(string(method), label).Inc()
}

// result is a code as a label: "E_IDENTITY_KEY_UNKNOWN" is key_unknown.
func result(code receipt.Code) string {
	return strings.ToLower(strings.TrimPrefix(strings.TrimPrefix(string(code), "E_"), "IDENTITY_"))
}
