package agent_test

import (
	"bytes"
	"context"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/carrier/carriertest"
	"github.com/parleykit/parley/carrier/https"
	"github.com/parleykit/parley/carrier/https/httpstest"
	"github.com/parleykit/parley/carrier/nostr"
	"github.com/parleykit/parley/internal/database"
	"github.com/parleykit/parley/internal/drilltest"
	"github.com/parleykit/parley/internal/egress"
	"github.com/parleykit/parley/internal/keys"
	"github.com/parleykit/parley/internal/networktest"
	"github.com/parleykit/parley/mqttbridge"
	"github.com/parleykit/parley/mqttbridge/mqtttest"
	"github.com/parleykit/parley/ntfybridge"
	"github.com/parleykit/parley/ntfybridge/ntfytest"
	"github.com/parleykit/parley/protocol/message"
	"github.com/parleykit/parley/relay"
	"github.com/parleykit/parley/relay/relaytest"
)

var quickly = carrier.Backoff{Base: 20 * time.Millisecond, Cap: 500 * time.Millisecond}

// stop is one server and how an agent with a key is reached there.
type stop struct {
	scheme string
	url    string // of the server; through the proxy where there is one
	proxy  *networktest.Proxy
}

// behind is a proxy before a server that has to know the proxy's address.
func behind(t *testing.T, start func(address string) (target string)) *networktest.Proxy {
	t.Helper()
	proxy := networktest.NewProxy(t, "")
	target := start(proxy.Addr())
	if _, rest, found := strings.Cut(target, "://"); found {
		target = rest
	}
	proxy.Point(target)
	return proxy
}

// stops starts a server for each carrier, each behind a proxy of its own.
func stops(t *testing.T) []stop {
	t.Helper()
	relays := behind(t, func(address string) string {
		return relaytest.Start(t, relay.Options{Origin: "http://" + address}).URL
	})
	mailbox := behind(t, func(address string) string {
		return httpstest.Start(t, https.MailboxOptions{Origin: "http://" + address, Rate: 1_000_000}).Addr
	})
	broker := behind(t, func(address string) string {
		return mqtttest.StartBroker(t, mqttbridge.BrokerOptions{Names: []string{"mqtt://" + address}}).URL
	})
	push := behind(t, func(string) string {
		return ntfytest.Start(t, ntfytest.Options{Burst: -1, Subscriptions: 1000, KeepAlive: 100 * time.Millisecond}).URL
	})
	return []stop{
		{nostr.Scheme, "ws://" + relays.Addr(), relays},
		{https.Scheme, "http://" + mailbox.Addr(), mailbox},
		{mqttbridge.Scheme, "mqtt://" + broker.Addr(), broker},
		{ntfybridge.Scheme, "http://" + push.Addr(), push},
	}
}

