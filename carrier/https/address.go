package https

import (
	"fmt"
	"net/netip"
	"net/url"
	"strings"

	"github.com/parleykit/parley/carrier"
)

// Scheme names the carrier in addresses and metrics.
const Scheme = "https"

// Paths of a mailbox below its origin.
const (
	EnvelopesPath = "/carrier/v1/envelopes"
	InboxPath     = "/carrier/v1/inbox"
)

// maxAddress bounds an address, in bytes: as long as a card may have it.
const maxAddress = 512

// ParseAddress brings the URL that envelopes are posted to into one spelling:
// https://host[:port]/path, or http:// for loopback hosts. An address that is of no
// use is a carrier.ErrPermanent.
func ParseAddress(text string) (string, error) {
	u, err := url.Parse(text)
	if err != nil || len(text) > maxAddress || u.Host == "" || u.User != nil || u.RawQuery != "" || u.ForceQuery || strings.Contains(text, "#") {
		return "", badAddress("not https://host/path")
	}
	switch {
	case u.Scheme == "http" && !loopback(u.Hostname()):
		return "", badAddress("http:// is for loopback hosts only")
	case u.Scheme != "https" && u.Scheme != "http":
		return "", badAddress("not of scheme https")
	}
	u.Host = strings.ToLower(u.Host)
	return u.String(), nil
}

func badAddress(why string) error {
	return fmt.Errorf("%w: https address: %s", carrier.ErrPermanent, why)
}

func loopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}
