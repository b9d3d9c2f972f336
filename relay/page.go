package relay

import (
	"bytes"
	"embed"
	"encoding/json"
	"html/template"
	"net/http"
	"net/mail"
	"strings"

	"github.com/parleykit/parley/internal/httpserver"
)

// pageFiles are the templates, the stylesheet and the script of the page.
//
//go:embed page
var pageFiles embed.FS

// pages are the templates; each is one whole document.
var pages = template.Must(template.ParseFS(pageFiles, "page/*.html"))

// pagePolicy lets the page load its own stylesheet and script, ask for its own
// counts and send its own form, and nothing else.
const pagePolicy = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// pageRoutes are the page for people, below /relay/.
func (r *Relay) pageRoutes() []httpserver.Route {
	get := func(pattern, summary string, answer http.HandlerFunc) httpserver.Route {
		return httpserver.Route{Method: http.MethodGet, Pattern: pattern, Owner: "relay", Summary: summary, Handler: answer}
	}
	return []httpserver.Route{
		get("/relay/{$}", "page with live counts and the public cards, for people", r.limited(r.serveCards)),
		get("/relay/card/{key}/{name}", "page with one card", r.limited(r.serveCard)),
		get("/relay/counts", "the live counts as JSON", r.limited(r.serveCounts)),
		get("/relay/page.css", "stylesheet of these pages", asset("page/page.css", "text/css; charset=utf-8")),
		get("/relay/page.js", "script that keeps the counts fresh", asset("page/page.js", "text/javascript; charset=utf-8")),
	}
}

// limited counts requests of an address like its REQs.
func (r *Relay) limited(answer http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		if !allow(r.addresses.budget(r.opts.ClientIP(req)).requests, r.opts.Now()) {
			w.Header().Set("Retry-After", "5")
			httpserver.Problem(w, req, http.StatusTooManyRequests, "rate_limited", "Too many requests, slow down.")
			return
		}
		answer(w, req)
	}
}

// asset answers with an embedded file.
func asset(name, media string) http.HandlerFunc {
	data, err := pageFiles.ReadFile(name)
	if err != nil {
		panic(err) // it is embedded
	}
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", media)
		w.Header().Set("Cache-Control", "max-age=300")
		w.Write(data) //nolint:errcheck // The client is gone then.
	}
}

// serveCounts answers what the script of the page asks for.
func (r *Relay) serveCounts(w http.ResponseWriter, req *http.Request) {
	data, err := json.Marshal(r.counts())
	if err != nil {
		httpserver.Problem(w, req, http.StatusInternalServerError, "internal", "The counts cannot be written.")
		return
	}
	httpserver.PublicRead(w)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.Write(data) //nolint:errcheck // The client is gone then.
}

// site is what every page says about the relay.
type site struct {
	Title, Name, Description string
	Contact, ContactURL      string
	Address                  string // of the WebSocket
}

func (r *Relay) site(title string) site {
	p := r.rules().Policy
	s := site{Title: title, Name: p.Name, Description: p.Description, Contact: p.Contact}
	if s.Name == "" {
		s.Name = "Nostr relay"
	}
	if s.Title = s.Name; title != "" {
		s.Title = title + " – " + s.Name
	}
	s.Address = "ws" + strings.TrimPrefix(r.opts.Origin, "http") + "/"
	if _, err := mail.ParseAddress(s.Contact); err == nil {
		s.ContactURL = "mailto:" + s.Contact
	} else if isWebAddress(s.Contact) {
		s.ContactURL = s.Contact
	}
	return s
}

// render writes one document; with an error nothing of it.
func (r *Relay) render(w http.ResponseWriter, req *http.Request, status int, name string, data any) {
	var text bytes.Buffer
	if err := pages.ExecuteTemplate(&text, name, data); err != nil {
		r.log.ErrorContext(req.Context(), "writing the page", "err", err)
		httpserver.Problem(w, req, http.StatusInternalServerError, "internal", "The page cannot be written.")
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", pagePolicy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-cache")
	w.WriteHeader(status)
	w.Write(text.Bytes()) //nolint:errcheck // The client is gone then.
}
