package config

import (
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/parleykit/parley/internal/egress"
	"github.com/parleykit/parley/internal/httpserver"
	"github.com/parleykit/parley/internal/keys"
)

// Config is the whole file. docs/config.md and deploy/parley.yaml explain each
// key.
type Config struct {
	// Data is the folder of everything the server keeps.
	Data string `yaml:"data"`
	// Origin is how clients name the server; "" is loopback.
	Origin string `yaml:"origin"`
	// Listen is host:port of the public listener.
	Listen string `yaml:"listen"`
	// TrustedProxies are addresses and networks whose X-Forwarded-For counts.
	TrustedProxies []Prefix `yaml:"trusted_proxies"`
	// TLS by files.
	TLS TLS `yaml:"tls"`
	// Metrics, health and readiness.
	Metrics Metrics `yaml:"metrics"`
	// Log to standard error.
	Log Log `yaml:"log"`
	// Database address; "" is parley.db in the data folder.
	Database string `yaml:"database"`
	// DatabasePasswordFile holds the password of a PostgreSQL address.
	DatabasePasswordFile string `yaml:"database_password_file"`
	// Relay is the Nostr relay.
	Relay Relay `yaml:"relay"`
	// Venue hosts agreements.
	Venue Venue `yaml:"venue"`
	// Egress is what outgoing connections may reach.
	Egress Egress `yaml:"egress"`
}

// TLS names the files of a certificate chain and its key, both PEM; both or
// neither.
type TLS struct {
	CertFile string `yaml:"cert_file"`
	KeyFile  string `yaml:"key_file"`
}

// Metrics is the listener of /metrics, /healthz and /readyz.
type Metrics struct {
	// Listen is host:port; "" is none.
	Listen string `yaml:"listen"`
	// AllowRemote permits a Listen outside of loopback.
	AllowRemote bool `yaml:"allow_remote"`
}

// Log says what is logged and how.
type Log struct {
	// Level is debug, info, warn or error.
	Level string `yaml:"level"`
	// Format is text or json.
	Format string `yaml:"format"`
}

// Policy says for whom something is done.
type Policy string

// The policies.
const (
	// Auto is Anyone while the own origin is loopback, Listed otherwise.
	Auto   Policy = "auto"
	Anyone Policy = "anyone"
	Listed Policy = "listed"
)

// Relay is the section of the Nostr relay.
type Relay struct {
	Enabled bool `yaml:"enabled"`
	// Name, Description and Contact stand in the NIP-11 document.
	Name        string `yaml:"name"`
	Description string `yaml:"description"`
	Contact     string `yaml:"contact"`
	// Store is StorePebble or StoreDatabase.
	Store string `yaml:"store"`
	// Recipients says for whom gift wraps are stored.
	Recipients       Policy      `yaml:"recipients"`
	RecipientsListed []PublicKey `yaml:"recipients_listed"`
	// WrapQuota is how many wraps are stored for one recipient.
	WrapQuota int `yaml:"wrap_quota"`
	// MaxEventSize and MaxFrame bound an event and a WebSocket message.
	MaxEventSize ByteSize `yaml:"max_event_size"`
	MaxFrame     ByteSize `yaml:"max_frame"`
	// MaxConnections bounds all connections, MaxConnectionsPerIP those of one
	// client address.
	MaxConnections      int `yaml:"max_connections"`
	MaxConnectionsPerIP int `yaml:"max_connections_per_ip"`
	// MaxSubscriptions is per connection, MaxFilters per request.
	MaxSubscriptions int `yaml:"max_subscriptions"`
	MaxFilters       int `yaml:"max_filters"`
	// MaxLimit is the most stored events one filter returns.
	MaxLimit int `yaml:"max_limit"`
	// EventsPerSecond is the lasting rate of EVENT messages of a connection.
	EventsPerSecond int `yaml:"events_per_second"`
}

// Where the relay keeps its events.
const (
	// StorePebble is an embedded store in RelayDir, of one process.
	StorePebble = "pebble"
	// StoreDatabase is Database, which must be PostgreSQL; processes may share it.
	StoreDatabase = "database"
)

