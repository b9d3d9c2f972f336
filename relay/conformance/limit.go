package conformance

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/coder/websocket"
	"github.com/nbd-wtf/go-nostr"
)

// limitChecks are about limits: those a filter sets (NIP-01), those the
// relay's document names (NIP-11), and that one client's slowness stays its own.
var limitChecks = []Check{
	finds("limits.limit-is-kept", "limit 2 finds two events, the newest", noTags, func(t *trial, _ *shelf) []filter {
		return []filter{t.with("limit", 2)}
	}, 1, 2),
	finds("limits.limit-one-finds-the-newest", "limit 1 finds the newest event of several filters' conditions", xy, func(t *trial, _ *shelf) []filter {
		f := t.with("#z", []string{"Two"})
		f["limit"] = 1
		return []filter{f}
	}, 1),
	finds("limits.each-filter-has-its-own-limit", "each filter of a REQ has its own limit", noTags, func(t *trial, s *shelf) []filter {
		older := t.with("until", s.ev[1].CreatedAt)
		older["limit"] = 1
		return []filter{older, t.with("limit", 1)}
	}, 1, 2),
	finds("limits.limit-zero-finds-nothing-stored", "limit 0 finds no stored event", noTags, func(t *trial, _ *shelf) []filter {
		return []filter{t.with("limit", 0)}
	}),
	required("limits.limit-does-not-end-a-subscription", 1, "live events come beyond the limit, which is for stored ones", func(t *trial) {
		s, by := t.shelve(noTags), t.dial()
		s.c.open("one", t.with("limit", 1))
		s.c.open("none", t.with("limit", 0))
		for range 2 {
			ev := t.profile(t.key(), nostr.Now())
			by.accept(ev)
			s.c.live("one", ev)
			s.c.live("none", ev)
		}
	}),
	optional("limits.stalled-reader-does-not-hold-others", 1, "while one subscriber reads nothing of some megabytes, another gets all of it", stalledReader),
	optional("limits.max-subscriptions-is-kept", 11, "max_subscriptions are served, and one more is closed", func(t *trial) {
		most := t.limitation("max_subscriptions", t.info.Limitation.MaxSubscriptions, 100)
		c := t.dial()
		for range most {
			c.open(t.name(), t.all())
		}
		if _, end := c.request("more", t.all()); end.label != "CLOSED" {
			t.failf("subscription %d was served", most+1)
		}
		c.send("CLOSE", "s1")
		c.open("again", t.all())
	}),
	optional("limits.max-subid-length-is-kept", 11, "ids of max_subid_length are served, longer ones are refused", func(t *trial) {
		most := t.limitation("max_subid_length", t.info.Limitation.MaxSubIDLength, 5000)
		c := t.dial()
		c.open(strings.Repeat("a", most), t.all())
		c.send("REQ", strings.Repeat("a", most+1), t.all())
		m := c.answer(func(m *message) bool {
			return m.label == "NOTICE" || (m.label == "CLOSED" || m.label == "EOSE") && len(m.id) > most
		})
		if m != nil && m.label == "EOSE" {
			t.failf("a longer one was served")
		}
	}),
	optional("limits.max-event-tags-is-kept", 11, "an event of more than max_event_tags tags is refused", func(t *trial) {
		most := t.limitation("max_event_tags", t.info.Limitation.MaxEventTags, 3000)
		var tags nostr.Tags
		for range most {
			tags = append(tags, nostr.Tag{"x", "y"})
		}
		t.dial().refuse("an event of more tags", t.profile(t.key(), nostr.Now(), tags...))
	}),
	optional("limits.max-message-length-is-kept", 11, "a message longer than max_message_length is refused, and others go on", func(t *trial) {
		most := t.limitation("max_message_length", t.info.Limitation.MaxMessageLength, 256<<10)
		k := t.key()
		ev := k.sign(t.options.Kinds.Replaceable, nostr.Now(), strings.Repeat("x", most), t.marks(0))
		c := t.dial()
		_ = c.write(websocket.MessageText, []byte(`["EVENT",`+ev.String()+`]`))
		if m := c.answer(func(m *message) bool { return m.label == "OK" || m.label == "NOTICE" }); m != nil && m.ok {
			t.failf("it was taken")
		}
		t.expect("stored", t.dial().stored(filter{"authors": []string{k.pub}}))
	}),
	optional("limits.max-limit-is-kept", 11, "more events than max_limit are not answered to one filter", func(t *trial) {
		most := t.limitation("max_limit", t.info.Limitation.MaxLimit, 50)
		c := t.dial()
		c.accept(t.profile(t.key(), nostr.Now()))
		for _, id := range t.burst(c, most) {
			c.wait("OK", labelled("OK", id))
		}
		if n := len(c.stored(t.with("limit", most+1))); n != most {
			t.failf("%d events came, want %d", n, most)
		}
	}),
	optional("limits.created-at-upper-limit-is-kept", 11, "an event from beyond created_at_upper_limit is refused", func(t *trial) {
		most := t.limitation("created_at_upper_limit", t.info.Limitation.CreatedAtUpperLimit, 1<<32)
		c, now := t.dial(), nostr.Now()
		c.refuse("an event from the future", t.profile(t.key(), now+nostr.Timestamp(most)+120))
		c.accept(t.profile(t.key(), now+nostr.Timestamp(most)/2))
	}),
}

