package agentidentity

import (
	"crypto/tls"
	"crypto/x509"
	"testing"
	"time"

	"github.com/parleykit/parley/protocol/receipt"
)

func TestCertificateThatIsNotTheAgentsIsRefused(t *testing.T) {
	bob := newKeyring(t, "bot:bob")
	for name, c := range map[string]struct {
		options func(*Options)
		leaf    *x509.Certificate // nil for the agent's
		change  func(*Attestation)
		after   time.Duration
		want    receipt.Code
	}{
		"own":               {},
		"named by its hash": {change: func(a *Attestation) { a.Evidence.Proof.KeyID = a.Evidence.Proof.CertThumbprint }},
		"alg of its own":    {change: func(a *Attestation) { a.Evidence.Proof.Algorithm = "RS256" }},
		"unknown":           {leaf: bob.tls.Leaf, want: receipt.CodeIdentityKeyUnknown},
		"none":              {leaf: &x509.Certificate{}, want: receipt.CodeIdentityMissing},
		"other thumbprint": {change: func(a *Attestation) {
			a.Evidence.Proof.CertThumbprint = CertificateThumbprint(bob.tls.Leaf)
		}, want: receipt.CodeIdentityBindingMismatch},
		"no thumbprint": {change: func(a *Attestation) { a.Evidence.Proof.CertThumbprint = "" }, want: receipt.CodeIdentityBindingMismatch},
		"other key":     {change: func(a *Attestation) { a.Evidence.Proof.KeyID = "x" }, want: receipt.CodeIdentityBindingMismatch},
		"other agent":   {change: func(a *Attestation) { a.Evidence.AgentID = "bot:bob" }, want: receipt.CodeIdentityKeyUnknown},
		"over":          {after: 61 * time.Minute, want: receipt.CodeIdentityKeyExpired},
		"not yet": {after: -61 * time.Minute, change: func(a *Attestation) {
			a.IssuedAt = "2020-01-01T00:00:00Z"
		}, want: receipt.CodeIdentityKeyUnknown},
		"directory errs": {options: change(func(k *Key) { k.Certificate = "" }), want: receipt.CodeIdentityKeyUnknown},
	} {
		b := newBench(t, c.options)
		req := b.signed(t, MTLS, "")
		if c.change != nil {
			attestation(t, req, c.change)
		}
		r := wire(t, req)
		switch {
		case c.leaf == nil:
			r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{b.ring.tls.Leaf}}
		case c.leaf.Raw == nil:
			r.TLS = &tls.ConnectionState{}
		default:
			r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{c.leaf, b.ring.tls.Leaf}}
		}
		b.clock.move(c.after)
		b.refused(t, name, r, c.want)
	}
}
