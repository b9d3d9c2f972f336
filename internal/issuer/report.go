package issuer

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"github.com/parleykit/parley/internal/httpserver"
	"github.com/parleykit/parley/protocol/receipt"
)

// maxVerifyBody bounds what is sent to be verified, in bytes.
const maxVerifyBody = receipt.MaxJWS

// Verdicts of a Report.
const (
	VerdictValid        = "valid"
	VerdictInvalid      = "invalid"
	VerdictUndetermined = "undetermined" // another issuer's receipt
)

// Report is what the verification endpoint answers.
type Report struct {
	Verdict    string       `json:"verdict"`
	Code       receipt.Code `json:"code,omitzero"`    // of a verdict that is not valid
	Pointer    string       `json:"pointer,omitzero"` // RFC 6901
	Detail     string       `json:"detail,omitzero"`
	NextAction string       `json:"next_action,omitzero"`
	Reference  string       `json:"receipt_ref"`

	// Of a valid receipt alone: nobody vouches for the claims of another.
	KeyID         string              `json:"kid,omitzero"`
	Claims        *receipt.Claims     `json:"claims,omitzero"`
	Warnings      []receipt.Warning   `json:"warnings,omitzero"`
	PolicyBinding receipt.PolicyState `json:"policy_binding,omitzero"`
}

// Report judges a receipt as Verify does. The policy counts as verified where
// the receipt is bound to the one in force; an earlier one is no fault.
func (i *Issuer) Report(jws string) Report {
	report := Report{Verdict: VerdictValid, Reference: receipt.Reference(jws)}
	verified, err := i.Verify(jws, receipt.VerifyOptions{})
	if err == nil {
		report.KeyID, report.Claims, report.Warnings = verified.KeyID, &verified.Claims, verified.Warnings
		report.PolicyBinding = verified.PolicyBinding
		if policy := verified.Claims.Policy; policy != nil && policy.Digest == i.current.Load().binding.Digest {
			report.PolicyBinding = receipt.PolicyVerified
		}
		return report
	}
	report.Verdict, report.Detail = VerdictInvalid, err.Error()
	if refusal, ok := errors.AsType[*receipt.Error](err); ok {
		report.Code, report.Pointer, report.Detail = refusal.Code, refusal.Pointer, refusal.Detail
		report.NextAction = refusal.Code.Explain().NextAction
	}
	if errors.Is(err, errForeign) {
		report.Verdict, report.NextAction = VerdictUndetermined, "Ask the issuer, or verify it with the key that the issuer publishes."
	}
	return report
}

// serveVerify answers with a Report, whatever the verdict, and with a problem
// where there is nothing to judge.
func (i *Issuer) serveVerify(w http.ResponseWriter, r *http.Request) {
	httpserver.PublicRead(w)
	refuse := func(verdict string, status int, code, detail string) {
		i.metrics.verdicts.WithLabelValues(verdict).Inc()
		httpserver.Problem(w, r, status, code, detail)
	}
	if !i.callers.allow(i.opts.ClientIP(r), i.opts.Now()) {
		w.Header().Set("Retry-After", "1")
		refuse("rate_limited", http.StatusTooManyRequests, "rate_limited", "Too many requests come from this address.")
		return
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxVerifyBody+1))
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge || len(body) > maxVerifyBody {
		refuse("unreadable", http.StatusRequestEntityTooLarge, "too_large", "The body has more than 262,144 bytes.")
		return
	}
	if err != nil {
		refuse("unreadable", http.StatusBadRequest, "unreadable", "The body did not arrive whole.")
		return
	}
	jws, fault := receiptOf(body)
	if fault != "" {
		refuse("unreadable", http.StatusBadRequest, "no_receipt", fault)
		return
	}
	report := i.Report(jws)
	data, err := json.Marshal(report)
	if err != nil { // it was decoded from JSON
		refuse("unreadable", http.StatusInternalServerError, "internal", "The report cannot be written.")
		return
	}
	i.metrics.verdicts.WithLabelValues(report.Verdict).Inc()
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(append(data, '\n'))
}

// receiptOf takes the receipt out of a body, a carrier as JSON or the compact
// JWS itself, or says why there is none.
func receiptOf(body []byte) (jws, fault string) {
	body = bytes.TrimSpace(body)
	if len(body) == 0 {
		return "", "The body is empty; send a compact JWS or a carrier."
	}
	if body[0] != '{' {
		return string(body), ""
	}
	carrier, err := receipt.ParseCarrier(body)
	switch {
	case err != nil:
		return "", err.Error()
	case carrier.ReceiptJWS == "":
		return "", "The carrier holds a reference only; send the receipt itself."
	}
	return carrier.ReceiptJWS, ""
}
