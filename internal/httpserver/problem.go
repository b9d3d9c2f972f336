package httpserver

import (
	"encoding/json"
	"net/http"
)

// problem is the document of RFC 9457 with one extension member, code.
type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`
	Code   string `json:"code"`
}

// Problem answers with an RFC 9457 document. The type is about:blank; code is
// a stable lower_case word for programs, detail one sentence for people that
// carries neither a secret nor another party's address.
func Problem(w http.ResponseWriter, r *http.Request, status int, code, detail string) {
	body, err := json.Marshal(problem{"about:blank", http.StatusText(status), status, detail, code})
	if err != nil { // strings and an int always encode
		http.Error(w, http.StatusText(status), status)
		return
	}
	header := w.Header()
	header.Set("Content-Type", "application/problem+json")
	header.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(append(body, '\n'))
	}
}
