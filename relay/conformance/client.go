package conformance

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"
	"github.com/nbd-wtf/go-nostr"
)

const (
	maxMessage = 4 << 20 // bytes of one message of the relay
	maxInbox   = 20_000  // messages held for one connection
)

// message is one message of the relay (NIP-01, 42, 45, 77).
type message struct {
	label string
	id    string // subscription, or event of an OK
	ok    bool
	text  string // of OK, CLOSED, NOTICE, AUTH, NEG-MSG and NEG-ERR
	event *nostr.Event
	count *int
	raw   string // the whole message
}

func (m *message) String() string {
	return cut(strings.TrimSpace(m.raw))
}

// parse reads a message strictly: what has another form has no label.
func parse(data []byte) *message {
	m := &message{raw: string(data)}
	var parts []json.RawMessage
	if json.Unmarshal(data, &parts) != nil || len(parts) == 0 || json.Unmarshal(parts[0], &m.label) != nil {
		return &message{raw: m.raw}
	}
	into := map[string][]any{
		"EVENT": {&m.id, &m.event}, "OK": {&m.id, &m.ok, &m.text}, "EOSE": {&m.id}, "CLOSED": {&m.id, &m.text},
		"NOTICE": {&m.text}, "AUTH": {&m.text}, "NEG-MSG": {&m.id, &m.text}, "NEG-ERR": {&m.id, &m.text},
	}[m.label]
	if m.label == "COUNT" {
		var body struct {
			Count *int `json:"count"`
		}
		if len(parts) != 3 || json.Unmarshal(parts[1], &m.id) != nil || json.Unmarshal(parts[2], &body) != nil || body.Count == nil {
			return &message{raw: m.raw}
		}
		m.count = body.Count
		return m
	}
	if into == nil || len(parts) != len(into)+1 {
		return &message{raw: m.raw}
	}
	for i, v := range into {
		if json.Unmarshal(parts[i+1], v) != nil {
			return &message{raw: m.raw}
		}
	}
	if m.label == "EVENT" && m.event == nil {
		return &message{raw: m.raw}
	}
	return m
}

// client is one raw connection. Its reader keeps all that comes until a check
// asks for it, in any order.
type client struct {
	t    *trial
	conn *websocket.Conn

	mu        sync.Mutex
	inbox     []*message
	challenge string
	ended     error
	news      chan struct{} // something of the above changed
}

var errFlood = errors.New("the relay sent more messages than are held")

func (c *client) read() {
	for {
		_, data, err := c.conn.Read(c.t.ctx)
		c.mu.Lock()
		if err == nil && len(c.inbox) >= maxInbox {
			err = errFlood
		}
		if err != nil {
			c.ended = err
		} else {
			m := parse(data)
			if m.label == "AUTH" {
				c.challenge = m.text
			}
			c.inbox = append(c.inbox, m)
		}
		c.mu.Unlock()
		select {
		case c.news <- struct{}{}:
		default:
		}
		if err != nil {
			return
		}
	}
}

// send sends one message of these parts.
func (c *client) send(parts ...any) {
	data, err := json.Marshal(parts)
	if err != nil {
		c.t.failf("the check cannot write its message: %v", err)
	}
	c.sendRaw(string(data))
}

// sendRaw sends a text message.
func (c *client) sendRaw(text string) {
	if err := c.write(websocket.MessageText, []byte(text)); err != nil {
		c.t.failf("the connection ended before a message was sent: %v", c.reason(err))
	}
}

func (c *client) write(kind websocket.MessageType, data []byte) error {
	return c.conn.Write(c.t.ctx, kind, data)
}

// reason prefers what the reader saw, the relay's own close, to a broken pipe.
func (c *client) reason(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended != nil {
		return c.ended
	}
	return err
}

// errNoAnswer says that Options.Timeout went by.
var errNoAnswer = errors.New("no answer came in time")

// await takes the first message that matches, from those that came and those
// that will come in time.
func (c *client) await(match func(*message) bool) (*message, error) {
	patience := time.NewTimer(c.t.options.Timeout)
	defer patience.Stop()
	for {
		c.mu.Lock()
		if i := slices.IndexFunc(c.inbox, match); i >= 0 {
			m := c.inbox[i]
			c.inbox = slices.Delete(c.inbox, i, i+1)
			c.mu.Unlock()
			return m, nil
		}
		ended := c.ended
		c.mu.Unlock()
		if c.t.ctx.Err() != nil {
			c.t.inconclusivef("the check took too long")
		}
		if ended != nil {
			return nil, fmt.Errorf("the connection ended: %w", ended)
		}
		select {
		case <-c.news:
		case <-c.t.ctx.Done():
		case <-patience.C:
			return nil, errNoAnswer
		}
	}
}

// wait is await for what must come.
func (c *client) wait(what string, match func(*message) bool) *message {
	m, err := c.await(match)
	if errors.Is(err, errNoAnswer) {
		c.t.failf("no %s came in time", what)
	}
	if err != nil {
		c.t.failf("waiting for %s: %v", what, err)
	}
	return m
}

// answer waits for an answer of any kind: a message that matches, or nil when
// the relay closed the connection.
func (c *client) answer(match func(*message) bool) *message {
	m, err := c.await(match)
	if errors.Is(err, errNoAnswer) {
		c.t.failf("no answer came in time")
	}
	return m
}

// take takes all messages that came and match.
func (c *client) take(match func(*message) bool) (taken []*message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inbox = slices.DeleteFunc(c.inbox, func(m *message) bool {
		if match(m) {
			taken = append(taken, m)
			return true
		}
		return false
	})
	return taken
}

// labelled matches a message of this label for this id.
func labelled(label, id string) func(*message) bool {
	return func(m *message) bool { return m.label == label && m.id == id }
}

// ending matches the end of the stored events of a subscription.
func ending(id string) func(*message) bool {
	return func(m *message) bool { return (m.label == "EOSE" || m.label == "CLOSED") && m.id == id }
}
