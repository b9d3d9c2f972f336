package main

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/carrier/https"
	carriernostr "github.com/parleykit/parley/carrier/nostr"
	"github.com/parleykit/parley/internal/keys"
	"github.com/parleykit/parley/mqttbridge"
	"github.com/parleykit/parley/protocol/canonical"
	"github.com/parleykit/parley/protocol/card"
	"github.com/parleykit/parley/protocol/message"
	"github.com/parleykit/parley/venue"
)

// lookupTimeout bounds the search for a recipient's card.
const lookupTimeout = 10 * time.Second

// addVenue makes the venue an agent of its own: a key, a delivery engine and
// the relays where its messages arrive.
func (s *server) addVenue(ctx context.Context) error {
	key, err := s.keys.EnsureNostr(keys.Venue)
	if err != nil {
		return err
	}
	relays := s.venueRelays()
	nostrCarrier, err := carriernostr.New(carriernostr.Options{
		Relays: relays, Signer: key, Dialer: s.dialer, Logger: s.logger, Registerer: s.http.Registry(),
	})
	if err != nil {
		return err
	}
	carriers, err := s.venueCarriers(ctx, key)
	if err != nil {
		return err
	}
	carriers = append([]carrier.Carrier{nostrCarrier}, carriers...)
	book := &cardBook{carrier: nostrCarrier, relays: relays, usable: carriers}
	var v *venue.Venue // made after the engine that carries its messages
	engine, err := carrier.New(ctx, carrier.Options{
		DB: s.db, Keyer: key, Carriers: carriers, Resolve: book.addresses,
		Handle: func(ctx context.Context, tx *sql.Tx, in *carrier.Incoming) error { return v.Handle(ctx, tx, in) },
		IsMember: func(ctx context.Context, tx *sql.Tx, pubkey string, m *message.Message) bool {
			return v.IsMember(ctx, tx, pubkey, m)
		},
		Stranger: func(ctx context.Context, in *carrier.Incoming) bool { return v.Stranger(ctx, in) },
		Limits:   proposalLimits(s.cfg.Venue.DailyCap),
		Instance: instance(s.cfg.Data), Logger: s.logger, Registerer: s.http.Registry(),
	})
	if err != nil {
		return err
	}
	cfg, origin := s.cfg.Venue, s.http.Origin()
	v, err = venue.New(ctx, venue.Options{
		DB: s.db, Receipts: s.receipts(), Outbox: engine, Key: key, Origin: origin.String(), DailyCap: cfg.DailyCap, Keep: cfg.Keep(),
		Hosts:  func(_ context.Context, pubkey string) bool { return cfg.Host(pubkey, origin) },
		Logger: s.logger, Registerer: s.http.Registry(),
	})
	if err != nil {
		return err
	}
	s.services = append(s.services, engine, v)
	return nil
}

// venueCarriers are the ways beside the relays by which the venue is reached: its own
// mailbox and broker, within the process.
func (s *server) venueCarriers(ctx context.Context, key *keys.Nostr) (list []carrier.Carrier, err error) {
	if s.cfg.Carrier.HTTPS {
		c, err := https.New(ctx, https.Options{
			Inboxes: []string{s.http.Origin().String()}, Signer: key, Dialer: s.dialer, DB: s.db,
			Logger: s.logger, Registerer: s.http.Registry(),
		})
		if err != nil {
			return nil, err
		}
		s.closers = append(s.closers, func() error { c.Close(); return nil })
		list = append(list, c)
	}
	if s.broker != nil {
		c, err := mqttbridge.New(mqttbridge.Options{
			Inboxes: []mqttbridge.Inbox{s.inbox(key.PublicKey())}, Signer: key, Dialer: s.dialer, Instance: instance(s.cfg.Data),
			Logger: s.logger, Registerer: s.http.Registry(),
		})
		if err != nil {
			return nil, err
		}
		s.closers = append(s.closers, func() error { c.Close(); return nil })
		list = append(list, c)
	}
	return list, nil
}

// proposalLimits let every host propose up to its daily cap and be told when it
// goes beyond: what the engine drops nobody answers.
func proposalLimits(dailyCap int) carrier.Limits {
	const each = 64 << 10 // bytes, more than most revisions have
	proposals := 2 * dailyCap
	return carrier.Limits{
		Requests: max(1000, 10*proposals), RequestBytes: max(64<<20, 10*each*int64(proposals)),
		SenderRequests: max(20, proposals), SenderBytes: max(4<<20, each*int64(proposals)),
	}
}

// instance names this server among those of one database: by its machine and
// its data folder, which belongs to one process.
func instance(data string) string {
	host, _ := os.Hostname()
	if full, err := filepath.Abs(data); err == nil {
		data = full
	}
	return canonical.Digest([]byte(host + "\n" + data))
}

// venueRelays are the configured relays, or the own one.
func (s *server) venueRelays() []string {
	if len(s.cfg.Venue.Relays) > 0 {
		return s.cfg.Venue.Relays
	}
	return []string{s.http.Origin().WebSocket() + "/"}
}

// cardBook finds where an agent can be reached: by its live card on the relays
// of the venue, and failing that on these relays themselves, since that is
// where it wrote from.
type cardBook struct {
	carrier *carriernostr.Carrier
	relays  []string
	usable  []carrier.Carrier
}

func (b *cardBook) addresses(ctx context.Context, pubkey string) ([]carrier.Address, error) {
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	var found []carrier.Address
	for _, relay := range b.relays {
		events, err := b.carrier.Client().Query(ctx, relay, nostr.Filter{
			Kinds: []int{card.Kind}, Authors: []string{pubkey}, Limit: 16,
		})
		if err != nil {
			return nil, fmt.Errorf("looking up card: %w", err)
		}
		for _, ev := range events {
			found = append(found, b.listed(ev)...)
		}
	}
	for i, relay := range b.relays {
		found = append(found, carrier.Address{Scheme: b.carrier.Scheme(), Address: relay, Priority: 1000 + i})
	}
	return uniqueAddresses(found), nil
}

// listed are the carriers of one card that this server can use.
func (b *cardBook) listed(ev *nostr.Event) (found []carrier.Address) {
	parsed, err := card.Parse(ev, time.Now())
	if err != nil {
		return nil
	}
	for _, c := range parsed.Carriers {
		if slices.ContainsFunc(b.usable, func(u carrier.Carrier) bool { return u.Scheme() == c.Scheme }) {
			found = append(found, carrier.Address{Scheme: c.Scheme, Address: c.Address, Priority: c.Priority})
		}
	}
	return found
}

// uniqueAddresses keeps the first of each address.
func uniqueAddresses(all []carrier.Address) (unique []carrier.Address) {
	for _, a := range all {
		if !slices.ContainsFunc(unique, func(b carrier.Address) bool { return a.Scheme == b.Scheme && a.Address == b.Address }) {
			unique = append(unique, a)
		}
	}
	return unique
}