// reached makes the carrier of a stop for an agent, and its address there.
func (s stop) reached(t *testing.T, key *keys.Nostr, db *database.DB, priority int) (carrier.Carrier, carrier.Address) {
	t.Helper()
	dialer := egress.New(egress.Options{AllowLoopback: true})
	var made interface {
		carrier.Carrier
		Close()
	}
	var err error
	at := s.url
	switch s.scheme {
	case nostr.Scheme:
		made, err = nostr.New(nostr.Options{Relays: []string{at}, Signer: key, Dialer: dialer, Reconnect: quickly, DialTimeout: 2 * time.Second})
	case https.Scheme:
		made, err = https.New(t.Context(), https.Options{Inboxes: []string{at}, Signer: key, DB: db, Dialer: dialer, Reconnect: quickly})
		at += https.EnvelopesPath
	case mqttbridge.Scheme:
		at += "/" + mqttbridge.InboxTopic(key.PublicKey())
		made, err = mqttbridge.New(mqttbridge.Options{
			Inboxes: []mqttbridge.Inbox{{Address: at}}, Signer: key, Dialer: dialer, Reconnect: quickly,
			KeepAlive: time.Second, ConnectTimeout: 2 * time.Second,
		})
	case ntfybridge.Scheme:
		generous := ntfybridge.Allowance{Inline: 64, Rate: ntfybridge.Rate{Burst: 1_000_000, Refill: time.Microsecond}}
		at += "/in" + key.PublicKey()[:40]
		made, err = ntfybridge.New(ntfybridge.Options{
			Topics: []string{at}, Dialer: dialer, Reconnect: quickly, KeepAlive: 450 * time.Millisecond,
			Allowances: map[string]ntfybridge.Allowance{s.url: generous},
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(made.Close)
	return made, carrier.Address{Scheme: s.scheme, Address: at, Priority: priority}
}

// listens makes an agent that is reached at every stop, the first one first.
func listens(t *testing.T, at []stop, change func(carrier.Carrier) carrier.Carrier) func(*keys.Nostr, *database.DB) ([]carrier.Carrier, []carrier.Address) {
	return func(key *keys.Nostr, db *database.DB) (carriers []carrier.Carrier, addresses []carrier.Address) {
		for i, s := range at {
			c, address := s.reached(t, key, db, i)
			if change != nil {
				c = change(c)
			}
			carriers, addresses = append(carriers, c), append(addresses, address)
		}
		return carriers, addresses
	}
}

// A carrier that fails while it comes first delays a conversation and costs it
// nothing: what is said meanwhile is acknowledged over the others.
func TestAConversationGoesOnWhenACarrierFails(t *testing.T) {
	t.Parallel()
	for first := range 4 {
		servers := stops(t)
		servers = append(servers[first:], servers[:first]...)
		t.Run(servers[0].scheme, func(t *testing.T) {
			w := carriertest.NewWorld(t)
			alice, bob := w.Add(listens(t, servers, nil)), w.Add(listens(t, servers, nil))
			carriertest.Befriend(t, alice, bob)
			there, back := carriertest.NewThread(alice, bob), carriertest.NewThread(bob, alice)
			say := func() { there.Say(3, "there"); back.Say(3, "back") }
			for _, fault := range networktest.Faults()[:4] { // reset, refuse, stall, both
				say()
				fault.Begin(servers[0].proxy)
				say()
				wantTextsAcked(t, there)
				wantTextsAcked(t, back)
				servers[0].proxy.Heal()
				say()
				there.WantAcked(t)
				back.WantAcked(t)
			}
		})
	}
}

// wantTextsAcked waits until all texts are acknowledged. Acks themselves may wait
// for the carrier that fails, since they answer by the one that brought the text.
func wantTextsAcked(t *testing.T, thread *carriertest.Thread) {
	t.Helper()
	thread.WantHandled(t)
	carriertest.Eventually(t, func() string {
		rows, err := thread.From.Outbox(t.Context(), carrier.OutboxFilter{States: []carrier.State{carrier.StateQueued, carrier.StateSent}})
		if err != nil {
			return err.Error()
		}
		for _, row := range rows {
			if row.Message.Type == message.TypeText {
				return "a text waits for its ack: " + row.Reason
			}
		}
		return ""
	})
}

// narrow is a carrier whose frames are small and some of which are lost or
// forged on the way.
type narrow struct {
	carrier.Carrier
	frame  int
	lose   func(offset int) bool
	forges bool

	mu    sync.Mutex
	total int // size of the largest wrap sent in frames
	lost  int
	sent  int
}

func (n *narrow) MaxFrame(to carrier.Address) int {
	if n.frame > 0 {
		return n.frame
	}
	return n.Carrier.MaxFrame(to)
}

// TextOnly keeps what the carrier says about its addresses.
func (n *narrow) TextOnly(to carrier.Address) bool {
	text, ok := n.Carrier.(carrier.TextCarrier)
	return ok && text.TextOnly(to)
}

func (n *narrow) Send(ctx context.Context, to carrier.Address, data []byte) error {
	f, err := carrier.ParseFrame(data)
	if err != nil { // a whole wrap, such as an ack
		return n.Carrier.Send(ctx, to, data)
	}
	n.mu.Lock()
	lose := n.lose != nil && n.lose(f.Offset)
	n.total, n.sent = max(n.total, f.Total), n.sent+1
	if lose {
		n.lost++
	}
	n.mu.Unlock()
	if n.forges && f.Offset == 0 {
		forged := f
		forged.Payload = bytes.Repeat([]byte{'x'}, len(f.Payload))
		if err := n.Carrier.Send(ctx, to, forged.Encode(n.TextOnly(to))); err != nil {
			return err
		}
	}
	if lose {
		return nil
	}
	return n.Carrier.Send(ctx, to, data)
}

// Frames of one envelope that come over two carriers are put together, whatever
// each of them loses, and one that lies does not spoil the others.
func TestFramesOfTwoCarriersMakeOneEnvelope(t *testing.T) {
	t.Parallel()
	everySecond := func(size, from int) func(int) bool {
		return func(offset int) bool { return offset >= from && offset/size%2 == 1 }
	}
	const mqttPayload, ntfyPayload = 4096 - carrier.FrameHeader, 3071 - carrier.FrameHeader
	once := func(lose func(int) bool) func(int) bool {
		seen := map[int]bool{}
		return func(offset int) bool { again := seen[offset]; seen[offset] = true; return !again && lose(offset) }
	}
	for name, c := range map[string]struct {
		overMQTT, overNtfy func(int) bool
		forges             bool
	}{
		"every second frame lost once":  {overNtfy: once(everySecond(ntfyPayload, 0))},
		"neither is ever complete":      {overMQTT: func(offset int) bool { return offset < 4*mqttPayload }, overNtfy: everySecond(ntfyPayload, 8*ntfyPayload)},
		"a forged frame on each":        {forges: true},
		"forged frames and lost frames": {overNtfy: once(everySecond(ntfyPayload, 0)), forges: true},
	} {
		t.Run(name, func(t *testing.T) {
			var narrows []*narrow
			wrap := func(inner carrier.Carrier) carrier.Carrier {
				n := &narrow{Carrier: inner, lose: c.overNtfy, forges: c.forges}
				if inner.Scheme() == mqttbridge.Scheme {
					n.frame, n.lose = 4096, c.overMQTT
				}
				narrows = append(narrows, n)
				return n
			}
			both := func(o *carrier.Options) { o.Parallel = 2 }
			w := carriertest.NewWorld(t)
			servers := stops(t)[2:]
			alice := w.Add(listens(t, servers, wrap), both)
			bob := w.Add(listens(t, servers, nil), both)
			carriertest.Befriend(t, alice, bob)
			random := make([]rune, 9000) // as hard to compress as text can be
			for i := range random {
				random[i] = 0x20000 + rand.Int32N(40_000)
			}
			thread := carriertest.NewThread(alice, bob)
			thread.Say(1, string(random))
			thread.WantAcked(t)
			for _, n := range narrows {
				t.Logf("%s: largest wrap %d bytes, %d frames sent, %d lost", n.Scheme(), n.total, n.sent, n.lost)
				if n.total < 32<<10 || n.lose != nil && n.lost == 0 {
					t.Errorf("%s: a wrap of %d bytes, %d frames lost: nothing was tried", n.Scheme(), n.total, n.lost)
				}
			}
		})
	}
}

// Connections that break all the time lose no envelope, repeat none and keep the
// order of a thread.
func TestResetsLoseAndRepeatNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("sends a thousand envelopes")
	}
	resets := 10
	if drilltest.Long() {
		resets = 100
	}
	for _, scheme := range []string{mqttbridge.Scheme, https.Scheme} {
		t.Run(scheme, func(t *testing.T) {
			at := stop{scheme: scheme}
			if scheme == mqttbridge.Scheme {
				at.proxy = networktest.NewProxy(t, mqtttest.StartMosquitto(t, "max_queued_messages 0").Addr)
				at.url = "mqtt://" + at.proxy.Addr()
			} else {
				at = stops(t)[1]
			}
			many := func(o *carrier.Options) { o.Limits.Outbox, o.Limits.OutboxOfPeer = 20_000, 20_000 }
			w := carriertest.NewWorld(t)
			alice, bob := w.Add(listens(t, []stop{at}, nil), many), w.Add(listens(t, []stop{at}, nil), many)
			carriertest.Befriend(t, alice, bob)
			thread := carriertest.NewThread(alice, bob)
			for i := range resets {
				thread.Say(100, "hello")
				at.proxy.Reset()
				if i%5 == 4 {
					thread.WantHandled(t)
				}
			}
			thread.WantAcked(t)
		})
	}
}

// victim is somebody else's server: it notes what comes, and says yes to it.
type victim struct {
	address string
	mu      sync.Mutex
	got     [][]byte // of each connection
}

func newVictim(t *testing.T) *victim {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	v := &victim{address: l.Addr().String()}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go v.listen(conn)
		}
	}()
	return v
}

