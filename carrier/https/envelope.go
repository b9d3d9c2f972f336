package https

import (
	"errors"
	"io"
	"net/http"

	"github.com/parleykit/parley/internal/httpserver"
	"github.com/parleykit/parley/protocol/canonical"
	"github.com/parleykit/parley/protocol/envelope"
)

// maxEnvelope is the largest envelope, in bytes.
const maxEnvelope = envelope.EventLimit

// refusal is one way a request is not served.
type refusal struct {
	status int
	code   string
	detail string
}

// The refusals, which docs/spec/https-carrier.md lists; code is the label of the
// metric as well.
var (
	refusedRate      = refusal{http.StatusTooManyRequests, "rate_limited", "Too many requests, slow down."}
	refusedLarge     = refusal{http.StatusRequestEntityTooLarge, "too_large", "An envelope has at most 65536 bytes."}
	refusedInvalid   = refusal{http.StatusBadRequest, "invalid", "This is no envelope of docs/spec/envelope.md for one recipient, or it has expired."}
	refusedRecipient = refusal{http.StatusNotFound, "unknown_recipient", "Nothing is kept here for this recipient."}
	refusedFull      = refusal{http.StatusTooManyRequests, "recipient_full", "The recipient has no room for more; try again later."}
	refusedCrowded   = refusal{http.StatusServiceUnavailable, "full", "This mailbox has no room for more; try again later."}
	refusedStorage   = refusal{http.StatusServiceUnavailable, "storage", "The envelope could not be stored; try again later."}
	refusedChallenge = refusal{http.StatusBadRequest, "invalid", "A challenge is 32 hex digits, a recipient is 64, both in lower case."}
	refusedToken     = refusal{http.StatusUnauthorized, "unauthorized", "The request must be signed by the recipient's key (NIP-98)."}
	refusedKey       = refusal{http.StatusForbidden, "forbidden", "Nothing is kept here for this key."}
	refusedReaders   = refusal{http.StatusServiceUnavailable, "readers", "Too many readers wait; try again later."}
	refusedDeletion  = refusal{http.StatusBadRequest, "invalid", "The body must be {\"ids\": [...]} with 1 to 200 ids of envelopes."}
)

func (m *Mailbox) refuse(w http.ResponseWriter, r *http.Request, why refusal) {
	switch why {
	case refusedRate:
		w.Header().Set("Retry-After", "1")
	case refusedFull, refusedCrowded, refusedStorage, refusedReaders:
		w.Header().Set("Retry-After", "60")
	case refusedToken:
		w.Header().Set("WWW-Authenticate", "Nostr")
	}
	httpserver.Problem(w, r, why.status, why.code, why.detail)
}

// post takes an envelope. 202 says that it is on disk, or was before.
func (m *Mailbox) post(w http.ResponseWriter, r *http.Request) {
	result := m.take(w, r)
	m.metrics.posted.WithLabelValues(result.label()).Inc()
	if result.refusal != nil {
		m.refuse(w, r, *result.refusal)
		return
	}
	w.WriteHeader(http.StatusAccepted)
}

// taken is what became of an envelope.
type taken struct {
	refusal *refusal
	again   bool
}

func (t taken) label() string {
	switch {
	case t.refusal != nil:
		return t.refusal.code
	case t.again:
		return postedDuplicate
	}
	return postedStored
}

func (m *Mailbox) take(w http.ResponseWriter, r *http.Request) taken {
	if !m.allow(r) {
		return taken{refusal: &refusedRate}
	}
	if r.ContentLength > maxEnvelope {
		return taken{refusal: &refusedLarge}
	}
	wrap, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxEnvelope))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return taken{refusal: &refusedLarge}
	}
	if err != nil {
		return taken{refusal: &refusedInvalid}
	}
	out, err := envelope.Inspect(wrap, m.now())
	switch {
	case err != nil:
		return taken{refusal: &refusedInvalid}
	case m.opts.Admit != nil && !m.opts.Admit(out.Recipient):
		return taken{refusal: &refusedRecipient}
	case m.stored.Load() >= m.opts.TotalBytes:
		return taken{refusal: &refusedCrowded}
	}
	added, err := m.put(r.Context(), out, wrap)
	switch {
	case errors.Is(err, errFull):
		return taken{refusal: &refusedFull}
	case err != nil:
		m.logger.ErrorContext(r.Context(), "storing an envelope", "err", err)
		return taken{refusal: &refusedStorage}
	}
	if added {
		m.stored.Add(int64(len(wrap)))
	}
	return taken{again: !added}
}

// challenge answers whether a recipient is served here, signed, so that nobody sends
// envelopes to an address that never asked for them.
func (m *Mailbox) challenge(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	asked := answer{Address: m.Address(), Recipient: query.Get("recipient"), Challenge: query.Get("challenge")}
	switch {
	case !m.allow(r):
		m.refuse(w, r, refusedRate)
		return
	case !isChallenge(asked.Challenge) || !canonical.IsHex(asked.Recipient, 32):
		m.refuse(w, r, refusedChallenge)
		return
	case m.opts.Admit != nil && !m.opts.Admit(asked.Recipient):
		m.refuse(w, r, refusedRecipient)
		return
	}
	signed, err := asked.sign(m.opts.Key)
	if err != nil {
		m.logger.ErrorContext(r.Context(), "answering a challenge", "err", err)
		m.refuse(w, r, refusedStorage)
		return
	}
	m.answer(w, r, signed)
}
