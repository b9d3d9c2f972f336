package main

import (
	"github.com/parleykit/parley/ntfybridge/ntfyserver"
	"github.com/parleykit/parley/protocol/card"
	"github.com/parleykit/parley/protocol/wellknown"
)

// addNtfy runs an ntfy server in this process, for development on this machine.
func (s *server) addNtfy() error {
	listen := s.cfg.Ntfy.Development
	if listen == "" {
		return nil
	}
	n, err := ntfyserver.New(ntfyserver.Options{Listen: listen, Logger: s.logger})
	if err != nil {
		return err
	}
	s.services = append(s.services, n)
	address := "http://" + n.Addr().String()
	if s.http.Origin().Loopback() {
		s.carriers = append(s.carriers, wellknown.Carrier{Scheme: card.SchemeNtfy, Address: address})
	}
	s.logger.Info("ntfy server for development", "address", address)
	return nil
}