func (v *victim) listen(conn net.Conn) {
	defer conn.Close()
	v.mu.Lock()
	number := len(v.got)
	v.got = append(v.got, nil)
	v.mu.Unlock()
	_ = conn.SetDeadline(time.Now().Add(2 * time.Second))
	buf := make([]byte, 64<<10)
	for answered := false; ; answered = true {
		n, err := conn.Read(buf)
		v.mu.Lock()
		v.got[number] = append(v.got[number], buf[:n]...)
		v.mu.Unlock()
		if err != nil {
			return
		}
		if !answered {
			_, _ = conn.Write([]byte("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"))
		}
	}
}

func (v *victim) heard() [][]byte {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clone(v.got)
}

// Addresses that name a server which is none of the recipient's get a bounded
// number of greetings and no byte of an envelope.
func TestAnAddressOfSomebodyElseGetsNoEnvelope(t *testing.T) {
	t.Parallel()
	engineTime := 5 * time.Second
	if drilltest.Long() {
		engineTime = 30 * time.Second
	}
	for scheme, c := range map[string]struct {
		address  string
		greeting string // what each connection begins with
		atMost   int
	}{
		nostr.Scheme:      {"ws://%", "GET / HTTP/1.1\r\n", 60},
		https.Scheme:      {"http://%" + https.EnvelopesPath, "GET " + https.EnvelopesPath + "?", 1},
		mqttbridge.Scheme: {"mqtt://%/parley/1/in/" + strings.Repeat("ab", 32), "\x10", 60},
	} {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			w, v := carriertest.NewWorld(t), newVictim(t)
			alice := w.Add(listens(t, stops(t), nil))
			named := w.Add(func(*keys.Nostr, *database.DB) ([]carrier.Carrier, []carrier.Address) {
				return nil, []carrier.Address{{Scheme: scheme, Address: strings.Replace(c.address, "%", v.address, 1)}}
			})
			carriertest.Befriend(t, alice, named)
			carriertest.NewThread(alice, named).Say(20, "hello")
			carriertest.Eventually(t, func() string {
				if len(v.heard()) == 0 {
					return "nobody came"
				}
				return ""
			})
			time.Sleep(engineTime)
			heard := v.heard()
			t.Logf("%d connections in %s", len(heard), engineTime)
			if len(heard) > c.atMost {
				t.Errorf("%d connections, at most %d", len(heard), c.atMost)
			}
			for _, data := range heard {
				greeting := bytes.HasPrefix(data, []byte(c.greeting)) || len(data) == 0
				if !greeting || len(data) > 2000 || bytes.Contains(data, []byte(`"kind":1059`)) {
					t.Errorf("%d bytes came: %.200q", len(data), data)
				}
			}
		})
	}
}
