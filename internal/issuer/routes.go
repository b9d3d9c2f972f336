package issuer

import (
	"net/http"

	"github.com/parleykit/parley/internal/httpserver"
	"github.com/parleykit/parley/protocol/discovery"
)

// owner labels the issuer's routes.
const owner = "issuer"

// Routes is what the issuer answers. They are the same for every origin; what
// only an https origin has is answered with 404 elsewhere.
func (i *Issuer) Routes() []httpserver.Route {
	const text, json = "text/plain; charset=utf-8", "application/json"
	return []httpserver.Route{
		i.publish(discovery.PolicyPath, "the policy for automated use (peac.txt)", text,
			func(self *identity) []byte { return self.policyText }),
		i.publish(discovery.IssuerPath, "how receipts of this server are verified", json,
			func(self *identity) []byte { return self.issuerJSON }),
		i.publish(discovery.CapabilitiesPath, "which receipts this server gives", json,
			func(self *identity) []byte { return self.capabilitiesJSON }),
		i.publish(discovery.PolicyFallbackPath, "the policy for automated use, at its other place", text,
			func(self *identity) []byte { return self.policyText }),
		i.publish(KeySetPath, "the keys of receipts (JSON Web Key Set)", "application/jwk-set+json",
			func(self *identity) []byte { return self.keySetJSON }),
		{
			Method: http.MethodPost, Pattern: VerifyPath, Owner: owner,
			Summary: "a verdict on a receipt of this server or of a did:key",
			MaxBody: maxVerifyBody, Handler: http.HandlerFunc(i.serveVerify),
		},
	}
}

// publish is the route of one document.
func (i *Issuer) publish(path, summary, contentType string, text func(*identity) []byte) httpserver.Route {
	return httpserver.Route{
		Method: http.MethodGet, Pattern: path, Owner: owner, Summary: summary,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			httpserver.PublicRead(w)
			data := text(i.current.Load())
			if data == nil {
				httpserver.Problem(w, r, http.StatusNotFound, "not_found", "Receipts of this server name their key themselves, as a did:key.")
				return
			}
			w.Header().Set("Content-Type", contentType)
			w.Header().Set("Cache-Control", "max-age=300")
			_, _ = w.Write(data)
		}),
	}
}
