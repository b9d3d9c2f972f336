package issuer

import (
	"context"
	"net/http"
	"slices"

	"github.com/parleykit/parley/internal/httpserver"
	"github.com/parleykit/parley/protocol/discovery"
	"github.com/parleykit/parley/protocol/receipt"
)

// Purpose is what a request is said to be for, and what came of it.
type Purpose struct {
	Declared []string              // as it was sent, unknown ones too
	Applied  string                // one that every reader knows; "" where none was declared
	Reason   receipt.PurposeReason // why
}

type purposeKey struct{}

// PurposeOf is the purpose that RequirePurpose found; false behind no such
// middleware.
func PurposeOf(ctx context.Context) (Purpose, bool) {
	p, found := ctx.Value(purposeKey{}).(Purpose)
	return p, found
}

// RequirePurpose reads the field PEAC-Purpose of requests, holds it against
// the published policy, and answers with PEAC-Purpose-Applied and
// PEAC-Purpose-Reason. A purpose that the policy does not allow gets 403, a
// malformed one 400, and none at all 400 where required.
func (i *Issuer) RequirePurpose(required bool, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		declared, err := receipt.ParsePurpose(r.Header.Values(receipt.HeaderPurpose))
		if err != nil {
			i.metrics.purposes.WithLabelValues("invalid").Inc()
			w.Header().Add("Vary", receipt.HeaderPurpose)
			httpserver.Problem(w, r, http.StatusBadRequest, "purpose_invalid", err.Error())
			return
		}
		purpose := judgePurpose(&i.current.Load().policy, declared)
		i.metrics.purposes.WithLabelValues(string(purpose.Reason)).Inc()
		fields, err := receipt.PurposeAnswer(purpose.Declared, purpose.Applied, purpose.Reason)
		if err != nil { // judgePurpose makes no such answer
			httpserver.Problem(w, r, http.StatusInternalServerError, "internal", "The purpose cannot be answered.")
			return
		}
		write(w.Header(), fields)
		switch {
		case required && len(declared) == 0:
			httpserver.Problem(w, r, http.StatusBadRequest, "purpose_required", "Say what the request is for in the field PEAC-Purpose.")
		case purpose.Reason == receipt.ReasonDenied:
			httpserver.Problem(w, r, http.StatusForbidden, "purpose_denied", "The policy of this server does not allow the purpose.")
		default:
			next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), purposeKey{}, purpose)))
		}
	})
}

// judgePurpose applies the first declared purpose that the policy allows. One
// that nobody knows is served as the first that is allowed, since refusing it
// would teach senders to say less.
func judgePurpose(policy *discovery.Policy, declared []string) Purpose {
	allowed := allowedPurposes(policy)
	known := slices.DeleteFunc(slices.Clone(declared), func(token string) bool { return !receipt.IsKnownPurpose(token) })
	granted := slices.IndexFunc(known, func(token string) bool { return slices.Contains(allowed, token) })
	p := Purpose{Declared: declared}
	switch {
	case len(declared) == 0:
		p.Reason = receipt.ReasonUndeclaredDefault
	case granted >= 0:
		p.Applied, p.Reason = known[granted], receipt.ReasonAllowed
	case len(known) == 0 && len(allowed) > 0:
		p.Applied, p.Reason = allowed[0], receipt.ReasonUnknownPreserved
	case len(known) == 0:
		p.Applied, p.Reason = receipt.PurposeUserAction, receipt.ReasonDenied
	default:
		p.Applied, p.Reason = known[0], receipt.ReasonDenied
	}
	return p
}

// allowedPurposes are those of the policy that every reader knows. An open
// policy that names none allows all.
func allowedPurposes(policy *discovery.Policy) []string {
	if len(policy.Purposes) == 0 && policy.Usage == discovery.UsageOpen {
		return []string{
			receipt.PurposeUserAction, receipt.PurposeSearch, receipt.PurposeIndex, receipt.PurposeInference, receipt.PurposeTrain,
		}
	}
	return slices.DeleteFunc(slices.Clone(policy.Purposes), func(token string) bool { return !receipt.IsKnownPurpose(token) })
}
