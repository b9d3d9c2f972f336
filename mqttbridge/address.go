package mqttbridge

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strings"

	"github.com/parleykit/parley/carrier"
)

// Scheme names the carrier in addresses and metrics.
const Scheme = "mqtt"

// Address is a topic at a broker.
type Address struct {
	Broker string // mqtts://host:port, or mqtt://host:port of a loopback host
	Topic  string // without wildcards
}

// String is the address as ParseAddress reads it.
func (a Address) String() string {
	return a.Broker + (&url.URL{Path: "/" + a.Topic}).EscapedPath()
}

// ports are those of addresses that name none.
var ports = map[string]string{"mqtts": "8883", "mqtt": "1883"}

// ParseAddress reads mqtts://host[:port]/topic, or mqtt:// for loopback hosts. An
// address that is of no use is a carrier.ErrPermanent.
func ParseAddress(text string) (Address, error) {
	broker, topic, err := split(text)
	if err != nil {
		return Address{}, err
	}
	if err := checkTopic(topic); err != nil {
		return Address{}, fmt.Errorf("%w: %w", carrier.ErrPermanent, err)
	}
	return Address{broker, topic}, nil
}

// ParseBroker reads the address of a broker: one without a topic.
func ParseBroker(text string) (string, error) {
	broker, topic, err := split(text)
	if err == nil && topic != "" {
		return "", badAddress("a broker has no topic")
	}
	return broker, err
}

func split(text string) (broker, topic string, err error) {
	if len(text) > maxAddress {
		return "", "", badAddress("too long")
	}
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.ForceQuery || strings.Contains(text, "#") {
		return "", "", badAddress("not mqtts://host/topic")
	}
	port := ports[u.Scheme]
	switch {
	case port == "":
		return "", "", badAddress("not of scheme mqtts")
	case u.Scheme == "mqtt" && !loopback(u.Hostname()):
		return "", "", badAddress("mqtt:// is for loopback hosts only")
	}
	if u.Port() != "" {
		port = u.Port()
	}
	return u.Scheme + "://" + net.JoinHostPort(strings.ToLower(u.Hostname()), port), strings.TrimPrefix(u.Path, "/"), nil
}

// maxAddress bounds an address, in bytes: as long as a card may have it.
const maxAddress = 512

func badAddress(why string) error {
	return fmt.Errorf("%w: mqtt address: %s", carrier.ErrPermanent, why)
}

func loopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}

// hostPort is where a broker is reached.
func hostPort(broker string) string {
	_, address, _ := strings.Cut(broker, "://")
	return address
}
