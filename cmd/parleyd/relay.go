package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/parleykit/parley/internal/config"
	"github.com/parleykit/parley/internal/httpserver"
	"github.com/parleykit/parley/internal/keys"
	"github.com/parleykit/parley/relay"
)

// burst is how many seconds of a rate a peer may use at once.
const burst = 10

// addRelay opens the relay with its store.
func (s *server) addRelay(ctx context.Context) error {
	policy, err := s.relayPolicy(s.cfg)
	if err != nil {
		return err
	}
	store, err := s.openEvents(ctx)
	if err != nil {
		return err
	}
	r, err := relay.New(relay.Options{
		Store: store, Origin: s.http.Origin().String(), Version: version(),
		Policy: policy, Limits: relayLimits(&s.cfg.Relay), Plugin: relayPlugin(&s.cfg.Relay),
		ClientIP: s.http.ClientIP, CheckOrigin: s.http.CheckWebSocketOrigin,
		Logger: s.logger, Registerer: s.http.Registry(),
	})
	if err != nil {
		return errors.Join(err, store.Close())
	}
	s.relay = r
	s.services = append(s.services, r)
	return s.http.Handle(s.forPurposes(r.Routes())...)
}

// openEvents opens the relay's store; the relay closes it.
func (s *server) openEvents(ctx context.Context) (relay.Store, error) {
	logger := s.logger.With("component", "relay")
	if s.cfg.Relay.Store == config.StoreDatabase {
		return relay.OpenPostgres(ctx, s.cfg.Database, relay.PostgresOptions{
			PasswordFile: s.cfg.DatabasePasswordFile, Logger: logger,
		})
	}
	return relay.OpenPebble(s.cfg.RelayDir(), logger)
}

// relayPolicy is the policy of the file. The venue of this server always gets
// its mail.
func (s *server) relayPolicy(cfg *config.Config) (relay.Policy, error) {
	p := policyOf(&cfg.Relay, s.http.Origin())
	own, err := s.ownBridges(s.cfg)
	if err != nil {
		return p, err
	}
	p.Bridges = append(p.Bridges, own...)
	if s.cfg.Venue.Enabled && p.Recipients != nil {
		key, err := s.keys.EnsureNostr(keys.Venue)
		if err != nil {
			return p, err
		}
		p.Recipients = append(p.Recipients, key.PublicKey())
	}
	return p, nil
}

func policyOf(c *config.Relay, own httpserver.Origin) relay.Policy {
	p := relay.Policy{
		Name: c.Name, Description: c.Description, Contact: c.Contact, PostingPolicy: c.PostingPolicy,
		Kinds: c.Kinds, Authors: c.AuthorKeys(own), Denied: config.Hex(c.AuthorsDenied),
		Recipients: c.RecipientKeys(own), WrapQuota: c.WrapQuota, WrapRetention: time.Duration(c.WrapDays) * 24 * time.Hour,
		Work: c.MinWork, KindWork: map[int]int{}, Carriers: c.CardCarriers, Admins: config.Hex(c.Admins),
	}
	for _, work := range c.MinWorkKinds {
		p.KindWork[work.Kind] = work.Bits
	}
	for _, b := range c.Bridges {
		p.Bridges = append(p.Bridges, relay.Bridge{Key: string(b.Key), Scheme: b.Scheme, Recipients: config.Hex(b.Recipients)})
	}
	return p
}

// checkPolicy checks what only the relay knows, such as which kinds are
// possible.
func checkPolicy(cfg *config.Config) error {
	if !cfg.Relay.Enabled {
		return nil
	}
	if err := policyOf(&cfg.Relay, httpserver.Origin{}).Check(); err != nil {
		return fmt.Errorf("section relay: %w", err)
	}
	return nil
}

func relayLimits(c *config.Relay) relay.Limits {
	return relay.Limits{
		FrameBytes: int(c.MaxFrame), EventBytes: int(c.MaxEventSize),
		EventTags: c.MaxTags, CreatedAhead: c.MaxAhead.Duration,
		Connections: c.MaxConnections, ConnectionsPerAddress: c.MaxConnectionsPerIP,
		Subscriptions: c.MaxSubscriptions, Filters: c.MaxFilters, Results: c.MaxLimit,
		ConnectionBytes: int(c.ConnectionsMemory), CardBytes: orOff(int(c.CardsMemory)),
		Reconciliations: orOff(c.MaxReconciliations), ReconciliationsPerAddress: c.MaxReconciliationsPerIP, ReconciliationEvents: c.MaxReconciliationEvents,
		EventRate: c.EventsPerSecond, EventBurst: burst * c.EventsPerSecond,
		AddressEventRate: c.EventsPerSecondPerIP, AddressEventBurst: burst * c.EventsPerSecondPerIP,
		KeyEventRate: c.EventsPerSecondPerKey, KeyEventBurst: burst * c.EventsPerSecondPerKey,
	}
}

// orOff makes 0 the negative number that switches a limit of the relay off.
func orOff(n int) int {
	if n == 0 {
		return -1
	}
	return n
}

func relayPlugin(c *config.Relay) *relay.Plugin {
	if len(c.Plugin.Command) == 0 {
		return nil
	}
	return &relay.Plugin{Command: c.Plugin.Command, Timeout: c.Plugin.Timeout.Duration}
}
