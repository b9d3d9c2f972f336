package nostr

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"

	"github.com/parleykit/parley/carrier"
)

// Scheme is the carrier's name in addresses.
const Scheme = "nostr"

// maxAddress bounds a relay's URL, in bytes.
const maxAddress = 512

// ParseAddress checks the URL of a relay and returns it in its one spelling:
// wss, or ws for a loopback host; no user, query or fragment; scheme and host
// in lower case; no trailing slash. Errors wrap carrier.ErrPermanent.
func ParseAddress(address string) (string, error) {
	u, err := url.Parse(address)
	if err != nil || len(address) > maxAddress {
		return "", fmt.Errorf("%w: not the URL of a relay", carrier.ErrPermanent)
	}
	u.Scheme, u.Host = strings.ToLower(u.Scheme), strings.ToLower(u.Host)
	if err := checkURL(u); err != nil {
		return "", fmt.Errorf("%w: %w", carrier.ErrPermanent, err)
	}
	u.Path = strings.TrimRight(u.Path, "/")
	u.RawPath = ""
	return u.String(), nil
}

func checkURL(u *url.URL) error {
	switch {
	case u.Scheme != "wss" && u.Scheme != "ws":
		return errors.New("a relay's URL starts with wss://")
	case u.Hostname() == "":
		return errors.New("a relay's URL names a host")
	case u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return errors.New("a relay's URL has no user, query or fragment")
	case u.Scheme == "ws" && !isLoopback(u.Hostname()):
		return errors.New("plain ws is for loopback only")
	}
	return nil
}

func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}
