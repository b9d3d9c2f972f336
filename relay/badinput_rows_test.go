package relay_test

import (
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/coder/websocket"
	"github.com/nbd-wtf/go-nostr"

	"github.com/parleykit/parley/relay"
)

// answers demands the next message to have this label and beginning of its text.
func (a *attack) answers(label, prefix string) reply {
	a.t.Helper()
	r := a.next()
	if r.label != label || !strings.HasPrefix(r.text, prefix) {
		a.t.Fatalf("got %.200v, want %s %q", r, label, prefix)
	}
	return r
}

// refused sends each text and demands the same answer to all.
func refused(label, prefix string, texts ...string) func(*attack) {
	return func(a *attack) {
		for _, text := range texts {
			a.sendRaw(text)
			a.answers(label, prefix)
		}
	}
}

// closes demands the relay to end the connection, after any other messages.
func (a *attack) closes(code websocket.StatusCode) {
	a.t.Helper()
	for {
		if _, err := a.read(); err != nil {
			if websocket.CloseStatus(err) != code {
				a.t.Fatalf("the connection ended with %v, want %d", err, code)
			}
			return
		}
	}
}

// badInputs are the rows of the table, in its order.
func badInputs() []badInput {
	return append(append(append(badMessages(), badEvents()...), badRequests()...), badConnections()...)
}

const someEvent = `{"id":"%[1]s","pubkey":"%[1]s","created_at":%[2]s,"kind":%[3]s,"tags":%[4]s,"content":%[5]s,"sig":"%[1]s%[1]s"}`

// unsigned is an EVENT of which only the form matters.
func unsigned(createdAt, kind, tags, content string) string {
	return `["EVENT",` + fmt.Sprintf(someEvent, strings.Repeat("a", 64), createdAt, kind, tags, content) + `]`
}

func badMessages() []badInput {
	const malformed = `parley_relay_messages_total{type="malformed"}`
	return []badInput{
		{
			sent: "text that is not UTF-8", answered: "`NOTICE` `invalid: not valid UTF-8`", metric: malformed,
			send: refused("NOTICE", "invalid: not valid UTF-8", "[\"REQ\",\"\xff\",{}]", "[\"EVENT\",\"\xed\xa0\x80\"]"),
		},
		{
			sent: "text with half a surrogate pair (`\\ud800`)", answered: "`NOTICE` `invalid: …`", metric: malformed,
			send: refused("NOTICE", "invalid: ", unsigned("1", "0", "[]", `"\ud800"`), unsigned("1", "0", `[["t","\udfff\ud800"]]`, `""`), `["REQ","\ud800",{}]`),
		},
		{
			sent: "text that is not JSON, or no message", answered: "`NOTICE` `invalid: …`", metric: malformed,
			send: refused("NOTICE", "invalid: ", "", "x", "{}", "[]", `["REQ"]`, `["REQ","a"`, `[1,2]`),
		},
		{
			sent: "a message nested 50,000 deep", answered: "`NOTICE` `invalid: nested deeper than 4`", metric: malformed,
			send: refused("NOTICE", "invalid: nested deeper", strings.Repeat("[", 50_000), `["REQ","a",`+strings.Repeat("[", 50_000)+strings.Repeat("]", 50_000)+`]`),
		},
		{
			sent: "hundreds of messages that cannot be read", answered: "`NOTICE` to a hundred, then the connection is closed with 1008", metric: malformed,
			send: func(a *attack) {
				for range 300 {
					if a.write("x") != nil {
						break
					}
				}
				a.closes(websocket.StatusPolicyViolation)
			},
		},
		{
			sent: "a message larger than 128 KiB", answered: "the connection is closed with 1009", metric: malformed,
			send: func(a *attack) {
				a.write(`["EVENT","` + strings.Repeat("x", 128<<10) + `"]`) //nolint:errcheck // It may be cut off.
				a.closes(websocket.StatusMessageTooBig)
			},
		},
		{
			sent: "a binary message", answered: "the connection is closed with 1003", metric: malformed,
			send: func(a *attack) {
				a.conn.Write(a.t.Context(), websocket.MessageBinary, []byte(`["REQ","a",{}]`)) //nolint:errcheck // It may be cut off.
				a.closes(websocket.StatusUnsupportedData)
			},
		},
		{
			sent: "a compressed message (`permessage-deflate`)", answered: "the extension is not agreed to; a message that uses it closes the connection with 1002",
			send: func(a *attack) { a.compressed() },
		},
	}
}