// limitation is a limit of the relay's document; above most it is not tried.
func (t *trial) limitation(name string, value, most int) int {
	if value <= 0 {
		t.skipf("the relay's document names no %s", name)
	}
	if value > most {
		t.skipf("%s is %d, too much to try", name, value)
	}
	return value
}

// The traffic of stalledReader: more than the buffers of the two systems hold
// for one connection, which on a loopback are large.
const (
	stallBytes    = 2 << 20
	stallLoopback = 6 << 20
	stallEvent    = 56 << 10
)

func stalledReader(t *trial) {
	idle := t.stall()
	defer idle.CloseNow() //nolint:errcheck // Referenced to the end, so that it stays open.
	c, by := t.dial(), t.dial()
	c.open("s", t.all())
	size, total := stallEvent, stallBytes
	if most := t.info.Limitation.MaxMessageLength; most > 0 {
		size = min(size, most*3/4)
	}
	if u, err := url.Parse(t.url); err == nil && (u.Hostname() == "localhost" || net.ParseIP(u.Hostname()).IsLoopback()) {
		total = stallLoopback
	}
	content := `{"about":"` + strings.Repeat("x", size) + `"}`
	var want []string
	for range total / size {
		ev := t.key().sign(t.options.Kinds.Replaceable, nostr.Now(), content, t.marks(0))
		by.accept(ev)
		want = append(want, ev.ID)
	}
	t.expect("the other subscriber got", c.heard("s", by), want...)
}

// stall opens a subscription and reads nothing, through a small buffer.
func (t *trial) stall() *websocket.Conn {
	dialer := net.Dialer{}
	transport := &http.Transport{}
	if own, ok := t.options.HTTPClient.Transport.(*http.Transport); ok {
		transport = own.Clone()
	}
	dial := transport.DialContext
	if dial == nil {
		dial = dialer.DialContext
	}
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetReadBuffer(4096)
		}
		return conn, err
	}
	conn, _, err := websocket.Dial(t.ctx, t.url, &websocket.DialOptions{HTTPClient: &http.Client{Transport: transport}})
	if err != nil {
		t.failf("connecting: %v", err)
	}
	t.conns = append(t.conns, conn)
	if err := conn.Write(t.ctx, websocket.MessageText, []byte(`["REQ","stalled",{"#t":["`+t.word+`"]}]`)); err != nil {
		t.failf("the connection ended: %v", err)
	}
	return conn
}
