package load

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/coder/websocket"
	"github.com/nbd-wtf/go-nostr"
)

const (
	maxMessage  = 1 << 20 // bytes of one message of the relay
	dialTimeout = 20 * time.Second
)

// errRefused says that the relay did not take an event or closed a subscription.
var errRefused = errors.New("refused")

// client is one connection. Only one goroutine uses it. It ends with the
// context it was dialled with.
type client struct {
	conn   *websocket.Conn
	url    string
	secret string // authenticates, "" for nobody
	buf    bytes.Buffer
	stop   func() bool
}

// dial connects. A receive buffer of zero bytes is the system's own.
func dial(ctx context.Context, url string, receive int) (*client, error) {
	dialing, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	var opts *websocket.DialOptions
	if receive > 0 {
		opts = &websocket.DialOptions{HTTPClient: narrow(receive)}
	}
	conn, _, err := websocket.Dial(dialing, url, opts)
	if err != nil {
		return nil, fmt.Errorf("reaching the relay: %w", err)
	}
	conn.SetReadLimit(maxMessage)
	return &client{conn: conn, url: url, stop: context.AfterFunc(ctx, func() { conn.CloseNow() })}, nil
}

// narrow is an HTTP client whose connections have small receive buffers.
func narrow(bytes int) *http.Client {
	return &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
			if tcp, ok := conn.(*net.TCPConn); ok {
				err = tcp.SetReadBuffer(bytes)
			}
			return conn, err
		},
	}}
}

func (c *client) close() {
	c.stop()
	c.conn.CloseNow()
}

// send writes one message. The connection is closed from outside when it takes
// too long, so no clock runs for each.
func (c *client) send(frame []byte) error {
	return c.conn.Write(context.Background(), websocket.MessageText, frame)
}

// receive reads one message, valid until the next call, and its label.
func (c *client) receive() (label string, data []byte, err error) {
	_, r, err := c.conn.Reader(context.Background())
	if err != nil {
		return "", nil, fmt.Errorf("reading from the relay: %w", err)
	}
	c.buf.Reset()
	if _, err := io.Copy(&c.buf, r); err != nil {
		return "", nil, fmt.Errorf("reading from the relay: %w", err)
	}
	data = c.buf.Bytes()
	parts := bytes.SplitN(data[:min(len(data), 24)], []byte{'"'}, 3)
	if len(parts) == 3 {
		label = string(parts[1])
	}
	return label, data, nil
}

// text returns the strings and flags of a short message.
func text(data []byte) (parts []any) {
	_ = json.Unmarshal(data, &parts)
	return parts
}

// publish sends one event and waits for its OK. The error wraps errRefused when
// the relay does not take it.
func (c *client) publish(ev signed) error {
	if err := c.send(ev.frame); err != nil {
		return err
	}
	for {
		label, data, err := c.receive()
		if err != nil {
			return err
		}
		if label == "OK" {
			return taken(data)
		}
	}
}

// taken reads an OK.
func taken(data []byte) error {
	parts := text(data)
	if len(parts) >= 3 && parts[2] == true {
		return nil
	}
	if len(parts) >= 4 {
		return fmt.Errorf("%w: %v", errRefused, parts[3])
	}
	return fmt.Errorf("%w: an OK that cannot be read", errRefused)
}

// ask opens the subscription and counts the events until EOSE.
func (c *client) ask(request []byte) (events int, err error) {
	challenge, asked := "", false
	if err := c.send(request); err != nil {
		return 0, err
	}
	for {
		label, data, err := c.receive()
		if err != nil {
			return events, err
		}
		switch label {
		case "EVENT":
			events++
		case "EOSE":
			return events, nil
		case "AUTH":
			if parts := text(data); len(parts) == 2 {
				challenge, _ = parts[1].(string)
			}
		case "CLOSED":
			if c.secret == "" || challenge == "" || asked {
				return events, fmt.Errorf("%w: %.200s", errRefused, data)
			}
			asked = true
			if err := c.authenticate(challenge); err != nil {
				return events, err
			}
			if err := c.send(request); err != nil {
				return events, err
			}
		}
	}
}

// authenticate proves the key of the connection (NIP-42).
func (c *client) authenticate(challenge string) error {
	ev := nostr.Event{
		Kind: nostr.KindClientAuthentication, CreatedAt: nostr.Now(),
		Tags: nostr.Tags{{"relay", c.url}, {"challenge", challenge}},
	}
	if err := ev.Sign(c.secret); err != nil {
		return fmt.Errorf("signing: %w", err)
	}
	if err := c.send([]byte(`["AUTH",` + ev.String() + `]`)); err != nil {
		return err
	}
	for {
		label, data, err := c.receive()
		if err != nil {
			return err
		}
		if label == "OK" {
			return taken(data)
		}
	}
}

// request is a REQ for one filter, given as JSON.
func request(id, filter string) []byte { return []byte(`["REQ","` + id + `",` + filter + `]`) }
