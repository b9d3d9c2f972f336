package mqttbridge

import (
	"context"
	"crypto/tls"
	"net"
	"time"
)

// mqttConn is one connection to a broker. It is never made anew: once lost it
// stays so. A client of another version of MQTT is another implementation.
type mqttConn interface {
	// publish sends with QoS 1 and returns when the broker has acknowledged. An
	// error says nothing about whether the broker has got it.
	publish(ctx context.Context, topic string, retained bool, payload []byte) error
	// subscribe asks for filters with QoS 1, at most maxFilters of them; errRefused
	// when the broker denies one.
	subscribe(ctx context.Context, filters []string) error
	// lost is closed once the connection is over, however it ended.
	lost() <-chan struct{}
	// close ends the connection in order, so that the broker publishes no will.
	close()
	// abort ends the connection at once, whatever is under way.
	abort()
}

// arrived is one message from a broker. ack tells the broker that it need not send
// it again; it may be called from any goroutine.
type arrived struct {
	topic    string
	payload  []byte
	retained bool
	once     bool // QoS 0: it never comes again
	ack      func()
}

// connecting is what one connection needs.
type connecting struct {
	broker   string // mqtts://host:port
	clientID string
	username string
	password string
	tls      *tls.Config // nil for mqtt://
	clean    bool        // forget the session afterwards
	will     *will
	dial     func(ctx context.Context, network, address string) (net.Conn, error)
	handle   func(arrived) // called in the order of arrival; nil for who only publishes

	connectTimeout time.Duration
	keepAlive      time.Duration
}

// will is what the broker publishes, retained, when the connection is cut.
type will struct{ topic, payload string }
