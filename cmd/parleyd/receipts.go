package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/parleykit/parley/internal/config"
	"github.com/parleykit/parley/internal/httpserver"
	"github.com/parleykit/parley/internal/issuer"
	"github.com/parleykit/parley/internal/keys"
	"github.com/parleykit/parley/internal/merklelog"
	"github.com/parleykit/parley/internal/receiptlog"
	"github.com/parleykit/parley/protocol/discovery"
	"github.com/parleykit/parley/protocol/logproof"
	"github.com/parleykit/parley/protocol/receipt"
	"github.com/parleykit/parley/venue"
)

// addReceipts makes the issuer and the log of receipts, each with a key of its
// own. Where they were switched off, the receipts of rooms that are still open
// are proven all the same.
func (s *server) addReceipts(ctx context.Context) error {
	closed := !s.cfg.Receipts.Enabled
	if _, err := s.keys.Ed25519(keys.Issuer); closed && errors.Is(err, keys.ErrNoKey) {
		return nil // there never were any
	}
	iss, err := issuer.New(issuer.Options{
		Keys: s.keys, Origin: s.http.Origin(), Settings: issuerSettings(&s.cfg.Receipts), ClientIP: s.http.ClientIP,
		Logger: s.logger, Registerer: s.http.Registry(),
	})
	if err != nil {
		return err
	}
	key, err := s.keys.EnsureEd25519(keys.Checkpoint)
	if err != nil {
		return err
	}
	witnesses, err := logWitnesses(s.cfg.Receipts.Witnesses)
	if err != nil {
		return err
	}
	log, err := receiptlog.New(ctx, receiptlog.Options{
		DB: s.db, Key: key, Origin: s.http.Origin().String(), Witnesses: witnesses, Client: s.dialer.HTTPClient(),
		Logger: s.logger, Registerer: s.http.Registry(),
	})
	if err != nil {
		return err
	}
	s.notary = &receiptlog.Notary{Issuer: iss, Log: log, Closed: closed}
	s.services = append(s.services, log)
	if closed {
		return nil
	}
	if err := s.http.Handle(append(iss.Routes(), log.Routes()...)...); err != nil {
		return err
	}
	return s.addWitness(ctx)
}

// addWitness cosigns the logs of others, under a key that signs nothing else.
func (s *server) addWitness(ctx context.Context) error {
	if len(s.cfg.Receipts.WitnessLogs) == 0 {
		return nil
	}
	var logs []logproof.Key
	for _, text := range s.cfg.Receipts.WitnessLogs {
		key, err := logproof.ParseKey(text)
		if err != nil {
			return fmt.Errorf("receipts.witness_logs: %w", err)
		}
		logs = append(logs, key)
	}
	key, err := s.keys.EnsureEd25519(keys.Witness)
	if err != nil {
		return err
	}
	w, err := merklelog.NewWitness(ctx, merklelog.WitnessOptions{
		DB: s.db, Name: s.http.Origin().Host() + receiptlog.WitnessPath, Key: key, Logs: logs, Logger: s.logger,
	})
	if err != nil {
		return err
	}
	s.logger.Info("witness", "key", w.Key().String(), "logs", len(logs))
	return s.http.Handle(receiptlog.WitnessRoute(w))
}

func logWitnesses(configured []config.Witness) (witnesses []receiptlog.Witness, err error) {
	for i, c := range configured {
		w, err := receiptlog.ParseWitness(c.Key, c.URL)
		if err != nil {
			return nil, fmt.Errorf("receipts.witnesses[%d]: %w", i, err)
		}
		witnesses = append(witnesses, w)
	}
	return witnesses, nil
}

// forPurposes lets readers of the relay's public pages declare a purpose
// (PEAC-Purpose), and gives those who did a receipt of the answer.
func (s *server) forPurposes(routes []httpserver.Route) []httpserver.Route {
	if s.notary == nil || s.notary.Closed {
		return routes
	}
	iss := s.notary.Issuer
	for i, route := range routes {
		if route.Method == http.MethodGet && (route.Pattern == "/relay/" || strings.HasPrefix(route.Pattern, "/relay/card/")) {
			routes[i].Handler = iss.Attach(issuer.Attachment{Claims: accessClaims}, iss.RequirePurpose(false, route.Handler))
		}
	}
	return routes
}

// accessClaims say that a page was read, or was not to be; nil for a request
// without a purpose.
func accessClaims(r *http.Request, status int, header http.Header) *receipt.Claims {
	applied := exactField(header, receipt.HeaderPurposeApplied)
	if applied == "" {
		return nil
	}
	decision := "allow"
	if status == http.StatusForbidden {
		decision = "deny"
	}
	return &receipt.Claims{
		Kind: receipt.KindEvidence, Type: "org.peacprotocol/access-decision", Pillars: []string{"access", "purpose"},
		PurposeDeclared: applied,
		Extensions: map[string]any{"org.peacprotocol/access": map[string]any{
			"resource": r.URL.Path, "action": "read", "decision": decision,
		}},
	}
}

// exactField reads a field that the protocol spells in another way than net/http.
func exactField(header http.Header, name string) string { return strings.Join(header[name], ",") }

// receipts is the notary as the venue knows it; nil when there is none.
func (s *server) receipts() venue.Receipts {
	if s.notary == nil {
		return nil
	}
	return s.notary
}

func issuerSettings(c *config.Receipts) issuer.Settings {
	settings := issuer.Settings{
		Policy: discovery.Policy{
			Usage: c.Usage, Purposes: c.Purposes, Receipts: discovery.Optional, Attribution: c.Attribution,
			RateLimit: c.RateLimit, Contact: c.Contact, License: c.License,
		},
		SecurityContact: c.SecurityContact,
	}
	for _, r := range c.Revoked {
		settings.Revoked = append(settings.Revoked, discovery.RevokedKey{KeyID: r.KeyID, RevokedAt: r.At, Reason: r.Reason})
	}
	return settings
}