// Venue is the section of the agreements.
type Venue struct {
	Enabled bool `yaml:"enabled"`
	// Relays are where the venue reads its messages; none is the own relay.
	Relays []string `yaml:"relays"`
	// Hosts says for whom a room is opened.
	Hosts       Policy      `yaml:"hosts"`
	HostsListed []PublicKey `yaml:"hosts_listed"`
	// DailyCap is how many rooms one initiator may open in 24 hours.
	DailyCap int `yaml:"daily_cap"`
	// KeepDays is how many days a closed room stays stored.
	KeepDays int `yaml:"keep_days"`
}

// Egress is the section of outgoing connections.
type Egress struct {
	// Allow are exceptions to the rule that only global addresses are reached.
	Allow []Allow `yaml:"allow"`
}

// Default is the configuration of an empty file.
func Default() Config {
	return Config{
		Data:           "./parley-data",
		Listen:         "127.0.0.1:8417",
		TrustedProxies: []Prefix{},
		Metrics:        Metrics{Listen: "127.0.0.1:9417"},
		Log:            Log{Level: "info", Format: "text"},
		Relay: Relay{
			Enabled: true, Name: "Parley relay", Description: "Contact cards and sealed messages.",
			Store:      StorePebble,
			Recipients: Auto, RecipientsListed: []PublicKey{}, WrapQuota: 10000,
			MaxEventSize: 64 << 10, MaxFrame: 128 << 10,
			MaxConnections: 4096, MaxConnectionsPerIP: 1024,
			MaxSubscriptions: 64, MaxFilters: 16, MaxLimit: 500, EventsPerSecond: 200,
		},
		Venue:  Venue{Enabled: true, Relays: []string{}, Hosts: Auto, HostsListed: []PublicKey{}, DailyCap: 50, KeepDays: 365},
		Egress: Egress{Allow: []Allow{}},
	}
}

// DatabaseURL is the address for database.Open.
func (c *Config) DatabaseURL() string {
	if c.Database != "" {
		return c.Database
	}
	return "sqlite:" + filepath.Join(c.Data, "parley.db")
}

// postgres tells whether Database is an address of PostgreSQL.
func (c *Config) postgres() bool {
	return strings.HasPrefix(c.Database, "postgres://") || strings.HasPrefix(c.Database, "postgresql://")
}

// KeysDir is the folder for keys.Open.
func (c *Config) KeysDir() string { return filepath.Join(c.Data, "keys") }

// RelayDir is the folder of the relay's events.
func (c *Config) RelayDir() string { return filepath.Join(c.Data, "relay") }

// Proxies is TrustedProxies for httpserver.Options.
func (c *Config) Proxies() []netip.Prefix {
	var proxies []netip.Prefix
	for _, p := range c.TrustedProxies {
		proxies = append(proxies, p.Prefix)
	}
	return proxies
}

// EgressAllow is Egress.Allow for egress.Options.
func (c *Config) EgressAllow() []egress.Allow {
	var allowed []egress.Allow
	for _, a := range c.Egress.Allow {
		allowed = append(allowed, a.Allow)
	}
	return allowed
}

// Recipient tells whether the relay stores wraps for a public key (64 lowercase
// hex digits); own is the server's origin.
func (r *Relay) Recipient(pubkey string, own httpserver.Origin) bool {
	return r.Recipients.admits(pubkey, r.RecipientsListed, own)
}

// Host tells whether the venue opens rooms for a public key (64 lowercase hex
// digits); own is the server's origin.
func (v *Venue) Host(pubkey string, own httpserver.Origin) bool {
	return v.Hosts.admits(pubkey, v.HostsListed, own)
}

// Keep is KeepDays for venue.Options.
func (v *Venue) Keep() time.Duration { return time.Duration(v.KeepDays) * 24 * time.Hour }

func (p Policy) admits(pubkey string, listed []PublicKey, own httpserver.Origin) bool {
	if p == Anyone || p == Auto && own.Loopback() {
		return true
	}
	return slices.Contains(listed, PublicKey(pubkey))
}

// PublicKey is a Nostr public key, 64 lowercase hex digits; the file may give
// an npub as well.
type PublicKey string

// UnmarshalText reads npub or hex.
func (k *PublicKey) UnmarshalText(text []byte) error {
	public, err := keys.ParsePublic(string(text))
	if err != nil {
		return errText("not a public key (npub1… or 64 hex digits)")
	}
	*k = PublicKey(public)
	return nil
}
