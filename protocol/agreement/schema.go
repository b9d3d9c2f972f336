package agreement

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/nbd-wtf/go-nostr"

	"github.com/parleykit/parley/protocol/canonical"
)

// Paths of the schema ids on the venue's origin.
const (
	schemaAgreement = "/schemas/agreement/v1"
	schemaCommand   = "/schemas/room-command/v1"
	schemaEvent     = "/schemas/event/v1"
	schemaBundle    = "/schemas/bundle/v1"
)

// maxOrigin bounds the origin in a schema id, in bytes.
const maxOrigin = 255

// validSchema tells whether id is an origin followed by path.
func validSchema(id, path string) bool {
	origin, found := strings.CutSuffix(id, path)
	return found && ValidOrigin(origin)
}

// ValidOrigin tells whether s is an http or https origin in its only spelling
// (RFC 6454, section 6.2): lower case, no path, no user, no default port.
func ValidOrigin(s string) bool {
	u, err := url.Parse(s)
	if err != nil || len(s) > maxOrigin || u.Host == "" || u.Hostname() == "" || !printable(s) {
		return false
	}
	if u.Scheme == "https" && u.Port() == "443" || u.Scheme == "http" && u.Port() == "80" {
		return false
	}
	return (u.Scheme == "https" || u.Scheme == "http") && s == u.Scheme+"://"+u.Host &&
		!strings.HasSuffix(u.Host, ":") && s == strings.ToLower(s)
}

// printable tells whether s is visible ASCII that needs no escape in JSON, in
// a URL or in a code span of Markdown.
func printable(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] >= 0x7f || strings.IndexByte("\"\\`<>{}|^%", s[i]) >= 0 {
			return false
		}
	}
	return true
}

// validKey tells whether s is an x-only secp256k1 public key (BIP-340) in
// lower-case hex.
func validKey(s string) bool { return canonical.IsHex(s, 32) && nostr.IsValidPublicKey(s) }

// validThreshold accepts digits with at most one point or one slash between.
func validThreshold(s string) bool {
	if len(s) > 32 {
		return false
	}
	whole, rest, found := strings.Cut(s, ".")
	if !found {
		whole, rest, found = strings.Cut(s, "/")
	}
	return digits(whole) && (!found || digits(rest))
}

func digits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// place turns an error of the decoder into one short sentence that names the
// place and repeats nothing of the document.
func place(err error) string {
	if sem, ok := errors.AsType[*json.SemanticError](err); ok {
		what := "wrong type or value"
		if errors.Is(sem.Err, json.ErrUnknownName) {
			what = "unknown member"
		}
		return fmt.Sprintf("%.80q: %s", string(sem.JSONPointer), what)
	}
	if syn, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		return fmt.Sprintf("%.80q: not I-JSON", string(syn.JSONPointer))
	}
	return "not I-JSON, or beyond its limits"
}
