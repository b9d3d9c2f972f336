package receiptlog

import (
	"errors"
	"net/http"
	"strings"

	"github.com/parleykit/parley/internal/httpserver"
)

// owner names the routes in docs/http.md and in metrics.
const owner = "receiptlog"

// Routes are what the log answers, for httpserver.Server's Handle.
func (l *Log) Routes() []httpserver.Route {
	return []httpserver.Route{
		{
			Method: http.MethodGet, Pattern: prefix + "/checkpoint", Owner: owner,
			Summary: "newest checkpoint of the receipt log, C2SP tlog-checkpoint",
			Handler: http.HandlerFunc(l.log.ServeCheckpoint),
		},
		{
			Method: http.MethodGet, Pattern: prefix + "/tile/", Owner: owner,
			Summary: "hashes and entries of the receipt log, C2SP tlog-tiles",
			Handler: http.HandlerFunc(l.serveTile),
		},
		{
			Method: http.MethodGet, Pattern: prefix + "/proof/{ref}", Owner: owner,
			Summary: "proof that the receipt log holds a receipt, C2SP tlog-proof",
			Handler: http.HandlerFunc(l.serveProof),
		},
	}
}

func (l *Log) serveTile(w http.ResponseWriter, r *http.Request) {
	l.log.ServeTile(w, r, strings.TrimPrefix(r.URL.Path, prefix+"/"))
}

func (l *Log) serveProof(w http.ResponseWriter, r *http.Request) {
	proof, err := l.Proof(r.Context(), r.PathValue("ref"))
	result := resultServed
	switch {
	case err == nil:
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("Cache-Control", "no-cache")
		_, _ = w.Write([]byte(proof))
	case errors.Is(err, ErrReference):
		result = resultInvalid
		httpserver.Problem(w, r, http.StatusBadRequest, "invalid_reference", "A receipt is named by sha256: and 64 lowercase hex digits.")
	case errors.Is(err, ErrWaiting):
		result = resultWaiting
		w.Header().Set("Retry-After", "1")
		httpserver.Problem(w, r, http.StatusNotFound, "waiting", "The next checkpoint covers this receipt; ask again.")
	case errors.Is(err, ErrUnknown):
		result = resultUnknown
		httpserver.Problem(w, r, http.StatusNotFound, "not_found", "The log does not hold this receipt.")
	default:
		result = resultError
		httpserver.Problem(w, r, http.StatusServiceUnavailable, "unavailable", "The log cannot be read now.")
	}
	l.metrics.proofs.WithLabelValues(result).Inc()
}