// compressed offers compression, which the relay does not take, and sends a
// frame that claims to be compressed.
func (a *attack) compressed() {
	conn, head := a.upgrade("Sec-WebSocket-Extensions: permessage-deflate\r\n")
	if strings.Contains(strings.ToLower(head), "extensions") {
		a.t.Errorf("an extension was agreed to:\n%s", head)
	}
	if _, err := conn.Write([]byte{0xc1, 0x80, 0, 0, 0, 0}); err != nil { // FIN, RSV1, text; masked, empty
		a.t.Fatal(err)
	}
	const closed = "\x88\x02\x03\xea" // close frame, 1002; a reason may follow
	data := make([]byte, 4<<10)
	got := ""
	for !strings.Contains(got, closed[:1]) || !strings.Contains(got, closed[2:]) {
		n, err := conn.Read(data)
		if got += string(data[:n]); err != nil {
			a.t.Fatalf("got %q, %v, want a close frame with 1002", got, err)
		}
	}
}

// upgrade opens a WebSocket by hand and returns the head of the answer.
func (a *attack) upgrade(header string) (net.Conn, string) {
	a.t.Helper()
	host := strings.TrimPrefix(a.url, "ws://")
	conn, err := net.Dial("tcp", host)
	if err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		a.t.Fatal(err)
	}
	fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n%s\r\n", host, header)
	head := ""
	for one := make([]byte, 1); !strings.HasSuffix(head, "\r\n\r\n"); head += string(one) {
		if _, err := conn.Read(one); err != nil {
			a.t.Fatal(err)
		}
	}
	if !strings.HasPrefix(head, "HTTP/1.1 101 ") {
		a.t.Fatalf("no upgrade:\n%s", head)
	}
	return conn, head
}

