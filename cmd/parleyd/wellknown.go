package main

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/parleykit/parley/internal/config"
	"github.com/parleykit/parley/internal/httpserver"
	"github.com/parleykit/parley/protocol/wellknown"
)

// namesRoute answers which key a configured name belongs to (NIP-05), and that
// it is found at the relay of this server, where there is one. Only the name
// that is asked for is told.
func namesRoute(names map[string]config.PublicKey, relay string) httpserver.Route {
	return httpserver.Route{
		Method: http.MethodGet, Pattern: wellknown.NamesPath, Owner: "parleyd",
		Summary: "the public key of a name (NIP-05)",
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			name := strings.ToLower(r.FormValue("name"))
			answer := wellknown.Names{Names: map[string]string{}}
			if key, found := names[name]; found {
				answer.Names[name] = string(key)
				if relay != "" {
					answer.Relays = map[string][]string{string(key): {relay}}
				}
			}
			data, err := json.Marshal(answer)
			if err != nil {
				httpserver.Problem(w, r, http.StatusInternalServerError, "internal", "The names cannot be written.")
				return
			}
			httpserver.PublicRead(w)
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Cache-Control", "max-age=300")
			_, _ = w.Write(data)
		}),
	}
}
