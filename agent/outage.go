package agent

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"os"
	"syscall"

	"github.com/parleykit/parley/carrier"
)

// outage says in a few plain words why a server could not be asked; what it
// does not know it leaves as it is.
func outage(err error) string {
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		return "the name " + dns.Name + " is not known here"
	}
	if certificate, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return "its certificate is not accepted: " + certificate.Err.Error()
	}
	if errors.Is(err, http.ErrSchemeMismatch) {
		return "it speaks plain HTTP: write http:// before the address"
	}
	at := ""
	if operation, ok := errors.AsType[*net.OpError](err); ok && operation.Addr != nil {
		at = " at " + operation.Addr.String()
	}
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nothing listens" + at
	case errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EHOSTUNREACH):
		return "no way leads there" + at
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return "no answer in time" + at
	}
	return err.Error()
}

// plainCarrier tells of an outage in plain words, which end up beside messages
// that wait.
type plainCarrier struct {
	carrier.Carrier
	carrier.Poller
}

// plainText is a plainCarrier that takes text alone at some addresses.
type plainText struct {
	plainCarrier
	carrier.TextCarrier
}

// Send implements carrier.Carrier.
func (c plainCarrier) Send(ctx context.Context, to carrier.Address, wrap []byte) error {
	err := c.Carrier.Send(ctx, to, wrap)
	if err == nil {
		return nil
	}
	return &plainError{outage(err), err}
}

// plainError is an error in other words.
type plainError struct {
	text string
	err  error
}

// Error implements error.
func (e *plainError) Error() string { return e.text }

// Unwrap returns the error in its own words.
func (e *plainError) Unwrap() error { return e.err }
