package ntfyserver

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"
)

// refusal is an answer that is no success, with ntfy's own code.
type refusal struct {
	Code   int    `json:"code"`
	Status int    `json:"http"`
	Text   string `json:"error"`
}

// Error implements error.
func (r *refusal) Error() string { return r.Text }

var (
	errDelayShort    = &refusal{40005, http.StatusBadRequest, "invalid request: delay too short"}
	errDelayLong     = &refusal{40006, http.StatusBadRequest, "invalid request: delay too long"}
	errDelay         = &refusal{40004, http.StatusBadRequest, "invalid request: delay invalid"}
	errSince         = &refusal{40008, http.StatusBadRequest, "invalid request: since invalid"}
	errNoAttachments = &refusal{40014, http.StatusBadRequest, "invalid request: attachments not allowed"}
	errJSON          = &refusal{40024, http.StatusBadRequest, "invalid request: request body must be valid JSON"}
	errUnauthorized  = &refusal{40101, http.StatusUnauthorized, "unauthorized"}
	errForbidden     = &refusal{40301, http.StatusForbidden, "forbidden"}
	errNotFound      = &refusal{40401, http.StatusNotFound, "page not found"}
	errJSONSize      = &refusal{41303, http.StatusRequestEntityTooLarge, "JSON body too large"}
	errRequests      = &refusal{42901, http.StatusTooManyRequests, "limit reached: too many requests"}
	errSubscriptions = &refusal{42903, http.StatusTooManyRequests, "limit reached: too many active subscriptions"}
	errInternal      = &refusal{50001, http.StatusInternalServerError, "internal server error"}
)

// refuse answers with a refusal.
func (s *Server) refuse(rw http.ResponseWriter, r *refusal) {
	rw.Header().Set("Content-Type", "application/json")
	if r.Status == http.StatusTooManyRequests && s.opts.RetryAfter > 0 {
		rw.Header().Set("Retry-After", strconv.Itoa(int(s.opts.RetryAfter/time.Second)))
	}
	rw.WriteHeader(r.Status)
	_ = json.NewEncoder(rw).Encode(r)
}
