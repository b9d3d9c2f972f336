package agent

import (
	"context"
	"fmt"
	"slices"

	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/carrier/https"
	"github.com/parleykit/parley/carrier/nostr"
	"github.com/parleykit/parley/internal/egress"
	"github.com/parleykit/parley/mqttbridge"
	"github.com/parleykit/parley/ntfybridge"
	"github.com/parleykit/parley/protocol/canonical"
	"github.com/parleykit/parley/protocol/card"
)

// newCarriers makes the carriers of a link. Before a server is pinned there are none:
// without a relay nobody's card can be read.
func (a *Agent) newCarriers(ctx context.Context, l *link) (list []carrier.Carrier, err error) {
	if l.own, err = a.ownCarriers(ctx, l.servers, a.key.PublicKey()); err != nil {
		return nil, err
	}
	relays := relaysOf(l.servers)
	if len(relays) == 0 {
		return nil, nil
	}
	dialer, err := a.dial(a.dialable(l.chosen()))
	if err != nil {
		return nil, err
	}
	l.relays, err = nostr.New(nostr.Options{
		Relays: relays, Signer: a.key, Dialer: dialer, Now: a.opts.Now, Logger: a.opts.Logger, Registerer: l.registry,
	})
	if err != nil {
		return nil, fmt.Errorf("preparing the relay client: %w", err)
	}
	if err := a.newMailbox(ctx, l, dialer); err != nil {
		return nil, err
	}
	if err := a.newBrokers(ctx, l, dialer); err != nil {
		return nil, err
	}
	if err := a.newNtfy(l, dialer); err != nil {
		return nil, err
	}
	return []carrier.Carrier{
		plainCarrier{l.relays, l.relays},
		plainCarrier{l.mailbox, l.mailbox},
		plainCarrier{l.brokers, l.brokers},
		plainText{plainCarrier{l.ntfy, l.ntfy}, l.ntfy},
	}, nil
}

// chosen are the addresses that the owner chose: servers, and what was added.
func (l *link) chosen() []string {
	list := ownAddresses(l.servers)
	for _, c := range l.own {
		if c.Scheme == nostr.Scheme || c.Server != "" && !sameMachine(hostPort(c.Server), hostPort(c.Address)) {
			continue // named by a server, at another machine than its own
		}
		list = append(list, c.Address)
	}
	return list
}

// dialable leaves out what cannot be dialed: one address of no use, such as in a
// server's document, costs no other one.
func (a *Agent) dialable(addresses []string) []string {
	return slices.DeleteFunc(addresses, func(address string) bool {
		_, err := egress.ParseAllow(hostPort(address))
		if err != nil {
			a.log.Warn("an address is not used", "address", address, "err", err)
		}
		return err != nil
	})
}

func (l *link) ofScheme(scheme string) []OwnCarrier {
	return slices.DeleteFunc(slices.Clone(l.own), func(c OwnCarrier) bool { return c.Scheme != scheme })
}

func (a *Agent) newMailbox(ctx context.Context, l *link, dialer *egress.Dialer) (err error) {
	opts := https.Options{Signer: a.key, Dialer: dialer, DB: a.db, Now: a.opts.Now, Logger: a.opts.Logger, Registerer: l.registry}
	for _, c := range l.ofScheme(https.Scheme) {
		origin := originOf(c.Address)
		if c.Address == origin+https.EnvelopesPath && len(opts.Inboxes) < https.MaxInboxes {
			opts.Inboxes = append(opts.Inboxes, origin)
		}
	}
	if l.mailbox, err = https.New(ctx, opts); err != nil {
		return fmt.Errorf("preparing mailboxes: %w", err)
	}
	return nil
}

func (a *Agent) newBrokers(ctx context.Context, l *link, dialer *egress.Dialer) (err error) {
	secret, err := a.topicSecret(ctx) // one for each home, also of one key at one path of two machines
	if err != nil {
		return err
	}
	opts := mqttbridge.Options{
		Signer: a.key, Dialer: dialer, Instance: canonical.Digest(append([]byte("mqtt instance "), secret...)), Now: a.opts.Now, Logger: a.opts.Logger, Registerer: l.registry,
	}
	for _, c := range l.ofScheme(mqttbridge.Scheme) {
		inbox := mqttbridge.Inbox{Address: c.Address, Credential: mqttbridge.Credential{Username: c.Username, PasswordFile: c.PasswordFile}}
		if inbox.Credential.TLS, err = mqttbridge.LoadTLS(c.CAFile, c.CertFile, c.KeyFile); err != nil {
			a.log.Warn("a broker is not used", "address", c.Address, "err", err)
			continue
		}
		if len(opts.Inboxes) < mqttbridge.MaxInboxes {
			opts.Inboxes = append(opts.Inboxes, inbox)
		}
	}
	if l.brokers, err = mqttbridge.New(opts); err != nil {
		return fmt.Errorf("preparing brokers: %w", err)
	}
	return nil
}

// newNtfy makes the carrier without topics; listenToTopics names them.
func (a *Agent) newNtfy(l *link, dialer *egress.Dialer) (err error) {
	opts := ntfybridge.Options{
		Tokens: map[string]ntfybridge.Credential{}, Dialer: dialer, Woken: a.woken,
		Now: a.opts.Now, Logger: a.opts.Logger, Registerer: l.registry,
	}
	for _, c := range l.ofScheme(ntfybridge.Scheme) {
		opts.Tokens[c.Address] = ntfybridge.Credential{TokenFile: c.TokenFile, Username: c.Username, PasswordFile: c.PasswordFile}
	}
	if l.ntfy, err = ntfybridge.New(opts); err != nil {
		return fmt.Errorf("preparing ntfy: %w", err)
	}
	return nil
}

// woken reads relays and mailboxes once more: somebody says that something waits
// there. Brokers say so themselves.
func (a *Agent) woken() {
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
		defer cancel()
		l, err := a.online()
		if err != nil {
			return
		}
		if err := l.engine.Poll(ctx, nostr.Scheme, https.Scheme); err != nil {
			a.log.InfoContext(ctx, "reading the relays after a wake-up", "err", err)
		}
	}()
}

// introduceSoon is introduce where a failure ends nothing: it is tried again within
// the hour.
func (a *Agent) introduceSoon(ctx context.Context) {
	if err := a.introduce(ctx); err != nil && ctx.Err() == nil {
		a.log.WarnContext(ctx, "telling contacts the own addresses", "err", err)
	}
}

// cardNamesOthers reports whether the own card names other carriers than there are.
func (a *Agent) cardNamesOthers(ctx context.Context, own *Card) (bool, error) {
	l, err := a.current()
	if err != nil || l.relays == nil {
		return false, err
	}
	wanted, err := a.cardCarriers(ctx, l.own)
	if err != nil {
		return false, err
	}
	return !slices.EqualFunc(wanted, own.Carriers, func(x card.Carrier, y CardCarrier) bool { return CardCarrier(x) == y }), nil
}
