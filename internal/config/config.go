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
	// Names are public keys by the names this server gives them (NIP-05).
	Names map[string]PublicKey `yaml:"names"`
	// Relay is the Nostr relay.
	Relay Relay `yaml:"relay"`
	// Venue hosts agreements.
	Venue Venue `yaml:"venue"`
	// Receipts are issued for accepted acts.
	Receipts Receipts `yaml:"receipts"`
	// Carrier, MQTT and Ntfy are the carriers beside the relay.
	Carrier Carrier `yaml:"carrier"`
	MQTT    MQTT    `yaml:"mqttbridge"`
	Ntfy    Ntfy    `yaml:"ntfybridge"`
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
	// PostingPolicy is a URL that stands there as well.
	PostingPolicy string `yaml:"posting_policy"`
	// Store is StorePebble or StoreDatabase.
	Store string `yaml:"store"`
	// Kinds are the kinds of events that are taken.
	Kinds []int `yaml:"kinds"`
	// Authors says whose events are taken; those of AuthorsDenied never are.
	Authors       Policy      `yaml:"authors"`
	AuthorsListed []PublicKey `yaml:"authors_listed"`
	AuthorsDenied []PublicKey `yaml:"authors_denied"`
	// MinWork is the proof of work of every event in bits (NIP-13), MinWorkKinds
	// the same for single kinds.
	MinWork      int    `yaml:"min_work"`
	MinWorkKinds []Work `yaml:"min_work_kinds"`
	// CardCarriers are schemes of which each card names at least one.
	CardCarriers []string `yaml:"card_carriers"`
	// Bridges may read wraps of others.
	Bridges []Bridge `yaml:"bridges"`
	// Admins may manage the relay over HTTP (NIP-86).
	Admins []PublicKey `yaml:"admins"`
	// Plugin decides about single events.
	Plugin Plugin `yaml:"plugin"`
	// Recipients says for whom gift wraps are stored.
	Recipients       Policy      `yaml:"recipients"`
	RecipientsListed []PublicKey `yaml:"recipients_listed"`
	// WrapQuota is how many wraps are stored for one recipient.
	WrapQuota int `yaml:"wrap_quota"`
	// WrapDays is how many days a wrap is kept at most.
	WrapDays int `yaml:"wrap_days"`
	// MaxEventSize and MaxFrame bound an event and a WebSocket message.
	MaxEventSize ByteSize `yaml:"max_event_size"`
	MaxFrame     ByteSize `yaml:"max_frame"`
	// MaxTags is per event, MaxAhead how far its time may lie ahead.
	MaxTags  int      `yaml:"max_tags"`
	MaxAhead Duration `yaml:"max_ahead"`
	// MaxConnections bounds all connections, MaxConnectionsPerIP those of one
	// client address.
	MaxConnections      int `yaml:"max_connections"`
	MaxConnectionsPerIP int `yaml:"max_connections_per_ip"`
	// MaxSubscriptions is per connection, MaxFilters per request.
	MaxSubscriptions int `yaml:"max_subscriptions"`
	MaxFilters       int `yaml:"max_filters"`
	// MaxLimit is the most stored events one filter returns.
	MaxLimit int `yaml:"max_limit"`
	// ConnectionsMemory is what all connections may hold together.
	ConnectionsMemory ByteSize `yaml:"connections_memory"`
	// CardsMemory is what cards, profiles and relay lists may take in memory.
	CardsMemory ByteSize `yaml:"cards_memory"`
	// MaxReconciliations are open at one time (NIP-77), MaxReconciliationsPerIP
	// of one client address, MaxReconciliationEvents the events of each; 0 of the
	// first switches them off.
	MaxReconciliations      int `yaml:"max_reconciliations"`
	MaxReconciliationsPerIP int `yaml:"max_reconciliations_per_ip"`
	MaxReconciliationEvents int `yaml:"max_reconciliation_events"`
	// EventsPerSecond is the lasting rate of EVENT messages of a connection,
	// EventsPerSecondPerIP that of a client address, EventsPerSecondPerKey that
	// of an author.
	EventsPerSecond       int `yaml:"events_per_second"`
	EventsPerSecondPerIP  int `yaml:"events_per_second_per_ip"`
	EventsPerSecondPerKey int `yaml:"events_per_second_per_key"`
}

// Work is the proof of work that one kind needs.
type Work struct {
	Kind int `yaml:"kind"`
	Bits int `yaml:"bits"`
}

// Bridge is a key that may read the wraps for recipients that have a card with
// a carrier of the scheme, or for those listed of them.
type Bridge struct {
	Key        PublicKey   `yaml:"key"`
	Scheme     string      `yaml:"scheme"`
	Recipients []PublicKey `yaml:"recipients"`
}

