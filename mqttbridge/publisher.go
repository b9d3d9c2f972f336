package mqttbridge

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/internal/keys"
)

// maxPublishers bounds the connections that are kept for sending.
const maxPublishers = 64

// publication is one message to a broker.
type publication struct {
	topic    string
	payload  []byte
	retained bool
}

// publishers are the connections for sending, one for each broker.
type publishers struct {
	opts    *Options
	metrics *metrics

	mu     sync.Mutex
	closed bool
	all    map[string]*publisher
	own    map[string]Inbox // brokers that are listened to, by address
	signer Signer           // logs in to those of own; nil is a key that is thrown away
	nobody map[string]bool  // brokers that want no login by key
}

// publisher is one connection for sending, made when it is needed.
type publisher struct {
	window chan struct{} // a slot for each publish that is not acknowledged

	mu    sync.Mutex // held while connecting
	conn  mqttConn   // nil before the first and after the last
	users int        // guarded by publishers.mu
	idle  *time.Timer
}

func newPublishers(opts *Options, m *metrics) *publishers {
	return &publishers{opts: opts, metrics: m, all: map[string]*publisher{}, own: map[string]Inbox{}, nobody: map[string]bool{}}
}

// configure names a broker that the owner configured.
func (p *publishers) configure(broker string, inbox Inbox) { p.own[broker] = inbox }

var errClosed = fmt.Errorf("%w: mqtt: the carrier is closed", carrier.ErrTransient)

// publish gives one message to a broker and waits for its acknowledgement.
func (p *publishers) publish(ctx context.Context, broker string, m publication) error {
	one, err := p.enter(broker)
	if err != nil {
		return err
	}
	defer p.leave(broker, one)
	err = p.publishIn(ctx, broker, one, m)
	p.metrics.published.WithLabelValues(publishResult(err)).Inc()
	return err
}

// publishIn publishes within the window of a connection.
func (p *publishers) publishIn(ctx context.Context, broker string, one *publisher, m publication) error {
	select {
	case one.window <- struct{}{}:
		defer func() { <-one.window }()
	case <-ctx.Done():
		return fmt.Errorf("%w: mqtt: too many publishes wait for this broker: %w", carrier.ErrTransient, context.Cause(ctx))
	}
	conn, err := p.connected(ctx, broker, one)
	if err != nil {
		return err
	}
	err = conn.publish(ctx, m.topic, m.retained, m.payload)
	if err != nil { // the library keeps the message until it is acknowledged, so neither must live on
		conn.abort()
	}
	return err
}

// enter finds the broker's publisher and keeps it from being closed.
func (p *publishers) enter(broker string) (*publisher, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, errClosed
	}
	one := p.all[broker]
	if one == nil {
		if len(p.all) >= maxPublishers && !p.evict() {
			return nil, fmt.Errorf("%w: mqtt: %d brokers are in use", carrier.ErrTransient, maxPublishers)
		}
		one = &publisher{window: make(chan struct{}, p.opts.Window)}
		p.all[broker] = one
	}
	one.users++
	if one.idle != nil {
		one.idle.Stop()
		one.idle = nil
	}
	return one, nil
}

// leave starts the time after which an unused connection is closed.
func (p *publishers) leave(broker string, one *publisher) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if one.users--; one.users > 0 || p.closed {
		return
	}
	one.idle = time.AfterFunc(p.opts.IdleTimeout, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if one.users == 0 && p.all[broker] == one {
			p.drop(broker, one)
		}
	})
}

// evict closes a connection that nobody uses; the caller holds mu.
func (p *publishers) evict() bool {
	for broker, one := range p.all {
		if one.users == 0 {
			p.drop(broker, one)
			return true
		}
	}
	return false
}

// drop forgets a publisher; the caller holds mu, and nobody uses it.
func (p *publishers) drop(broker string, one *publisher) {
	delete(p.all, broker)
	if one.idle != nil {
		one.idle.Stop()
	}
	if one.conn != nil {
		go one.conn.close()
	}
}

func (p *publishers) close() {
	p.mu.Lock()
	p.closed = true
	var open []*publisher
	for broker, one := range p.all {
		open = append(open, one)
		delete(p.all, broker)
	}
	p.mu.Unlock()
	for _, one := range open {
		one.mu.Lock()
		if one.conn != nil {
			one.conn.close()
		}
		one.mu.Unlock()
	}
}

// connected is the open connection, made now if need be.
func (p *publishers) connected(ctx context.Context, broker string, one *publisher) (mqttConn, error) {
	one.mu.Lock()
	defer one.mu.Unlock()
	if one.conn != nil {
		select {
		case <-one.conn.lost():
			one.conn = nil
		default:
			return one.conn, nil
		}
	}
	conn, err := p.connect(ctx, broker)
	p.metrics.dials.WithLabelValues(rolePublisher, dialResult(err)).Inc()
	if err != nil {
		return nil, err
	}
	p.metrics.connections.WithLabelValues(rolePublisher).Inc()
	go func() {
		<-conn.lost()
		p.metrics.connections.WithLabelValues(rolePublisher).Dec()
	}()
	one.conn = conn
	return conn, nil
}

// connect logs in with the credential of a broker that was configured, else with a
// key made for this connection. A broker that wants nobody's key gets no login.
func (p *publishers) connect(ctx context.Context, broker string) (mqttConn, error) {
	inbox, own := p.own[broker]
	credential := inbox.Credential
	if !own {
		credential, own = p.opts.Credentials[hostPort(broker)]
	}
	c := connecting{
		broker: broker, clientID: "parley-" + rand.Text()[:16], clean: true, tls: credential.config(broker),
		dial: p.opts.Dialer.FromCard().DialContext, connectTimeout: p.opts.ConnectTimeout, keepAlive: p.opts.KeepAlive,
	}
	if own {
		c.dial = inbox.dialer(p.opts.Dialer)
	}
	if credential.Username != "" {
		var err error
		if c.password, err = credential.password(); err != nil {
			return nil, fmt.Errorf("%w: %w", carrier.ErrTransient, err)
		}
		c.username = credential.Username
		return dialPaho(ctx, c)
	}
	signer := p.signer
	if !own || signer == nil {
		key, err := keys.GenerateNostr()
		if err != nil {
			return nil, fmt.Errorf("%w: mqtt: %w", carrier.ErrTransient, err)
		}
		signer = key
	}
	return p.connectByKey(ctx, c, signer)
}

func (p *publishers) connectByKey(ctx context.Context, c connecting, key Signer) (mqttConn, error) {
	p.mu.Lock()
	nobody := p.nobody[c.broker]
	p.mu.Unlock()
	if nobody {
		return dialPaho(ctx, c)
	}
	anonymous := c
	var err error
	c.username = key.PublicKey()
	if c.password, err = loginPassword(key, c.broker, c.clientID, p.opts.Now()); err != nil {
		return nil, fmt.Errorf("%w: %w", carrier.ErrTransient, err)
	}
	conn, err := dialPaho(ctx, c)
	if !errors.Is(err, errLogin) {
		return conn, err
	}
	if conn, err = dialPaho(ctx, anonymous); err == nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		if len(p.nobody) < maxPublishers {
			p.nobody[c.broker] = true
		}
	}
	return conn, err
}

func dialResult(err error) string {
	switch {
	case err == nil:
		return dialOK
	case errors.Is(err, carrier.ErrPermanent):
		return dialRefused
	}
	return dialFailed
}

func publishResult(err error) string {
	if err == nil {
		return publishAcknowledged
	}
	return publishFailed
}
