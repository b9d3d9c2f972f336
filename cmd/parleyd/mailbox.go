package main

import (
	"context"

	"github.com/parleykit/parley/carrier/https"
	"github.com/parleykit/parley/internal/keys"
	"github.com/parleykit/parley/protocol/wellknown"
)

// addMailbox keeps sealed messages that come over HTTPS for the recipients of section
// relay.
func (s *server) addMailbox(ctx context.Context) error {
	cfg := s.cfg.Carrier
	if !cfg.HTTPS {
		return nil
	}
	key, err := s.keys.EnsureEd25519(keys.Server)
	if err != nil {
		return err
	}
	mailbox, err := https.NewMailbox(ctx, https.MailboxOptions{
		DB: s.db, Origin: s.http.Origin().String(), Key: key, Admit: s.admits, ClientIP: s.http.ClientIP,
		Quota: cfg.HTTPSQuota, QuotaBytes: int64(cfg.HTTPSQuotaSize), Logger: s.logger, Registerer: s.http.Registry(),
	})
	if err != nil {
		return err
	}
	s.services = append(s.services, mailbox)
	s.carriers = append(s.carriers, wellknown.Carrier{Scheme: https.Scheme, Address: mailbox.Address()})
	return s.http.Handle(mailbox.Routes()...)
}
