package relay_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/nbd-wtf/go-nostr"

	"github.com/parleykit/parley/relay"
	"github.com/parleykit/parley/relay/relaytest"
)

// patience is how long a test waits for what must come.
const patience = 20 * time.Second

// client is one raw connection to a relay.
type client struct {
	t         *testing.T
	conn      *websocket.Conn
	url       string
	challenge string
}

// reply is one message of the relay.
type reply struct {
	label string
	id    string // event or subscription
	ok    bool
	text  string
	event *nostr.Event
	raw   json.RawMessage // of event or count
}

func (r reply) String() string {
	id := r.id
	if r.event != nil {
		id += " " + r.event.ID
	}
	return fmt.Sprintf("%s %s %v %s", r.label, id, r.ok, r.text)
}

func dial(t *testing.T, s *relaytest.Server) *client { return dialURL(t, s.URL) }

func dialURL(t *testing.T, url string) *client {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	conn, _, err := websocket.Dial(ctx, url, nil)
	if err != nil {
		t.Fatalf("dialling the relay: %v", err)
	}
	conn.SetReadLimit(1 << 20)
	t.Cleanup(func() { conn.CloseNow() })
	c := &client{t: t, conn: conn, url: url}
	auth := c.next()
	if auth.label != "AUTH" || len(auth.text) != 64 {
		t.Fatalf("first message is %v, want AUTH with 32 bytes in hex", auth)
	}
	c.challenge = auth.text
	return c
}

func (c *client) sendRaw(data string) {
	c.t.Helper()
	if err := c.write(data); err != nil {
		c.t.Fatalf("sending: %v", err)
	}
}

func (c *client) write(data string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return c.conn.Write(ctx, websocket.MessageText, []byte(data))
}

func (c *client) send(parts ...any) {
	c.t.Helper()
	data, err := json.Marshal(parts)
	if err != nil {
		c.t.Fatal(err)
	}
	c.sendRaw(string(data))
}

func (c *client) read() (reply, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, data, err := c.conn.Read(ctx)
	if err != nil {
		return reply{}, err
	}
	return parseReply(data)
}

func parseReply(data []byte) (reply, error) {
	var parts []json.RawMessage
	if err := json.Unmarshal(data, &parts); err != nil {
		return reply{}, fmt.Errorf("reading %q: %w", data, err)
	}
	var r reply
	into := func(i int, v any) error {
		if i >= len(parts) {
			return fmt.Errorf("message %s has no part %d", data, i)
		}
		return json.Unmarshal(parts[i], v)
	}
	err := into(0, &r.label)
	switch r.label {
	case "EVENT":
		err = errors.Join(err, into(1, &r.id), into(2, &r.event))
		r.raw = parts[2]
	case "OK":
		err = errors.Join(err, into(1, &r.id), into(2, &r.ok), into(3, &r.text))
	case "COUNT":
		err = errors.Join(err, into(1, &r.id), into(2, &r.raw))
	case "CLOSED", "NEG-MSG", "NEG-ERR":
		err = errors.Join(err, into(1, &r.id), into(2, &r.text))
	case "EOSE":
		err = errors.Join(err, into(1, &r.id))
	case "NOTICE", "AUTH":
		err = errors.Join(err, into(1, &r.text))
	default:
		err = fmt.Errorf("unknown message %s", data)
	}
	return r, err
}

func (c *client) next() reply {
	c.t.Helper()
	r, err := c.read()
	if err != nil {
		c.t.Fatalf("reading from the relay: %v", err)
	}
	return r
}

// publish sends the event and returns its OK.
func (c *client) publish(ev nostr.Event) reply {
	c.t.Helper()
	c.send("EVENT", ev)
	r := c.next()
	if r.label != "OK" || r.id != ev.ID {
		c.t.Fatalf("answer to EVENT %s is %v", ev.ID, r)
	}
	return r
}

// accept publishes and demands an OK true without a remark.
func (c *client) accept(ev nostr.Event) {
	c.t.Helper()
	if r := c.publish(ev); !r.ok || r.text != "" {
		c.t.Fatalf("event of kind %d: %v, want OK true", ev.Kind, r)
	}
}

