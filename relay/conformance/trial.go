package conformance

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"
	"github.com/nbd-wtf/go-nostr"
)

// remote is the relay under test.
type remote struct {
	url, http string // ws… and http… of the same place
	info      information
	options   Options
}

// trial is one run of one check. Like a test, the check leaves its goroutine
// with failf, skipf or inconclusivef, and passes when it returns.
type trial struct {
	*remote
	ctx     context.Context
	word    string // in a t tag of every event of this trial
	verdict Verdict
	detail  string

	mu    sync.Mutex
	conns []*websocket.Conn
	keys  []*key
	names int // of subscriptions
}

func newTrial(ctx context.Context, r *remote) *trial {
	return &trial{remote: r, ctx: ctx, word: "check" + randomHex(8)}
}

func randomHex(size int) string {
	b := make([]byte, size)
	rand.Read(b) //nolint:errcheck // It never fails (crypto/rand).
	return hex.EncodeToString(b)
}

// end closes the connections. A relay must not be able to break the run, so a
// panic of a check ends here.
func (t *trial) end() {
	if p := recover(); p != nil {
		t.verdict, t.detail = Inconclusive, fmt.Sprintf("the check itself broke: %v", p)
	}
	for _, conn := range t.conns {
		_ = conn.CloseNow()
	}
}

func (t *trial) leave(v Verdict, format string, args []any) {
	t.verdict, t.detail = v, fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// failf ends the check with a finding.
func (t *trial) failf(format string, args ...any) { t.leave(Fail, format, args) }

// skipf ends the check because the relay does not offer what it checks.
func (t *trial) skipf(format string, args ...any) { t.leave(Skip, format, args) }

func (t *trial) inconclusivef(format string, args ...any) { t.leave(Inconclusive, format, args) }

// retries bounds how often a relay that asks to slow down is asked again.
const retries = 4

// pause waits before another attempt, longer each time.
func (t *trial) pause(attempt int, text string) {
	if attempt >= retries {
		t.inconclusivef("the relay keeps asking to slow down: %s", text)
	}
	t.sleep(time.Second << attempt)
}

// sleep waits for what only time brings.
func (t *trial) sleep(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.ctx.Done():
		t.inconclusivef("the check took too long")
	}
}

// dial connects.
func (t *trial) dial() *client {
	c := &client{t: t, conn: t.connect(), news: make(chan struct{}, 1)}
	go c.read()
	return c
}

func (t *trial) connect() *websocket.Conn {
	for attempt := 0; ; attempt++ {
		conn, resp, err := websocket.Dial(t.ctx, t.url, &websocket.DialOptions{HTTPClient: t.options.HTTPClient})
		switch {
		case err == nil:
			conn.SetReadLimit(maxMessage)
			t.mu.Lock()
			t.conns = append(t.conns, conn)
			t.mu.Unlock()
			return conn
		case resp != nil && (resp.StatusCode == 429 || resp.StatusCode == 503):
			t.pause(attempt, resp.Status)
		default:
			t.failf("connecting: %v", err)
		}
	}
}

// filter is one filter as it is sent.
type filter map[string]any

// name is a fresh subscription id.
func (t *trial) name() string {
	t.names++
	return fmt.Sprintf("s%d", t.names)
}

// request sends a REQ and returns the events before its EOSE or CLOSED, and
// that. A relay that is asked too much is asked again.
func (c *client) request(id string, filters ...filter) (events []*message, end *message) {
	parts := []any{"REQ", id}
	for _, f := range filters {
		parts = append(parts, f)
	}
	for attempt := 0; ; attempt++ {
		c.send(parts...)
		end = c.wait("EOSE", ending(id))
		events = c.take(labelled("EVENT", id))
		if end.label != "CLOSED" || !strings.HasPrefix(end.text, "rate-limited:") {
			return events, end
		}
		c.t.pause(attempt, end.text)
	}
}

// open is request for a REQ that must be answered. A relay that wants a key
// first gets one.
func (c *client) open(id string, filters ...filter) []*message {
	events, end := c.request(id, filters...)
	if end.label == "CLOSED" && strings.HasPrefix(end.text, "auth-required:") && c.auth(c.t.key()) {
		events, end = c.request(id, filters...)
	}
	if end.label == "CLOSED" {
		if refusedByPolicy(end.text) {
			c.t.skipf("the relay does not answer this REQ: %s", end.text)
		}
		c.t.failf("the REQ was closed: %s", end.text)
	}
	return events
}

