package issuer

import (
	"context"
	"net/http"

	"github.com/parleykit/parley/protocol/receipt"
)

// Incoming is the receipt that came with a request.
type Incoming struct {
	Verified *receipt.Verified // nil when it does not hold
	Err      error             // why
}

// What VerifyIncoming found.
const (
	incomingNone    = "none"
	incomingValid   = "valid"
	incomingInvalid = "invalid"
)

type incomingKey struct{}

// IncomingOf is the receipt that VerifyIncoming found; nil when none came.
func IncomingOf(ctx context.Context) *Incoming {
	incoming, _ := ctx.Value(incomingKey{}).(*Incoming)
	return incoming
}

// VerifyIncoming judges the receipt in the field PEAC-Receipt of requests, which
// may mean to ask its issuer for keys, and hands the verdict to next by
// IncomingOf. Whether a request may go without, or with one that does not hold,
// is for next to say.
func (r *Resolver) VerifyIncoming(opts receipt.VerifyOptions, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		header := request.Header
		carriers, err := receipt.FromHTTP(header.Values(receipt.HeaderReceipt), header.Values(receipt.HeaderReceiptURL))
		if err == nil && len(carriers) == 0 {
			r.metrics.incoming.WithLabelValues(incomingNone).Inc()
			next.ServeHTTP(w, request)
			return
		}
		incoming := &Incoming{Err: err}
		if err == nil {
			incoming.Verified, incoming.Err = r.Verify(request.Context(), carriers[0].ReceiptJWS, opts)
		}
		result := incomingValid
		if incoming.Err != nil {
			result = incomingInvalid
		}
		r.metrics.incoming.WithLabelValues(result).Inc()
		next.ServeHTTP(w, request.WithContext(context.WithValue(request.Context(), incomingKey{}, incoming)))
	})
}
