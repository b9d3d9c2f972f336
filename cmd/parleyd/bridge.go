package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/parleykit/parley/carrier/bridge"
	carriernostr "github.com/parleykit/parley/carrier/nostr"
	"github.com/parleykit/parley/internal/config"
	"github.com/parleykit/parley/internal/keys"
	"github.com/parleykit/parley/mqttbridge"
	"github.com/parleykit/parley/ntfybridge"
	"github.com/parleykit/parley/protocol/card"
	"github.com/parleykit/parley/protocol/envelope"
	"github.com/parleykit/parley/relay"
)

// addBridges runs the bridges between relays and brokers or ntfy servers.
func (s *server) addBridges(ctx context.Context) error {
	if len(s.cfg.MQTT.Bridges)+len(s.cfg.Ntfy.Bridges) == 0 {
		return nil
	}
	key, err := s.keys.EnsureNostr(keys.Bridge)
	if err != nil {
		return err
	}
	client, err := carriernostr.NewClient(carriernostr.ClientOptions{Dialer: s.dialer, Signer: key, Logger: s.logger})
	if err != nil {
		return err
	}
	s.closers = append(s.closers, func() error { client.Close(); return nil })
	for _, b := range s.cfg.MQTT.Bridges {
		if err := s.addMQTTBridge(ctx, key, client, b); err != nil {
			return fmt.Errorf("mqttbridge.bridges: %s: %w", b.Name, err)
		}
	}
	for _, b := range s.cfg.Ntfy.Bridges {
		if err := s.addNtfyBridge(ctx, client, b); err != nil {
			return fmt.Errorf("ntfybridge.bridges: %s: %w", b.Name, err)
		}
	}
	s.logger.Info("bridges", "key", key.NPub())
	return nil
}

// relayOf is a configured relay, or the own one.
func (s *server) relayOf(configured string) string {
	if configured != "" {
		return configured
	}
	return s.http.Origin().WebSocket() + "/"
}

func (s *server) addMQTTBridge(ctx context.Context, key *keys.Nostr, client *carriernostr.Client, b config.MQTTBridge) error {
	broker, err := mqttbridge.ParseBroker(b.Broker)
	if err != nil {
		return err
	}
	kinds := b.Kinds
	if len(kinds) == 0 {
		kinds = []int{envelope.KindWrap, card.Kind}
	}
	options := mqttbridge.SideOptions{
		Broker: broker, Signer: key, Dialer: s.dialer, Recipients: config.Hex(b.Recipients), Cards: true,
		Credential: mqttbridge.Credential{Username: b.Username, PasswordFile: b.PasswordFile},
		Instance:   instance(s.cfg.Data) + b.Name, Logger: s.logger, Registerer: s.http.Registry(),
	}
	if options.Credential.TLS, err = mqttbridge.LoadTLS(b.CAFile, b.CertFile, b.KeyFile); err != nil {
		return err
	}
	if s.broker != nil && (broker == s.brokerURL || broker == s.cfg.BrokerAddress(s.http.Origin(), s.broker.Addr().String())) {
		options.Dial = s.broker.Dial
	}
	other, err := mqttbridge.NewSide(options)
	if err != nil {
		return err
	}
	s.closers = append(s.closers, func() error { other.Close(); return nil })
	side, err := bridge.NewRelay(bridge.RelayOptions{
		URL: s.relayOf(b.Relay), Client: client, Scheme: mqttbridge.Scheme, Recipients: config.Hex(b.Recipients), Cards: true,
		Serves: func(address string) bool {
			at, err := mqttbridge.ParseAddress(address)
			return err == nil && at.Broker == broker
		},
		Logger: s.logger,
	})
	if err != nil {
		return err
	}
	return s.addBridge(ctx, "mqtt-"+b.Name, side, other, kinds, b.Recipients)
}

func (s *server) addNtfyBridge(ctx context.Context, client *carriernostr.Client, b config.NtfyBridge) error {
	origin, err := ntfybridge.ParseOrigin(b.Server)
	if err != nil {
		return err
	}
	recipients := b.Recipients
	options := ntfybridge.SideOptions{
		Recipients: map[string]string{}, Tokens: map[string]ntfybridge.Credential{}, Dialer: s.dialer,
		Logger: s.logger, Registerer: s.http.Registry(),
	}
	if b.TokenFile != "" {
		if _, err := os.Stat(b.TokenFile); err != nil {
			return fmt.Errorf("token_file: %w", err)
		}
		options.Tokens[origin] = ntfybridge.Credential{TokenFile: b.TokenFile}
	}
	for _, t := range b.Topics {
		address := origin + "/" + t.Topic
		options.Recipients[string(t.Recipient)] = address
		options.Topics = append(options.Topics, address)
		if len(recipients) > 0 {
			recipients = append(recipients, t.Recipient)
		}
	}
	side, err := bridge.NewRelay(bridge.RelayOptions{
		URL: s.relayOf(b.Relay), Client: client, Scheme: ntfybridge.Scheme, Recipients: config.Hex(recipients),
		Serves: func(address string) bool { return strings.HasPrefix(address, origin+"/") }, Logger: s.logger,
	})
	if err != nil {
		return err
	}
	options.Target = side.Target
	other, err := ntfybridge.NewSide(options)
	if err != nil {
		return err
	}
	s.closers = append(s.closers, func() error { other.Close(); return nil })
	return s.addBridge(ctx, "ntfy-"+b.Name, side, other, []int{envelope.KindWrap}, recipients)
}

func (s *server) addBridge(ctx context.Context, name string, a, b bridge.Side, kinds []int, recipients []config.PublicKey) error {
	one, err := bridge.New(ctx, bridge.Options{
		DB: s.db, Name: name, A: a, B: b, Kinds: kinds, Recipients: config.Hex(recipients),
		Holder: instance(s.cfg.Data), Logger: s.logger, Registerer: s.http.Registry(),
	})
	if err != nil {
		return err
	}
	s.services = append(s.services, one)
	return nil
}

// ownBridges are the rights that this server's bridges have at its own relay.
func (s *server) ownBridges(cfg *config.Config) ([]relay.Bridge, error) {
	var list []relay.Bridge
	add := func(at, scheme string, recipients []config.PublicKey) error {
		if at != "" {
			return nil
		}
		key, err := s.keys.EnsureNostr(keys.Bridge)
		if err == nil {
			list = append(list, relay.Bridge{Key: key.PublicKey(), Scheme: scheme, Recipients: config.Hex(recipients)})
		}
		return err
	}
	for _, b := range cfg.MQTT.Bridges {
		if err := add(b.Relay, mqttbridge.Scheme, b.Recipients); err != nil {
			return nil, err
		}
	}
	for _, b := range cfg.Ntfy.Bridges {
		recipients := b.Recipients
		for _, t := range b.Topics {
			if len(recipients) > 0 {
				recipients = append(recipients, t.Recipient)
			}
		}
		if err := add(b.Relay, ntfybridge.Scheme, recipients); err != nil {
			return nil, err
		}
	}
	return list, nil
}
