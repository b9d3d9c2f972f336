package config

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/parleykit/parley/internal/httpserver"
)

// Validate checks every value and returns all mistakes joined, each with the
// path of its key.
func (c *Config) Validate() error {
	var m mistakes
	if c.Data == "" {
		m.add("data", "must name a folder")
	}
	if c.Origin != "" {
		origin, err := httpserver.ParseOrigin(c.Origin)
		if err != nil {
			m.add("origin", "%s", strings.TrimPrefix(err.Error(), "httpserver: origin "))
		} else if c.TLS.CertFile != "" && !origin.Secure() {
			m.add("origin", "must begin with https:// when tls has files")
		}
	}
	m.address("listen", c.Listen)
	if (c.TLS.CertFile == "") != (c.TLS.KeyFile == "") {
		m.add("tls", "needs both cert_file and key_file")
	}
	if c.Metrics.Listen != "" {
		m.address("metrics.listen", c.Metrics.Listen)
		if !c.Metrics.AllowRemote && !httpserver.IsLoopback(c.Metrics.Listen) {
			m.add("metrics.listen", "must be a loopback address unless allow_remote is true")
		}
	}
	m.oneOf("log.level", c.Log.Level, "debug", "info", "warn", "error")
	m.oneOf("log.format", c.Log.Format, "text", "json")
	if path, found := strings.CutPrefix(c.Database, "sqlite:"); c.Database != "" && (!found || path == "") && !c.postgres() {
		m.add("database", "must be empty, sqlite:PATH or postgres://…")
	}
	c.validatePassword(&m)
	c.validateNames(&m)
	if c.Relay.Enabled && c.Relay.Store == StoreDatabase && !c.postgres() {
		m.add("relay.store", "database needs a postgres:// database")
	}
	c.Relay.validate(&m)
	c.Venue.validate(&m)
	c.Carrier.validate(&m)
	c.MQTT.validate(&m)
	c.Ntfy.validate(&m)
	if c.Venue.Enabled && !c.Relay.Enabled && len(c.Venue.Relays) == 0 {
		m.add("venue.relays", "needs a relay, since the own one is not enabled")
	}
	return errors.Join(m...)
}

// validateNames holds names to the form of NIP-05.
func (c *Config) validateNames(m *mistakes) {
	if len(c.Names) > maxNames {
		m.add("names", "at most %d", maxNames)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Names)) {
		if !namePattern.MatchString(name) {
			m.add("names", "%.80q must be 1 to 64 characters of a-z, 0-9, dot, dash and underscore", name)
		}
		if c.Names[name] == "" {
			m.add("names."+name, "must be a public key")
		}
	}
}

// maxNames bounds the names of one server.
const maxNames = 10_000

// namePattern is a name of NIP-05; "_" is the host itself.
var namePattern = regexp.MustCompile(`^[a-z0-9._-]{1,64}$`)

// validatePassword keeps the password of the database out of the file.
func (c *Config) validatePassword(m *mistakes) {
	if !c.postgres() {
		if c.DatabasePasswordFile != "" {
			m.add("database_password_file", "needs a postgres:// database")
		}
		return
	}
	_, rest, _ := strings.Cut(c.Database, "://")
	authority, parameters, _ := strings.Cut(rest, "/")
	account, _, named := strings.Cut(authority, "@")
	if named && strings.Contains(account, ":") || strings.Contains(parameters, "password=") {
		m.add("database", "must not hold a password, which belongs into database_password_file")
	}
}