// refuse publishes and demands an OK false whose text starts so.
func (c *client) refuse(ev nostr.Event, prefix string) {
	c.t.Helper()
	if r := c.publish(ev); r.ok || len(r.text) < len(prefix) || r.text[:len(prefix)] != prefix {
		c.t.Fatalf("event of kind %d: %v, want OK false %q", ev.Kind, r, prefix)
	}
}

// stored sends a REQ and returns the events before EOSE.
func (c *client) stored(filters ...nostr.Filter) []*nostr.Event {
	c.t.Helper()
	events, end := c.request("q", filters...)
	if end.label != "EOSE" {
		c.t.Fatalf("REQ ended with %v, want EOSE", end)
	}
	c.send("CLOSE", "q")
	return events
}

// request sends a REQ and returns the events before EOSE or CLOSED, and that.
func (c *client) request(id string, filters ...nostr.Filter) (events []*nostr.Event, end reply) {
	c.t.Helper()
	parts := []any{"REQ", id}
	for _, f := range filters {
		parts = append(parts, f)
	}
	c.send(parts...)
	for {
		r := c.next()
		if r.id != id {
			c.t.Fatalf("%v while waiting for the end of REQ %s", r, id)
		}
		if r.label != "EVENT" {
			return events, r
		}
		events = append(events, r.event)
	}
}

// silence shows that the relay has nothing more to say: the answer to a COUNT
// comes next.
func (c *client) silence() {
	c.t.Helper()
	c.send("COUNT", "silence", map[string]int{"limit": 0})
	if r := c.next(); r.label != "COUNT" || r.id != "silence" {
		c.t.Fatalf("got %v, want nothing", r)
	}
}

// authenticate proves the key and demands an OK true.
func (c *client) authenticate(k *key) {
	c.t.Helper()
	if r := c.auth(k, c.challenge, c.url, nostr.Now()); !r.ok {
		c.t.Fatalf("AUTH: %v", r)
	}
}

func (c *client) auth(k *key, challenge, url string, at nostr.Timestamp) reply {
	c.t.Helper()
	ev := k.event(22242, at, "", nostr.Tags{{"relay", url}, {"challenge", challenge}})
	c.send("AUTH", ev)
	r := c.next()
	if r.label != "OK" || r.id != ev.ID {
		c.t.Fatalf("answer to AUTH is %v", r)
	}
	return r
}

// key signs events.
type key struct{ secret, pub string }

func newKey(t testing.TB) *key {
	t.Helper()
	secret := nostr.GeneratePrivateKey()
	pub, err := nostr.GetPublicKey(secret)
	if err != nil {
		t.Fatal(err)
	}
	return &key{secret, pub}
}

func (k *key) event(kind int, at nostr.Timestamp, content string, tags nostr.Tags) nostr.Event {
	ev := nostr.Event{PubKey: k.pub, CreatedAt: at, Kind: kind, Tags: tags, Content: content}
	if ev.Tags == nil {
		ev.Tags = nostr.Tags{}
	}
	if err := ev.Sign(k.secret); err != nil {
		panic(err)
	}
	return ev
}

// card is a valid contact card.
func (k *key) card(d string, at nostr.Timestamp, more ...nostr.Tag) nostr.Event {
	tags := nostr.Tags{
		{"d", d},
		{"alt", "Contact card of a test agent"},
		{"expiration", fmt.Sprint(nostr.Now() + 86400)},
	}
	return k.event(30417, at, "", append(tags, more...))
}

// wrap is a gift wrap of a fresh key for the recipient.
func wrap(t testing.TB, recipient string, more ...nostr.Tag) nostr.Event {
	t.Helper()
	tags := nostr.Tags{{"p", recipient}, {"expiration", fmt.Sprint(nostr.Now() + 3600)}}
	return newKey(t).event(1059, nostr.Now()-100, "sealed", append(tags, more...))
}

// note is a small event without any rules: a profile.
func (k *key) note(at nostr.Timestamp, content string) nostr.Event {
	return k.event(0, at, content, nil)
}

func ids(events []*nostr.Event) []string {
	out := []string{}
	for _, ev := range events {
		out = append(out, ev.ID)
	}
	return out
}

func start(t *testing.T) *relaytest.Server {
	t.Helper()
	return relaytest.Start(t, relay.Options{})
}
