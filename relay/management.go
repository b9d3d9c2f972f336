package relay

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"

	"github.com/parleykit/parley/protocol/httpauth"
)

// managementType is the media type of a call of the management (NIP-86).
const managementType = "application/nostr+json+rpc"

const (
	maxCall  = 16 << 10 // bytes of a call
	maxRuled = 500      // bytes of a reason or a text
)

// Results of calls, the closed label set of
// parley_relay_management_calls_total.
const (
	callDone         = "done"
	callInvalid      = "invalid"
	callUnauthorized = "unauthorized"
	callForbidden    = "forbidden"
	callRateLimited  = "rate_limited"
	callError        = "error"
)

var managementResults = []string{callDone, callInvalid, callUnauthorized, callForbidden, callRateLimited, callError}

// isManagement reports whether req is a call of the management.
func isManagement(req *http.Request) bool {
	media, _, err := mime.ParseMediaType(req.Header.Get("Content-Type"))
	return err == nil && media == managementType
}

// serveManagement answers one call: the size first, then what the address may
// send, then the token, then the call itself.
func (r *Relay) serveManagement(w http.ResponseWriter, req *http.Request) {
	w.Header().Set("Access-Control-Allow-Origin", "*") // the token is the right, not the page
	body, err := io.ReadAll(io.LimitReader(req.Body, maxCall+1))
	switch {
	case err != nil || len(body) > maxCall:
		r.answerCall(w, http.StatusRequestEntityTooLarge, callInvalid, nil, "the call is too large")
		return
	case !allow(r.addresses.budget(r.opts.ClientIP(req)).requests, r.opts.Now()):
		w.Header().Set("Retry-After", "1")
		r.answerCall(w, http.StatusTooManyRequests, callRateLimited, nil, "too many requests, slow down")
		return
	}
	if body == nil {
		body = []byte{}
	}
	rules := r.rules()
	admin, err := r.tokens.Verify(req.Header.Get("Authorization"), httpauth.Request{
		URL: r.addressesOfItself(), Method: http.MethodPost, Body: body,
		Allow: rules.admins.has,
	})
	if err != nil {
		status, result := http.StatusUnauthorized, callUnauthorized
		if errors.Is(err, httpauth.ErrForbidden) {
			status, result = http.StatusForbidden, callForbidden
		}
		r.answerCall(w, status, result, nil, err.Error())
		return
	}
	c, err := parseCall(body)
	if err != nil {
		r.answerCall(w, http.StatusBadRequest, callInvalid, nil, err.Error())
		return
	}
	r.runCall(w, req, admin, c)
}

// addressesOfItself are the spellings of the relay's URL that a token may have.
func (r *Relay) addressesOfItself() []string {
	origin := r.opts.Origin
	socket := "ws" + origin[len("http"):]
	return []string{origin, origin + "/", socket, socket + "/"}
}

// call is one call.
type call struct {
	Method string            `json:"method"`
	Params []json.RawMessage `json:"params"`
}

// parseCall reads the body of a call.
func parseCall(body []byte) (call, error) {
	var c call
	decoder := json.NewDecoder(bytes.NewReader(body))
	if err := decoder.Decode(&c); err != nil || decoder.More() {
		return c, errors.New("the body is not a JSON object with method and params")
	}
	if c.Method == "" || len(c.Params) > 8 {
		return c, errors.New("the call names no method, or has too many params")
	}
	return c, nil
}

// runCall runs the method for the administrator.
func (r *Relay) runCall(w http.ResponseWriter, req *http.Request, admin string, c call) {
	m, found := managementMethods()[c.Method]
	if !found {
		r.answerCall(w, http.StatusBadRequest, callInvalid, nil, "the method is not supported")
		return
	}
	act := &act{relay: r, ctx: req.Context(), admin: admin, params: c.Params}
	result, err := m.run(act)
	var refused callRefusal
	switch {
	case err == nil:
		if !m.reads {
			r.log.InfoContext(req.Context(), "management", "method", c.Method, "subject", act.subject, "admin", admin)
		}
		r.answerCall(w, http.StatusOK, callDone, result, "")
	case errors.As(err, &refused):
		r.answerCall(w, http.StatusBadRequest, callInvalid, nil, refused.Error())
	default:
		r.log.ErrorContext(req.Context(), "management", "method", c.Method, "subject", act.subject, "admin", admin, "err", err)
		r.answerCall(w, http.StatusInternalServerError, callError, nil, "the store could not be changed or read")
	}
}

// answerCall writes {"result":…} or {"error":…}.
func (r *Relay) answerCall(w http.ResponseWriter, status int, label string, result any, text string) {
	r.metrics.management.WithLabelValues(label).Inc()
	answer := map[string]any{"result": result}
	if text != "" {
		answer = map[string]any{"error": text}
	}
	body, err := json.Marshal(answer)
	if err != nil {
		status, body = http.StatusInternalServerError, []byte(`{"error":"the answer cannot be written"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	w.Write(body) //nolint:errcheck // The client is gone then.
}
