package agentidentity

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/parleykit/parley/internal/httpserver"
	"github.com/parleykit/parley/protocol/receipt"
)

type contextKey struct{}

// FromContext is the identity that Require put into a request's context.
func FromContext(ctx context.Context) (*Identity, bool) {
	identity, ok := ctx.Value(contextKey{}).(*Identity)
	return identity, ok
}

// Require lets requests through that prove an identity, and answers the others
// with a problem document whose code is the protocol's.
func (v *Verifier) Require(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		identity, err := v.Verify(r)
		if err != nil {
			v.refuse(w, r, err)
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), contextKey{}, identity)))
	})
}

func (v *Verifier) refuse(w http.ResponseWriter, r *http.Request, err error) {
	refusal, ok := errors.AsType[*receipt.Error](err)
	if !ok { // Verify has no other errors
		refusal = &receipt.Error{Code: receipt.CodeIdentityInvalidFormat}
	}
	detail := refusal.Detail
	if refusal.Pointer != "" {
		detail += " (" + refusal.Pointer + ")"
	}
	status := refusal.Code.Explain().Status
	if status == http.StatusUnauthorized {
		v.challenge(w.Header())
	}
	httpserver.Problem(w, r, status, string(refusal.Code), detail)
}

// challenge says how to prove an identity; RFC 9110 demands it with 401.
func (v *Verifier) challenge(header http.Header) {
	names := make([]string, len(v.opts.Methods))
	for i, method := range v.opts.Methods {
		names[i] = string(method)
	}
	header.Add("WWW-Authenticate", fmt.Sprintf("peac-identity methods=%q", strings.Join(names, " ")))
	if slices.Contains(v.opts.Methods, DPoP) {
		header.Add("WWW-Authenticate", `DPoP algs="EdDSA ES256"`)
	}
}