// Plugin is a program that decides about events.
type Plugin struct {
	// Command is the program and its arguments; none is no plugin.
	Command []string `yaml:"command"`
	// Timeout is for one event.
	Timeout Duration `yaml:"timeout"`
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

// Receipts is the section of the issuer, its policy document peac.txt and the
// log of receipts.
type Receipts struct {
	Enabled bool `yaml:"enabled"`
	// Usage, Purposes, Attribution, RateLimit, Contact and License stand in
	// peac.txt.
	Usage       string   `yaml:"usage"`
	Purposes    []string `yaml:"purposes"`
	Attribution string   `yaml:"attribution"`
	RateLimit   string   `yaml:"rate_limit"`
	Contact     string   `yaml:"contact"`
	License     string   `yaml:"license"`
	// SecurityContact stands in peac-issuer.json, and Revoked.
	SecurityContact string       `yaml:"security_contact"`
	Revoked         []RevokedKey `yaml:"revoked"`
	// Witnesses cosign the log; WitnessLogs are keys of logs that this server
	// cosigns.
	Witnesses   []Witness `yaml:"witnesses"`
	WitnessLogs []string  `yaml:"witness_logs"`
}

// Witness is another server that cosigns checkpoints.
type Witness struct {
	Key string `yaml:"key"` // a C2SP vkey
	URL string `yaml:"url"` // its submission prefix
}

// RevokedKey is an issuer key whose receipts nobody shall believe any more.
type RevokedKey struct {
	KeyID  string    `yaml:"kid"`
	At     time.Time `yaml:"at"`
	Reason string    `yaml:"reason"`
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
		Names:          map[string]PublicKey{},
		Relay: Relay{
			Enabled: true, Name: "Parley relay", Description: "Contact cards and sealed messages.",
			Store:   StorePebble,
			Kinds:   []int{0, 5, 62, 1059, 10002, 10050, 30417},
			Authors: Anyone, AuthorsListed: []PublicKey{}, AuthorsDenied: []PublicKey{},
			MinWorkKinds: []Work{}, CardCarriers: []string{}, Bridges: []Bridge{}, Admins: []PublicKey{},
			Plugin:     Plugin{Command: []string{}, Timeout: Duration{2 * time.Second}},
			Recipients: Auto, RecipientsListed: []PublicKey{}, WrapQuota: 10000, WrapDays: 32,
			MaxEventSize: 64 << 10, MaxFrame: 128 << 10, MaxTags: 200, MaxAhead: Duration{15 * time.Minute},
			MaxConnections: 4096, MaxConnectionsPerIP: 1024,
			MaxSubscriptions: 64, MaxFilters: 16, MaxLimit: 500,
			ConnectionsMemory: 512 << 20, CardsMemory: 256 << 20,
			MaxReconciliations: 32, MaxReconciliationsPerIP: 8, MaxReconciliationEvents: 50_000,
			EventsPerSecond: 200, EventsPerSecondPerIP: 1000, EventsPerSecondPerKey: 200,
		},
		Venue:    Venue{Enabled: true, Relays: []string{}, Hosts: Auto, HostsListed: []PublicKey{}, DailyCap: 50, KeepDays: 365},
		Receipts: Receipts{Enabled: true, Usage: "conditional", Purposes: []string{"index", "inference", "search", "user_action"}, Revoked: []RevokedKey{}, Witnesses: []Witness{}, WitnessLogs: []string{}},
		Carrier:  Carrier{HTTPS: true, HTTPSQuota: 10000, HTTPSQuotaSize: 256 << 20},
		MQTT: MQTT{
			Broker:  Broker{Enabled: true, Listen: "127.0.0.1:8483", MaxClients: 4096, MaxClientsPerIP: 256},
			Bridges: []MQTTBridge{},
		},
		Ntfy:   Ntfy{Bridges: []NtfyBridge{}},
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

// Hex are public keys in hex; nil stays nil.
func Hex(keys []PublicKey) []string {
	if keys == nil {
		return nil
	}
	all := make([]string, len(keys))
	for i, k := range keys {
		all[i] = string(k)
	}
	return all
}

// RecipientKeys are the keys for which the relay stores wraps, in hex; nil means
// every key. own is the server's origin.
func (r *Relay) RecipientKeys(own httpserver.Origin) []string {
	return r.Recipients.keys(r.RecipientsListed, own)
}

// AuthorKeys are the keys whose events the relay takes, in hex; nil means every
// key. own is the server's origin.
func (r *Relay) AuthorKeys(own httpserver.Origin) []string {
	return r.Authors.keys(r.AuthorsListed, own)
}

// Host tells whether the venue opens rooms for a public key (64 lowercase hex
// digits); own is the server's origin.
func (v *Venue) Host(pubkey string, own httpserver.Origin) bool {
	listed := v.Hosts.keys(v.HostsListed, own)
	return listed == nil || slices.Contains(listed, pubkey)
}

// Keep is KeepDays for venue.Options.
func (v *Venue) Keep() time.Duration { return time.Duration(v.KeepDays) * 24 * time.Hour }

// keys are those that the policy means; nil means every key.
func (p Policy) keys(listed []PublicKey, own httpserver.Origin) []string {
	if p == Anyone || p == Auto && own.Loopback() {
		return nil
	}
	return append([]string{}, Hex(listed)...)
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
