package ntfybridge

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"strings"

	"github.com/parleykit/parley/carrier"
)

// Scheme is the carrier's name in addresses.
const Scheme = "ntfy"

// maxAddress bounds the URL of a topic, in bytes.
const maxAddress = 512

var topicPattern = regexp.MustCompile(`^[-_A-Za-z0-9]{1,64}$`)

// Address is one topic of one server.
type Address struct {
	Origin string // https://host[:port], in lower case
	Topic  string // 1 to 64 characters of A-Z, a-z, 0-9, dash and underscore
}

// String is the address as it stands in cards and configuration.
func (a Address) String() string { return a.Origin + "/" + a.Topic }

// ParseAddress reads https://host[:port]/topic, or http for a loopback host.
// A user, a query, a fragment and a longer path are refused. Errors wrap
// carrier.ErrPermanent and do not repeat the text.
func ParseAddress(text string) (Address, error) {
	origin, path, err := parseURL(text)
	if err != nil {
		return Address{}, err
	}
	topic, ok := strings.CutPrefix(path, "/")
	if !ok || !topicPattern.MatchString(topic) {
		return Address{}, fmt.Errorf("%w: an ntfy address is https://host/topic", carrier.ErrPermanent)
	}
	return Address{Origin: origin, Topic: topic}, nil
}

// ParseOrigin reads the address of a server, https://host[:port], and returns
// it in its one spelling.
func ParseOrigin(text string) (string, error) {
	origin, path, err := parseURL(text)
	if err == nil && path != "" && path != "/" {
		err = fmt.Errorf("%w: an ntfy server's address is https://host", carrier.ErrPermanent)
	}
	return origin, err
}

func parseURL(text string) (origin, path string, err error) {
	u, err := url.Parse(text)
	if err != nil || len(text) > maxAddress {
		return "", "", fmt.Errorf("%w: not the URL of an ntfy server", carrier.ErrPermanent)
	}
	u.Scheme, u.Host = strings.ToLower(u.Scheme), strings.ToLower(u.Host)
	if err := checkURL(u); err != nil {
		return "", "", fmt.Errorf("%w: %w", carrier.ErrPermanent, err)
	}
	if port := map[string]string{"https": ":443", "http": ":80"}[u.Scheme]; strings.HasSuffix(u.Host, port) {
		u.Host = strings.TrimSuffix(u.Host, port)
	}
	return u.Scheme + "://" + u.Host, u.EscapedPath(), nil
}

func checkURL(u *url.URL) error {
	switch {
	case u.Scheme != "https" && u.Scheme != "http":
		return errors.New("an ntfy address starts with https://")
	case u.Opaque != "" || u.Hostname() == "" || strings.HasSuffix(u.Host, ":"):
		return errors.New("an ntfy address names a host")
	case u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return errors.New("an ntfy address has no user, query or fragment")
	case u.Scheme == "http" && !isLoopback(u.Hostname()):
		return errors.New("plain http is for loopback only")
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
