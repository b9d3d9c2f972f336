package main

import (
	"fmt"
	"net"
	"slices"

	"github.com/parleykit/parley/internal/config"
	"github.com/parleykit/parley/internal/httpserver"
	"github.com/parleykit/parley/internal/keys"
	"github.com/parleykit/parley/mqttbridge"
	"github.com/parleykit/parley/protocol/card"
	"github.com/parleykit/parley/protocol/wellknown"
)

// admits reports whether sealed messages are stored for a key: the venue's own, and
// those of the recipients in section relay, as it was read last.
func (s *server) admits(pubkey string) bool {
	recipients := s.recipients.Load()
	return recipients == nil || *recipients == nil || slices.Contains(*recipients, pubkey)
}

// noteRecipients takes over for whom sealed messages are stored.
func (s *server) noteRecipients(cfg *config.Config) error {
	policy, err := s.relayPolicy(cfg)
	if err != nil {
		return err
	}
	s.recipients.Store(&policy.Recipients)
	return nil
}

// addBroker runs the MQTT broker and names it in the server's document where others
// can reach it.
func (s *server) addBroker() error {
	cfg := s.cfg.MQTT.Broker
	if !cfg.Enabled {
		return nil
	}
	if !httpserver.IsLoopback(cfg.Listen) && s.cfg.TLS.CertFile == "" {
		return fmt.Errorf("mqttbridge.broker.listen: %s is not loopback, which needs the files of section tls", cfg.Listen)
	}
	opts := mqttbridge.BrokerOptions{
		Listen: cfg.Listen, Dir: s.cfg.Data, Admit: s.admits,
		Limits: mqttbridge.BrokerLimits{Clients: cfg.MaxClients, ClientsPerAddress: cfg.MaxClientsPerIP},
		Logger: s.logger, Registerer: s.http.Registry(),
	}
	listener, err := net.Listen("tcp", cfg.Listen)
	if err != nil {
		return fmt.Errorf("mqttbridge.broker.listen: %w (another server on this machine? give it another port, or switch one broker off)", err)
	}
	opts.Listener = listener
	s.brokerURL = brokerInside(listener.Addr().String())
	opts.Names = []string{s.brokerURL}
	if s.cfg.TLS.CertFile != "" && !httpserver.IsLoopback(cfg.Listen) {
		opts.TLS = s.http.TLSConfig()
	}
	address := s.cfg.BrokerAddress(s.http.Origin(), listener.Addr().String())
	if address != "" {
		name, err := mqttbridge.ParseBroker(address)
		if err != nil {
			return fmt.Errorf("mqttbridge.broker.address: %w", err)
		}
		opts.Names = append(opts.Names, name)
		s.carriers = append(s.carriers, wellknown.Carrier{Scheme: card.SchemeMQTT, Address: name})
	}
	for _, b := range s.cfg.MQTT.Bridges {
		if b.Broker != s.brokerURL && b.Broker != address {
			continue
		}
		key, err := s.keys.EnsureNostr(keys.Bridge)
		if err != nil {
			return err
		}
		opts.Bridges = append(opts.Bridges, mqttbridge.BrokerBridge{Key: key.PublicKey(), Recipients: config.Hex(b.Recipients)})
	}
	s.broker, err = mqttbridge.NewBroker(opts)
	if err != nil {
		return err
	}
	s.services = append(s.services, s.broker)
	s.logger.Info("broker", "listen", listener.Addr().String(), "address", address)
	return nil
}

// brokerInside is how the parts of this server name its broker.
func brokerInside(listen string) string {
	_, port, _ := net.SplitHostPort(listen)
	return "mqtt://" + net.JoinHostPort("127.0.0.1", port)
}

// inbox is the one of a key at the own broker, which it reaches without leaving the
// process.
func (s *server) inbox(pubkey string) mqttbridge.Inbox {
	return mqttbridge.Inbox{Address: s.brokerURL + "/" + mqttbridge.InboxTopic(pubkey), Dial: s.broker.Dial}
}