// stored returns the ids of the stored events, in their order.
func (c *client) stored(filters ...filter) []string {
	id := c.t.name()
	events := c.open(id, filters...)
	c.send("CLOSE", id)
	return ids(events)
}

func ids(events []*message) []string {
	out := []string{}
	for _, m := range events {
		out = append(out, m.event.ID)
	}
	return out
}

// sync returns once the relay has answered all that this connection sent.
func (c *client) sync() {
	id := c.t.name()
	c.request(id, filter{"ids": []string{randomHex(32)}, "limit": 1})
	c.send("CLOSE", id)
}

// publish sends the event and returns its OK. A relay that asks to slow down
// or for the author's key is asked again.
func (c *client) publish(ev nostr.Event) *message {
	proven := false
	for attempt := 0; ; attempt++ {
		c.send("EVENT", ev)
		ok := c.wait("OK", labelled("OK", ev.ID))
		switch {
		case ok.ok:
			return ok
		case strings.HasPrefix(ok.text, "rate-limited:"):
			c.t.pause(attempt, ok.text)
		case strings.HasPrefix(ok.text, "auth-required:") && !proven && c.t.secretOf(ev.PubKey) != nil:
			proven = true
			if !c.auth(c.t.secretOf(ev.PubKey)) {
				return ok
			}
		default:
			return ok
		}
	}
}

// accept publishes what the relay must take, unless it takes no such events
// from strangers.
func (c *client) accept(events ...nostr.Event) {
	for _, ev := range events {
		ok := c.publish(ev)
		if !ok.ok && refusedByPolicy(ok.text) {
			c.t.skipf("the relay does not take events of kind %d from here: %s", ev.Kind, ok.text)
		}
		if !ok.ok {
			c.t.failf("a valid event of kind %d was refused: %s", ev.Kind, ok.text)
		}
	}
}

// refusedByPolicy reports whether the prefix of a refusal (NIP-01) speaks of
// who may do what, not of the form of a message.
func refusedByPolicy(text string) bool {
	prefix, _, _ := strings.Cut(text, ":")
	switch prefix {
	case "blocked", "restricted", "auth-required", "pow", "payment-required":
		return true
	}
	return false
}

// refuse publishes what the relay must not take.
func (c *client) refuse(what string, ev nostr.Event) *message {
	ok := c.publish(ev)
	if ok.ok {
		c.t.failf("%s was answered OK true", what)
	}
	return ok
}

// expect compares ids, in any order.
func (t *trial) expect(what string, got []string, want ...string) {
	left := map[string]int{}
	for _, id := range want {
		left[id]++
	}
	for _, id := range got {
		left[id]--
	}
	missing, extra := 0, 0
	for _, n := range left {
		missing, extra = missing+max(n, 0), extra+max(-n, 0)
	}
	if missing+extra > 0 {
		t.failf("%s: %d events, want %d (%d missing, %d that do not belong there)", what, len(got), len(want), missing, extra)
	}
}

// inOrder compares ids and their order.
func (t *trial) inOrder(what string, got []string, want ...string) {
	t.expect(what, got, want...)
	for i := range want {
		if got[i] != want[i] {
			t.failf("%s: event %d is not the one expected there", what, i+1)
		}
	}
}

// live waits for an event of an open subscription.
func (c *client) live(id string, ev nostr.Event) {
	c.wait("live event", func(m *message) bool { return m.label == "EVENT" && m.id == id && m.event.ID == ev.ID })
}

// heard publishes an event that the open subscription matches, waits for it
// and returns what else came for the subscription until then.
func (c *client) heard(id string, by *client) []string {
	marker := c.t.profile(c.t.key(), nostr.Now())
	by.accept(marker)
	c.live(id, marker)
	c.sync()
	return ids(c.take(labelled("EVENT", id)))
}

// silent demands that nothing came for the open subscription, which must match
// every profile with the trial's word.
func (c *client) silent(what, id string, by *client) {
	if n := len(c.heard(id, by)); n > 0 {
		c.t.failf("%s was sent to a subscription", what)
	}
}
