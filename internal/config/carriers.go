package config

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"

	"github.com/parleykit/parley/internal/httpserver"
)

// Carrier is the section of the mailbox under /carrier/v1: sealed messages over
// HTTPS, for the recipients of section relay.
type Carrier struct {
	// HTTPS switches it on.
	HTTPS bool `yaml:"https"`
	// HTTPSQuota and HTTPSQuotaSize bound what waits for one recipient.
	HTTPSQuota     int      `yaml:"https_quota"`
	HTTPSQuotaSize ByteSize `yaml:"https_quota_size"`
}

// MQTT is the section of the own broker and of the bridges to others.
type MQTT struct {
	Broker  Broker       `yaml:"broker"`
	Bridges []MQTTBridge `yaml:"bridges"`
}

// Broker is the MQTT broker in this process.
type Broker struct {
	Enabled bool `yaml:"enabled"`
	// Listen is host:port.
	Listen string `yaml:"listen"`
	// Address is how clients name it; "" is made from origin and Listen.
	Address string `yaml:"address"`
	// MaxClients bounds all connections, MaxClientsPerIP those of one address.
	MaxClients      int `yaml:"max_clients"`
	MaxClientsPerIP int `yaml:"max_clients_per_ip"`
}

// MQTTBridge joins a relay and a broker.
type MQTTBridge struct {
	Name string `yaml:"name"`
	// Broker is mqtts://host:port; Relay a wss:// address, "" the own one.
	Broker string `yaml:"broker"`
	Relay  string `yaml:"relay"`
	// Username and PasswordFile; without them the bridge's key logs in.
	Username     string `yaml:"username"`
	PasswordFile string `yaml:"password_file"`
	// CAFile trusts the broker, CertFile and KeyFile show who we are.
	CAFile   string `yaml:"ca_file"`
	CertFile string `yaml:"cert_file"`
	KeyFile  string `yaml:"key_file"`
	// Kinds are moved, both ways.
	Kinds []int `yaml:"kinds"`
	// Recipients of sealed messages; none is everybody whose card names the broker.
	Recipients []PublicKey `yaml:"recipients"`
}

// Ntfy is the section of the ntfy server for development and of the bridges.
type Ntfy struct {
	// Development is host:port of a server in this process; "" is none.
	Development string       `yaml:"development"`
	Bridges     []NtfyBridge `yaml:"bridges"`
}

// NtfyBridge joins a relay and an ntfy server.
type NtfyBridge struct {
	Name string `yaml:"name"`
	// Server is https://host; Relay a wss:// address, "" the own one.
	Server string `yaml:"server"`
	Relay  string `yaml:"relay"`
	// TokenFile holds an access token of the server.
	TokenFile string `yaml:"token_file"`
	// Topics are those of recipients that get whole envelopes; the topics of
	// cards get wake-ups.
	Topics []Topic `yaml:"topics"`
	// Recipients of wake-ups; none is everybody whose card names the server.
	Recipients []PublicKey `yaml:"recipients"`
}

// Topic is where the envelopes of a recipient go.
type Topic struct {
	Recipient PublicKey `yaml:"recipient"`
	Topic     string    `yaml:"topic"`
}

// BrokerAddress is how clients name the own broker, "" when nobody outside can.
func (c *Config) BrokerAddress(own httpserver.Origin, listen string) string {
	b := c.MQTT.Broker
	switch {
	case !b.Enabled:
		return ""
	case b.Address != "":
		return b.Address
	case own.Loopback() && c.TLS.CertFile == "":
		return "mqtt://" + listen
	case c.TLS.CertFile != "" && !httpserver.IsLoopback(listen):
		return "mqtts://" + withPort(own.Host(), listen)
	}
	return ""
}

// withPort is the host of one address with the port of another.
func withPort(host, listen string) string {
	port := regexp.MustCompile(`:\d+$`)
	return port.ReplaceAllString(host, "") + port.FindString(listen)
}

// maxBridges bounds the bridges of one section.
const maxBridges = 16

// bridgeName is a word, since it names rows and metrics.
var bridgeName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,31}$`)

func (c *Carrier) validate(m *mistakes) {
	m.within("carrier.https_quota", c.HTTPSQuota, 1, 10_000_000)
	m.size("carrier.https_quota_size", c.HTTPSQuotaSize, 64<<10, 1<<40)
}

func (q *MQTT) validate(m *mistakes) {
	if q.Broker.Enabled {
		m.address("mqttbridge.broker.listen", q.Broker.Listen)
	}
	if q.Broker.Address != "" {
		m.url("mqttbridge.broker.address", q.Broker.Address, "mqtts", "mqtt")
	}
	m.within("mqttbridge.broker.max_clients", q.Broker.MaxClients, 1, 1_000_000)
	m.within("mqttbridge.broker.max_clients_per_ip", q.Broker.MaxClientsPerIP, 1, 1_000_000)
	var names []string
	for i, b := range q.Bridges {
		key := fmt.Sprintf("mqttbridge.bridges[%d]", i)
		m.bridge(key, b.Name, b.Relay, &names)
		m.url(key+".broker", b.Broker, "mqtts", "mqtt")
		if (b.Username == "") != (b.PasswordFile == "") {
			m.add(key, "needs both username and password_file, or neither")
		}
		if (b.CertFile == "") != (b.KeyFile == "") {
			m.add(key, "needs both cert_file and key_file, or neither")
		}
	}
	if len(q.Bridges) > maxBridges {
		m.add("mqttbridge.bridges", "at most %d", maxBridges)
	}
}

func (n *Ntfy) validate(m *mistakes) {
	if n.Development != "" {
		m.address("ntfybridge.development", n.Development)
		if !httpserver.IsLoopback(n.Development) {
			m.add("ntfybridge.development", "must be a loopback address: the built-in server is for development")
		}
	}
	var names []string
	for i, b := range n.Bridges {
		key := fmt.Sprintf("ntfybridge.bridges[%d]", i)
		m.bridge(key, b.Name, b.Relay, &names)
		m.url(key+".server", b.Server, "https", "http")
		for j, t := range b.Topics {
			if t.Recipient == "" || !ntfyTopic.MatchString(t.Topic) {
				m.add(fmt.Sprintf("%s.topics[%d]", key, j), "needs a recipient and a topic of 1 to 64 characters of A-Z, a-z, 0-9, _ and -")
			}
		}
	}
	if len(n.Bridges) > maxBridges {
		m.add("ntfybridge.bridges", "at most %d", maxBridges)
	}
}

var ntfyTopic = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// bridge checks what both kinds of bridges have.
func (m *mistakes) bridge(key, name, relay string, names *[]string) {
	switch {
	case !bridgeName.MatchString(name):
		m.add(key+".name", "must be 1 to 32 characters of a-z, 0-9 and dash")
	case slices.Contains(*names, name):
		m.add(key+".name", "%s names two bridges", name)
	}
	*names = append(*names, name)
	if relay != "" {
		m.url(key+".relay", relay, "wss", "ws")
	}
}

// url demands scheme://host without a path that says more.
func (m *mistakes) url(key, value, secure, plain string) {
	u, err := url.Parse(value)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Scheme != secure && u.Scheme != plain {
		m.add(key, "must be a %s:// address", secure)
		return
	}
	if u.Scheme == plain && !httpserver.IsLoopback(u.Host) && u.Hostname() != "localhost" {
		m.add(key, "must be a %s:// address, since its host is not loopback", secure)
	}
}