func (r *Relay) validate(m *mistakes) {
	m.length("relay.name", r.Name, 100)
	m.length("relay.description", r.Description, 1000)
	m.length("relay.contact", r.Contact, 200)
	m.oneOf("relay.store", r.Store, StorePebble, StoreDatabase)
	m.policy("relay.recipients", r.Recipients)
	m.within("relay.wrap_quota", r.WrapQuota, 1, 10_000_000)
	m.within("relay.wrap_days", r.WrapDays, 1, 366)
	m.size("relay.max_event_size", r.MaxEventSize, 64<<10, 1<<20)
	m.size("relay.max_frame", r.MaxFrame, 64<<10, 4<<20)
	if r.MaxFrame < r.MaxEventSize+1024 {
		m.add("relay.max_frame", "must be at least 1KiB more than max_event_size")
	}
	m.within("relay.max_tags", r.MaxTags, 16, 2000)
	if r.MaxAhead.Duration < time.Second || r.MaxAhead.Duration > 24*time.Hour {
		m.add("relay.max_ahead", "must lie between 1s and 24h, got %s", r.MaxAhead)
	}
	m.within("relay.max_connections", r.MaxConnections, 1, 1_000_000)
	m.within("relay.max_connections_per_ip", r.MaxConnectionsPerIP, 1, 1_000_000)
	m.within("relay.max_subscriptions", r.MaxSubscriptions, 1, 1000)
	m.within("relay.max_filters", r.MaxFilters, 1, 100)
	m.within("relay.max_limit", r.MaxLimit, 1, 5000)
	m.size("relay.connections_memory", r.ConnectionsMemory, 16<<20, 1<<40)
	m.size("relay.cards_memory", r.CardsMemory, 0, 64<<30)
	m.within("relay.max_reconciliations", r.MaxReconciliations, 0, 10_000)
	m.within("relay.max_reconciliations_per_ip", r.MaxReconciliationsPerIP, 1, 10_000)
	m.within("relay.max_reconciliation_events", r.MaxReconciliationEvents, 1, 1_000_000)
	m.within("relay.events_per_second", r.EventsPerSecond, 1, 100_000)
	m.within("relay.events_per_second_per_ip", r.EventsPerSecondPerIP, 1, 1_000_000)
	m.within("relay.events_per_second_per_key", r.EventsPerSecondPerKey, 1, 100_000)
	r.validatePolicy(m)
}

// validatePolicy leaves what only the relay knows, such as which kinds are
// possible, to the relay.
func (r *Relay) validatePolicy(m *mistakes) {
	m.length("relay.posting_policy", r.PostingPolicy, 300)
	m.policy("relay.authors", r.Authors)
	m.within("relay.min_work", r.MinWork, 0, 40)
	for i, work := range r.MinWorkKinds {
		m.within(fmt.Sprintf("relay.min_work_kinds[%d].bits", i), work.Bits, 0, 40)
	}
	for i, b := range r.Bridges {
		if b.Key == "" || b.Scheme == "" {
			m.add(fmt.Sprintf("relay.bridges[%d]", i), "needs key and scheme")
		}
	}
	if len(r.Plugin.Command) > 0 && r.Plugin.Command[0] == "" {
		m.add("relay.plugin.command", "must begin with a program")
	}
	if r.Plugin.Timeout.Duration < 10*time.Millisecond || r.Plugin.Timeout.Duration > 30*time.Second {
		m.add("relay.plugin.timeout", "must lie between 10ms and 30s, got %s", r.Plugin.Timeout)
	}
}

func (v *Venue) validate(m *mistakes) {
	for i, relay := range v.Relays {
		if u, err := url.Parse(relay); err != nil || u.Host == "" || u.Scheme != "ws" && u.Scheme != "wss" {
			m.add(fmt.Sprintf("venue.relays[%d]", i), "must be a ws:// or wss:// address")
		}
	}
	if len(v.Relays) > 8 {
		m.add("venue.relays", "at most 8")
	}
	m.policy("venue.hosts", v.Hosts)
	m.within("venue.daily_cap", v.DailyCap, 1, 1_000_000)
	m.within("venue.keep_days", v.KeepDays, 1, 36_500)
}

// mistakes collects errors that begin with the path of a key.
type mistakes []error

func (m *mistakes) add(key, format string, args ...any) {
	*m = append(*m, fmt.Errorf("%s: %s", key, fmt.Sprintf(format, args...)))
}

func (m *mistakes) address(key, value string) {
	_, digits, err := net.SplitHostPort(value)
	if err != nil {
		m.add(key, "must be host:port, got %.60q", value)
	} else if _, err := strconv.ParseUint(digits, 10, 16); err != nil {
		m.add(key, "has no port between 0 and 65535: %.60q", value)
	}
}

func (m *mistakes) oneOf(key, value string, allowed ...string) {
	if !slices.Contains(allowed, value) {
		m.add(key, "must be one of %s, got %.40q", strings.Join(allowed, ", "), value)
	}
}

func (m *mistakes) policy(key string, value Policy) {
	m.oneOf(key, string(value), string(Auto), string(Anyone), string(Listed))
}

func (m *mistakes) within(key string, value, low, high int) {
	if value < low || value > high {
		m.add(key, "must lie between %d and %d, got %d", low, high, value)
	}
}

func (m *mistakes) size(key string, value, low, high ByteSize) {
	if value < low || value > high {
		m.add(key, "must lie between %s and %s, got %s", low, high, value)
	}
}

func (m *mistakes) length(key, value string, limit int) {
	if utf8.RuneCountInString(value) > limit || !utf8.ValidString(value) {
		m.add(key, "must be text of at most %d characters", limit)
	}
}
