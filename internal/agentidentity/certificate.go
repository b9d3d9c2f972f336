package agentidentity

import (
	"time"

	"github.com/parleykit/parley/protocol/receipt"
)

// proveCertificate checks the client certificate of the connection: the
// handshake proved control of its key, the directory knows its thumbprint. The
// chain does not matter (RFC 8705, section 2.2).
func (v *Verifier) proveCertificate(q *request) (proven, error) {
	if q.http.TLS == nil || len(q.http.TLS.PeerCertificates) == 0 {
		return proven{}, refuse(receipt.CodeIdentityMissing, "The connection has no client certificate.")
	}
	certificate := q.http.TLS.PeerCertificates[0]
	thumbprint := CertificateThumbprint(certificate)
	key, err := v.find(q.http.Context(), MTLS, thumbprint, q.now)
	if err != nil {
		return proven{}, err
	}
	if key.Certificate != thumbprint {
		return proven{}, refuse(receipt.CodeIdentityKeyUnknown, "The certificate is not known here.")
	}
	if proof := q.proof(); proof != nil && proof.CertThumbprint != thumbprint {
		return proven{}, refuse(receipt.CodeIdentityBindingMismatch, "The attestation names another certificate.")
	}
	if err := q.names(key, key.ID, thumbprint); err != nil {
		return proven{}, err
	}
	return proven{key: key}, validAt(certificate.NotBefore, certificate.NotAfter, q.now)
}

// validAt checks a certificate's own times.
func validAt(from, to, now time.Time) error {
	return Key{NotBefore: from, NotAfter: to}.usable(now)
}
