package issuer

import (
	"context"
	"net/http"

	"github.com/parleykit/parley/protocol/receipt"
)

// Attachment says which answers get a receipt.
type Attachment struct {
	// Claims is what the receipt of an answer says, nil for none. It is asked
	// once, just before the header is sent; required.
	Claims func(r *http.Request, status int, header http.Header) *receipt.Claims
	// URL keeps a receipt that is too large for a header field and says where it
	// can be had, an https URL; "" where it cannot. nil means never.
	URL func(ctx context.Context, issued *Issued) string
}

// Attach adds receipts to the answers of next, in the field PEAC-Receipt or, if
// one is too large for it, by PEAC-Receipt-URL. An answer whose receipt cannot
// be made goes out without; the fault is logged and counted.
func (i *Issuer) Attach(a Attachment, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := &answer{ResponseWriter: w, attach: func(status int) { i.attach(a, w.Header(), r, status) }}
		next.ServeHTTP(answer, r)
		answer.begin(http.StatusOK)
	})
}

func (i *Issuer) attach(a Attachment, header http.Header, r *http.Request, status int) {
	claims := a.Claims(r, status, header)
	if claims == nil {
		return
	}
	result := attachedHeader
	defer func() { i.metrics.attached.WithLabelValues(result).Inc() }()
	issued, err := i.Issue(*claims)
	if err != nil {
		result = attachedFailed
		i.opts.Logger.ErrorContext(r.Context(), "an answer goes without its receipt", "path", r.URL.Path, "err", err)
		return
	}
	fields, err := receipt.NewCarrier(issued.JWS).ToHTTP()
	if err == nil {
		write(header, fields)
		return
	}
	result = attachedNone
	if a.URL == nil {
		return
	}
	if url := a.URL(r.Context(), issued); receipt.IsHTTPS(url) {
		result = attachedURL
		header.Del(receipt.HeaderReceiptURL)
		header[receipt.HeaderReceiptURL] = []string{url}
	}
}

// write sets fields in the one spelling that the protocol has for them.
func write(header http.Header, fields []receipt.HeaderField) {
	for _, field := range fields {
		if field.Name == "Vary" {
			header.Add(field.Name, field.Value)
			continue
		}
		header.Del(field.Name) // another spelling of it would be a second field
		header[field.Name] = []string{field.Value}
	}
}

// answer calls attach before the header is sent.
type answer struct {
	http.ResponseWriter
	attach func(status int)
	begun  bool
}

// begin is called with a status once the header is complete. An answer that
// changes the protocol is none.
func (a *answer) begin(status int) {
	if a.begun || status < http.StatusOK && status != http.StatusSwitchingProtocols {
		return
	}
	a.begun = true
	if status != http.StatusSwitchingProtocols {
		a.attach(status)
	}
}

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(status int) {
	a.begin(status)
	a.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (a *answer) Write(data []byte) (int, error) {
	a.begin(http.StatusOK)
	return a.ResponseWriter.Write(data)
}

// Flush implements http.Flusher.
func (a *answer) Flush() {
	a.begin(http.StatusOK)
	_ = http.NewResponseController(a.ResponseWriter).Flush()
}

// Unwrap is for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }
