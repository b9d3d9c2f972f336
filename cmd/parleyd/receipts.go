package main

import (
	"context"

	"github.com/parleykit/parley/internal/config"
	"github.com/parleykit/parley/internal/issuer"
	"github.com/parleykit/parley/internal/keys"
	"github.com/parleykit/parley/internal/receiptlog"
	"github.com/parleykit/parley/protocol/discovery"
	"github.com/parleykit/parley/venue"
)

// addReceipts makes the issuer and the log of receipts, each with a key of its
// own.
func (s *server) addReceipts(ctx context.Context) error {
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
	log, err := receiptlog.New(ctx, receiptlog.Options{
		DB: s.db, Key: key, Origin: s.http.Origin().String(), Logger: s.logger, Registerer: s.http.Registry(),
	})
	if err != nil {
		return err
	}
	s.notary = &receiptlog.Notary{Issuer: iss, Log: log}
	s.services = append(s.services, log)
	return s.http.Handle(append(iss.Routes(), log.Routes()...)...)
}

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
