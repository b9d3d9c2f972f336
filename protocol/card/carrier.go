package card

import (
	"cmp"
	"net/mail"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// Schemes of carriers, a closed set.
const (
	SchemeNostr  = "nostr"  // wss://host/…
	SchemeNtfy   = "ntfy"   // https://host/topic; a topic for wake-ups only
	SchemeMQTT   = "mqtt"   // mqtts://host:8883/topic
	SchemeHTTPS  = "https"  // https://host/path
	SchemeMailto = "mailto" // mailto:local@domain; only beside a proof
)

// Carrier is one way to reach the agent. A lower Priority is tried first.
type Carrier struct {
	Scheme   string
	Address  string // a URI; the plain ws, http and mqtt only for loopback hosts
	Priority int    // 0 to 65535
}

func byPriority(carriers []Carrier) []Carrier {
	out := slices.Clone(carriers)
	slices.SortStableFunc(out, func(a, b Carrier) int { return cmp.Compare(a.Priority, b.Priority) })
	return out
}

// schemes are the distinct schemes of carriers in sorted order.
func schemes(carriers []Carrier) []string {
	var out []string
	for _, c := range carriers {
		out = append(out, c.Scheme)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// transports names the URI scheme of a carrier, and its plain form that only a
// loopback host may have.
var transports = map[string]struct{ secure, plain string }{
	SchemeNostr: {"wss", "ws"},
	SchemeNtfy:  {"https", "http"},
	SchemeMQTT:  {"mqtts", "mqtt"},
	SchemeHTTPS: {"https", "http"},
}

var ntfyTopic = regexp.MustCompile(`^/[A-Za-z0-9_-]{1,64}$`)

// checkAddress tells what is wrong with a carrier's address, "" if nothing.
func checkAddress(scheme, address string) string {
	if scheme == SchemeMailto {
		return checkMailto(address)
	}
	transport, ok := transports[scheme]
	if !ok {
		return "unknown scheme"
	}
	u, problem := checkURL(address, transport.secure, transport.plain)
	if problem != "" {
		return problem
	}
	switch scheme {
	case SchemeNtfy:
		if !ntfyTopic.MatchString(u.EscapedPath()) || u.RawQuery != "" {
			return "not a topic URL"
		}
	case SchemeMQTT:
		if len(u.Path) < 2 || strings.ContainsAny(u.Path, "+#") || u.RawQuery != "" {
			return "not a topic without wildcards"
		}
	}
	return ""
}

// checkURL accepts a URL in its only spelling: ASCII, lower-case scheme and
// host, no user and no fragment.
func checkURL(s, secure, plain string) (*url.URL, string) {
	if s == "" || len(s) > MaxAddress || !visible(s) {
		return nil, "empty, too long or not plain ASCII"
	}
	u, err := url.Parse(s)
	if err != nil || u.Hostname() == "" || u.User != nil || strings.Contains(s, "#") || u.String() != s ||
		u.Host != strings.ToLower(u.Host) || strings.HasSuffix(u.Host, ":") || strings.Contains(u.Host, "%") {
		return nil, "not a plain URL"
	}
	switch {
	case u.Scheme == secure:
		return u, ""
	case u.Scheme != plain:
		return nil, "not of scheme " + secure
	case !loopback(u.Hostname()):
		return nil, plain + " is for loopback hosts only"
	}
	return u, ""
}

func loopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}

func checkMailto(address string) string {
	box, found := strings.CutPrefix(address, "mailto:")
	if !found || len(box) > 254 || !visible(box) || strings.ContainsAny(box, "?%") {
		return "not a mailto address"
	}
	parsed, err := mail.ParseAddress(box)
	if err != nil || parsed.Address != box {
		return "not a mailto address"
	}
	return ""
}

// visible tells whether s is ASCII without blanks and control characters.
func visible(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] >= 0x7f {
			return false
		}
	}
	return true
}