func badEvents() []badInput {
	result := func(r string) string { return `parley_relay_events_total{result="` + r + `"}` }
	return []badInput{
		{
			sent: "an event with a number beyond 64 bits, or that is none", answered: "`NOTICE` `invalid: EVENT: …`", metric: result("invalid"),
			send: refused("NOTICE", "invalid: EVENT: ",
				unsigned("9223372036854775808", "0", "[]", `""`), unsigned("1e400", "0", "[]", `""`), unsigned("1", "1e99", "[]", `""`),
				unsigned("1", "18446744073709551616", "[]", `""`), unsigned("1.5", "0", "[]", `""`), unsigned(`"1"`, "0", "[]", `""`)),
		},
		{
			sent: "an event of a negative time or kind, or of a kind above 65535", answered: "`OK` false, `invalid: …`", metric: result("invalid"),
			send: refused("OK", "invalid: ", unsigned("-1", "0", "[]", `""`), unsigned("1", "-1", "[]", `""`), unsigned("1", "65536", "[]", `""`)),
		},
		{
			sent: "an event of more than 200 tags, or of 64 KiB", answered: "`OK` false, `invalid: …`", metric: result("invalid"),
			send: func(a *attack) {
				a.refuse(newKey(a.t).event(0, nostr.Now(), "", manyTags(201)), "invalid: more than 200 tags")
				a.refuse(newKey(a.t).note(nostr.Now(), strings.Repeat("x", 64<<10)), "invalid: event is larger than ")
			},
		},
		{
			sent: "an event with a wrong id or signature", answered: "`OK` false, `invalid: …`", metric: result("invalid"),
			send: func(a *attack) {
				ev, other := newKey(a.t).note(nostr.Now(), "a"), newKey(a.t).note(nostr.Now(), "b")
				ev.Sig = other.Sig
				a.refuse(ev, "invalid: the signature is wrong")
				other.Content = "changed"
				a.refuse(other, "invalid: the id is not the hash")
			},
		},
		{
			sent: "an event of 1970", answered: "`OK` true: it is kept like any other, and replaces nothing newer (`duplicate: …`)", metric: result("stale"),
			send: func(a *attack) {
				k := newKey(a.t)
				a.accept(k.note(1, "old"))
				a.accept(k.note(nostr.Now(), "new"))
				if r := a.publish(k.note(2, "old again")); !r.ok || !strings.HasPrefix(r.text, "duplicate: a newer version") {
					a.t.Errorf("got %v, want OK true, duplicate", r)
				}
			},
		},
		{
			sent: "an event of 2100", answered: "`OK` false, `invalid: created_at is … ahead …`", metric: result("invalid"),
			send: func(a *attack) { a.refuse(newKey(a.t).note(4102444800, ""), "invalid: created_at is ") },
		},
		{
			sent: "an event a hundred times", answered: "`OK` true, `duplicate: the event is already stored`; it is sent to nobody again", metric: result("duplicate"),
			send: func(a *attack) {
				ev := a.healthy.write()
				for range 100 {
					if r := a.publish(ev); !r.ok || !strings.HasPrefix(r.text, "duplicate: the event is already stored") {
						a.t.Fatalf("got %v, want OK true, duplicate", r)
					}
				}
			},
		},
		{
			sent: "a stranger's request to delete an event, by id or by address", answered: "`OK` true: the request is kept, the event stays", metric: result("stored"),
			send: func(a *attack) {
				ev := a.healthy.write()
				a.accept(newKey(a.t).deletion(nostr.Now(), nostr.Tag{"e", ev.ID}))
				a.accept(newKey(a.t).deletion(nostr.Now(), nostr.Tag{"a", "30417:" + ev.PubKey + ":" + ev.Tags.GetD()}))
			},
		},
		{
			sent: "an event that its author deleted, again", answered: "`OK` false, `blocked: the event was deleted by its author`", metric: result("deleted"),
			send: func(a *attack) {
				k := newKey(a.t)
				ev := k.note(nostr.Now()-10, "")
				a.accept(ev)
				a.accept(k.deletion(nostr.Now(), nostr.Tag{"e", ev.ID}))
				a.refuse(ev, "blocked: the event was deleted")
			},
		},
		{
			sent: "an event from before its author's request to vanish, or a wrap for it, again", answered: "`OK` false, `blocked: …`", metric: result("deleted"),
			send: func(a *attack) {
				k := newKey(a.t)
				ev, w := k.note(nostr.Now()-200, ""), wrap(a.t, k.pub)
				a.accept(ev)
				a.accept(w)
				a.accept(k.event(62, nostr.Now(), "", nostr.Tags{{"relay", "ALL_RELAYS"}}))
				a.refuse(ev, "blocked: ")
				a.refuse(w, "blocked: ")
			},
		},
		{
			sent: "more events than the rate allows", answered: "`OK` false, `rate-limited: …`", metric: result("rate_limited"),
			options: relay.Options{Limits: relay.Limits{EventRate: 1, EventBurst: 10}},
			send: func(a *attack) {
				for range 10 {
					a.accept(newKey(a.t).note(nostr.Now(), ""))
				}
				a.refuse(newKey(a.t).note(nostr.Now(), ""), "rate-limited: ")
			},
		},
		{
			sent: "an event, while the policy plugin hangs", answered: "`OK` false, `error: …` after the time of the plugin; the plugin is started again",
			metric: `parley_relay_plugin_verdicts_total{verdict="timeout"}`, readOnly: true,
			options: relay.Options{Plugin: &relay.Plugin{Command: []string{"sleep", "1000"}, Timeout: 100 * time.Millisecond}},
			send: func(a *attack) { // refused as well while the plugin is not there yet
				for range 100 {
					r := a.publish(newKey(a.t).note(nostr.Now(), ""))
					if r.ok || !strings.HasPrefix(r.text, "error: the policy plugin") {
						a.t.Fatalf("got %v", r)
					}
					if strings.Contains(r.text, "in time") {
						return
					}
					time.Sleep(20 * time.Millisecond)
				}
			},
		},
	}
}

func manyTags(n int) nostr.Tags {
	tags := make(nostr.Tags, n)
	for i := range tags {
		tags[i] = nostr.Tag{"t", fmt.Sprint(i)}
	}
	return tags
}
