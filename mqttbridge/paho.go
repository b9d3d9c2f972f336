package mqttbridge

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"sync"
	"time"

	mqtt "github.com/eclipse/paho.mqtt.golang"
	"github.com/eclipse/paho.mqtt.golang/packets"

	"github.com/parleykit/parley/carrier"
)

const (
	protocol311  = 4
	qos          = 1
	writeTimeout = 15 * time.Second
	pingTimeout  = 10 * time.Second
	goodbye      = 250 // milliseconds until what was written must have left
)

var (
	errLost    = fmt.Errorf("%w: mqtt: the connection was lost", carrier.ErrTransient)
	errRefused = errors.New("the broker denies the subscription")
	errLogin   = errors.New("the broker refuses the login")
)

// pahoConn is an mqttConn of MQTT 3.1.1.
type pahoConn struct {
	client mqtt.Client
	gone   chan struct{}
	once   sync.Once

	mu  sync.Mutex
	raw net.Conn // nil before it is open
}

// dialPaho connects and logs in. errLogin, which is a carrier.ErrPermanent too, when
// the broker does not want this client.
func dialPaho(ctx context.Context, c connecting) (mqttConn, error) {
	p := &pahoConn{gone: make(chan struct{})}
	ctx, cancel := context.WithTimeout(ctx, c.connectTimeout)
	defer cancel()
	opts := mqtt.NewClientOptions().
		AddBroker(pahoScheme(c)).SetProtocolVersion(protocol311).
		SetClientID(c.clientID).SetUsername(c.username).SetPassword(c.password).
		SetCleanSession(c.clean).SetTLSConfig(c.tls).
		SetAutoReconnect(false).SetConnectRetry(false).SetOrderMatters(true).SetAutoAckDisabled(true).
		SetKeepAlive(c.keepAlive).SetPingTimeout(pingTimeout).SetWriteTimeout(writeTimeout).SetConnectTimeout(c.connectTimeout).
		SetConnectionLostHandler(func(mqtt.Client, error) { p.end() }).
		SetDefaultPublishHandler(func(_ mqtt.Client, m mqtt.Message) { c.take(m) })
	opts.SetCustomOpenConnectionFn(func(*url.URL, mqtt.ClientOptions) (net.Conn, error) { return p.open(ctx, c) })
	if c.will != nil {
		opts.SetWill(c.will.topic, c.will.payload, qos, true)
	}
	p.client = mqtt.NewClient(opts)
	if err := p.wait(ctx, p.client.Connect()); err != nil {
		p.abort()
		return nil, connectError(err)
	}
	return p, nil
}

// open connects, with TLS where the broker has it. The library's own way would
// neither end with ctx nor go through the egress rule.
func (p *pahoConn) open(ctx context.Context, c connecting) (net.Conn, error) {
	raw, err := c.dial(ctx, "tcp", hostPort(c.broker))
	if err == nil && c.tls != nil {
		raw, err = secure(ctx, raw, c.tls)
	}
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if ctx.Err() != nil { // nobody waits for it any more
		_ = raw.Close()
		return nil, context.Cause(ctx)
	}
	p.raw = raw
	return bounded(raw), nil
}

// pahoScheme is the broker as the library names it; only the connection function
// looks at it.
func pahoScheme(c connecting) string { return "tcp://" + hostPort(c.broker) }

func (c *connecting) take(m mqtt.Message) {
	if c.handle == nil {
		m.Ack()
		return
	}
	c.handle(arrived{m.Topic(), m.Payload(), m.Retained(), m.Qos() == 0, m.Ack})
}

// publish implements mqttConn. The library itself waits while the broker reads
// nothing, and has no notion of ctx.
func (p *pahoConn) publish(ctx context.Context, topic string, retained bool, payload []byte) error {
	begun := make(chan mqtt.Token, 1)
	go func() { begun <- p.client.Publish(topic, qos, retained, payload) }()
	var err error
	select {
	case token := <-begun:
		err = p.wait(ctx, token)
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-p.gone:
		err = errLost
	}
	if err != nil {
		return fmt.Errorf("%w: mqtt: publishing: %w", carrier.ErrTransient, err)
	}
	return nil
}

// subscribe implements mqttConn.
func (p *pahoConn) subscribe(ctx context.Context, filters []string) error {
	wanted := make(map[string]byte, len(filters))
	for _, f := range filters {
		wanted[f] = qos
	}
	token := p.client.SubscribeMultiple(wanted, nil)
	if err := p.wait(ctx, token); err != nil {
		return fmt.Errorf("%w: mqtt: subscribing: %w", carrier.ErrTransient, err)
	}
	for _, granted := range token.(*mqtt.SubscribeToken).Result() {
		if granted > qos {
			return fmt.Errorf("%w: mqtt: %w", carrier.ErrPermanent, errRefused)
		}
	}
	return nil
}

// wait ends with the token, with ctx, or with the connection: tokens of a lost one
// may never end by themselves.
func (p *pahoConn) wait(ctx context.Context, token mqtt.Token) error {
	select {
	case <-token.Done():
		return token.Error()
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-p.gone:
		return errLost
	}
}

// lost implements mqttConn.
func (p *pahoConn) lost() <-chan struct{} { return p.gone }

func (p *pahoConn) end() { p.once.Do(func() { close(p.gone) }) }

// close implements mqttConn.
func (p *pahoConn) close() {
	p.client.Disconnect(goodbye)
	p.abort()
}

// abort implements mqttConn.
func (p *pahoConn) abort() {
	p.end()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.raw != nil {
		_ = p.raw.Close()
	}
}

// connectError sorts why a connection was not made.
func connectError(err error) error {
	switch {
	case errors.Is(err, packets.ErrorRefusedBadUsernameOrPassword), errors.Is(err, packets.ErrorRefusedNotAuthorised), errors.Is(err, packets.ErrorRefusedIDRejected):
		return fmt.Errorf("%w: mqtt: %w", carrier.ErrPermanent, errLogin)
	case errors.Is(err, packets.ErrorRefusedBadProtocolVersion):
		return fmt.Errorf("%w: mqtt: the broker does not speak 3.1.1", carrier.ErrPermanent)
	}
	return dialError(err)
}
