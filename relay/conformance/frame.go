package conformance

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/coder/websocket"
	"github.com/nbd-wtf/go-nostr"
)

// frameChecks are about messages no proper client sends. Each is survived:
// the connection goes on or is closed, and others can connect.
var frameChecks = []Check{
	hostile("frame.text-that-is-not-json", "a message that is not JSON does no harm", `this is not json`),
	hostile("frame.empty-message", "an empty message does no harm", ``),
	hostile("frame.object-instead-of-array", "an object instead of an array does no harm", `{"EVENT":1}`),
	hostile("frame.empty-array", "an empty array does no harm", `[]`),
	hostile("frame.null-label", "a label that is no string does no harm", `[null,"x",{}]`),
	hostile("frame.unknown-label", "an unknown message does no harm", `["PARLEY-CHECK","x",{}]`),
	hostile("frame.event-without-event", "an EVENT without an event does no harm", `["EVENT"]`),
	hostile("frame.event-that-is-a-string", "an EVENT with a string does no harm", `["EVENT","x"]`),
	hostile("frame.req-with-number-as-id", "a REQ whose id is a number does no harm", `["REQ",1,{}]`),
	hostile("frame.close-without-id", "a CLOSE without an id does no harm", `["CLOSE"]`),
	hostile("frame.auth-with-text", "an AUTH with a string does no harm", `["AUTH","x"]`),
	hostile("frame.deep-nesting", "a message nested 50,000 deep does no harm", strings.Repeat("[", 50_000)),
	hostile("frame.half-a-message", "a message that ends early does no harm", `["EVENT",{"id":"`),
	required("frame.invalid-utf8", 1, "a text message that is not UTF-8 does no harm", func(t *trial) {
		t.survives(func(c *client) { _ = c.write(websocket.MessageText, []byte("[\"REQ\",\"\xff\xfe\",{}]")) })
	}),
	required("frame.binary-message", 1, "a binary message does no harm", func(t *trial) {
		t.survives(func(c *client) { _ = c.write(websocket.MessageBinary, []byte{0, 1, 2, 255}) })
	}),
	optional("frame.mistakes-are-answered", 1, "a message that cannot be read is answered with NOTICE, or the connection is closed", func(t *trial) {
		c := t.dial()
		c.sendRaw(`not json`)
		c.answer(func(m *message) bool { return m.label == "NOTICE" })
	}),
	required("frame.req-without-filter", 1, "a REQ without a filter is not answered with events", func(t *trial) {
		c := t.dial()
		c.accept(t.profile(t.key(), nostr.Now()))
		c.sendRaw(`["REQ","none"]`)
		t.survives(func(*client) {})
		if n := len(c.take(labelled("EVENT", "none"))); n > 0 {
			t.failf("%d events came", n)
		}
	}),
	required("frame.fragments-are-joined", 1, "an EVENT in three WebSocket fragments is read as one", func(t *trial) {
		c, ev := t.dial(), t.profile(t.key(), nostr.Now())
		data, _ := json.Marshal([]any{"EVENT", ev})
		w, err := c.conn.Writer(t.ctx, websocket.MessageText)
		for _, part := range [][]byte{data[:40], data[40:200], data[200:]} {
			if err == nil {
				_, err = w.Write(part)
			}
		}
		if err == nil {
			err = w.Close()
		}
		if err != nil {
			t.failf("writing fragments: %v", err)
		}
		c.taken(ev)
	}),
	required("frame.white-space-is-allowed", 1, "JSON white space between the parts of a message makes no difference", func(t *trial) {
		c, ev := t.dial(), t.profile(t.key(), nostr.Now())
		data, _ := json.MarshalIndent([]any{"EVENT", ev}, "\t", "  ")
		c.sendRaw("\r\n " + string(data) + "\n")
		c.taken(ev)
	}),
	required("frame.escapes-are-read", 1, "JSON escapes in a label and in keys make no difference", func(t *trial) {
		c, ev := t.dial(), t.profile(t.key(), nostr.Now())
		text := strings.Replace(ev.String(), `"kind"`, `"\u006bind"`, 1)
		c.sendRaw(`["\u0045VENT",` + text + `]`)
		c.taken(ev)
	}),
	required("frame.ping-is-answered", 1, "a WebSocket ping is answered", func(t *trial) {
		ctx, cancel := context.WithTimeout(t.ctx, t.options.Timeout)
		defer cancel()
		if err := t.dial().conn.Ping(ctx); err != nil {
			t.failf("no pong: %v", err)
		}
	}),
	required("frame.bad-clients-leave-others-alone", 1, "what a bad client sends does not reach the subscription of another", func(t *trial) {
		good, by := t.dial(), t.dial()
		good.open("s", t.all())
		for _, text := range []string{`nonsense`, `["REQ","s"]`, `["CLOSE","s"]`, `["EVENT",{}]`} {
			bad := t.dial()
			_ = bad.write(websocket.MessageText, []byte(text))
			_ = bad.conn.CloseNow()
		}
		good.silent("something nobody published", "s", by)
	}),
	required("frame.messages-are-well-formed", 1, "every message of the relay has the form of its NIP", func(t *trial) {
		c, k := t.dial(), t.key()
		ev := t.profile(k, nostr.Now())
		c.accept(ev)
		c.publish(ev)
		bad := ev
		bad.Content += "x"
		c.publish(bad)
		c.open("s", t.all())
		c.send("CLOSE", "s")
		c.sendRaw(`["REQ","refused",{"ids":["x"]}]`)
		c.sync()
		if odd := c.take(func(m *message) bool { return m.label == "" }); len(odd) > 0 {
			t.failf("the relay sent %s", odd[0])
		}
	}),
}

func hostile(name, property, text string) Check {
	return required(name, 1, property, func(t *trial) {
		t.survives(func(c *client) { _ = c.write(websocket.MessageText, []byte(text)) })
	})
}

// survives demands that after what harm does the relay answers those who were
// there, and those who come; the harmful connection may be closed.
func (t *trial) survives(harm func(c *client)) {
	witness, c := t.dial(), t.dial()
	harm(c)
	// The relay has read it once it answers what follows, or closes.
	_ = c.write(websocket.MessageText, []byte(`["REQ","after",{"ids":["`+randomHex(32)+`"]}]`))
	c.answer(ending("after"))
	witness.sync()
	t.dial().sync()
}

// taken demands the OK true of an event that was sent by hand.
func (c *client) taken(ev nostr.Event) {
	ok := c.wait("OK", labelled("OK", ev.ID))
	if !ok.ok && refusedByPolicy(ok.text) {
		c.t.skipf("the relay does not take events of kind %d from here: %s", ev.Kind, ok.text)
	}
	if !ok.ok {
		c.t.failf("the event was refused: %s", ok.text)
	}
}
