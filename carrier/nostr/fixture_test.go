package nostr_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	gonostr "github.com/nbd-wtf/go-nostr"

	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/carrier/nostr"
	"github.com/parleykit/parley/internal/database"
	"github.com/parleykit/parley/internal/database/databasetest"
	"github.com/parleykit/parley/internal/egress"
	"github.com/parleykit/parley/internal/keys"
	"github.com/parleykit/parley/protocol/envelope"
	"github.com/parleykit/parley/protocol/message"
)

// patience bounds a wait for something that must happen.
const patience = 30 * time.Second

func loopback() *egress.Dialer { return egress.New(egress.Options{AllowLoopback: true}) }

func newKey(t testing.TB) *keys.Nostr {
	t.Helper()
	key, err := keys.GenerateNostr()
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func newCarrier(t testing.TB, key *keys.Nostr, relays ...string) *nostr.Carrier {
	t.Helper()
	return newCarrierAt(t, time.Now, key, relays...)
}

func newCarrierAt(t testing.TB, now func() time.Time, key *keys.Nostr, relays ...string) *nostr.Carrier {
	t.Helper()
	c, err := nostr.New(nostr.Options{
		Relays: relays, Signer: key, Dialer: loopback(), Now: now, Reconnect: carrier.Backoff{Base: 20 * time.Millisecond, Cap: 100 * time.Millisecond},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func newClient(t testing.TB, signer nostr.Signer) *nostr.Client {
	t.Helper()
	c, err := nostr.NewClient(nostr.ClientOptions{Dialer: loopback(), Signer: signer})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// book maps public keys to addresses.
type book struct {
	mu    sync.Mutex
	pages map[string][]carrier.Address
}

func (b *book) set(pubkey string, relays ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.pages == nil {
		b.pages = make(map[string][]carrier.Address)
	}
	b.pages[pubkey] = nil
	for _, url := range relays {
		b.pages[pubkey] = append(b.pages[pubkey], carrier.Address{Scheme: nostr.Scheme, Address: url})
	}
}

func (b *book) resolve(_ context.Context, pubkey string) ([]carrier.Address, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.pages[pubkey], nil
}

// agent is an engine over real relays.
type agent struct {
	*carrier.Engine
	t       *testing.T
	key     *keys.Nostr
	db      *database.DB
	now     func() time.Time
	carrier *nostr.Carrier
	handled chan *message.Message
}

func newAgent(t *testing.T, b *book, relays ...string) *agent {
	t.Helper()
	return newAgentAt(t, b, time.Now, relays...)
}

// newAgentAt is newAgent with a clock of its own.
func newAgentAt(t *testing.T, b *book, now func() time.Time, relays ...string) *agent {
	t.Helper()
	a := &agent{t: t, key: newKey(t), now: now, handled: make(chan *message.Message, 1000)}
	a.db = databasetest.OpenAt(t, filepath.Join(t.TempDir(), "data", "parley.db"))
	var err error
	a.carrier = newCarrierAt(t, now, a.key, relays...)
	a.Engine, err = carrier.New(t.Context(), carrier.Options{
		DB: a.db, Keyer: a.key, Carriers: []carrier.Carrier{a.carrier}, Resolve: b.resolve, Now: now,
		Handle: func(_ context.Context, _ *sql.Tx, in *carrier.Incoming) error {
			a.handled <- in.Message
			return nil
		},
		Retry: carrier.Backoff{Base: 50 * time.Millisecond, Cap: 200 * time.Millisecond},
	})
	if err != nil {
		t.Fatal(err)
	}
	b.set(a.key.PublicKey(), relays...)
	return a
}

// start runs the engine until the test ends.
func (a *agent) start() *agent {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := a.Run(ctx); err != nil {
			a.t.Errorf("Run: %v", err)
		}
	}()
	a.t.Cleanup(func() { cancel(); <-done })
	return a
}

func (a *agent) knows(other *agent) {
	a.t.Helper()
	if err := a.AddContact(a.t.Context(), carrier.Contact{PubKey: other.PublicKey()}); err != nil {
		a.t.Fatal(err)
	}
}

func (a *agent) text(to *agent, text string) *message.Message {
	a.t.Helper()
	m := textMessageAt(a.t, a.now(), a.PublicKey(), to.PublicKey(), text, time.Hour)
	if err := a.Send(a.t.Context(), m); err != nil {
		a.t.Fatal(err)
	}
	return m
}

func textMessage(t testing.TB, from, to, text string) *message.Message {
	t.Helper()
	return textMessageAt(t, time.Now(), from, to, text, time.Hour)
}

func textMessageAt(t testing.TB, now time.Time, from, to, text string, ttl time.Duration) *message.Message {
	t.Helper()
	m, err := message.New(message.TypeText, from, to, message.Text{Text: text}, now, ttl)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// wantHandled waits for the message.
func (a *agent) wantHandled(m *message.Message) {
	a.t.Helper()
	select {
	case got := <-a.handled:
		if got.ID != m.ID {
			a.t.Fatalf("handled %s, want %s", got.ID, m.ID)
		}
	case <-time.After(patience):
		a.t.Fatalf("message %s was not handled", m.ID)
	}
}

// wantState waits until the message has the state.
func (a *agent) wantState(m *message.Message, want carrier.State) *carrier.Outgoing {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(a.t.Context(), patience)
	defer cancel()
	changes := a.Subscribe(ctx)
	for {
		rows, err := a.Outbox(a.t.Context(), carrier.OutboxFilter{MessageID: m.ID})
		if err != nil || len(rows) != 1 {
			a.t.Fatalf("Outbox: %d rows, %v", len(rows), err)
		}
		if rows[0].State == want {
			return rows[0]
		}
		if _, open := <-changes; !open {
			a.t.Fatalf("outbox state = %q (%s), want %q", rows[0].State, rows[0].Reason, want)
		}
	}
}

// wraps seals n texts for a recipient.
func wraps(t testing.TB, from *keys.Nostr, to string, n int) []envelope.Wrap {
	t.Helper()
	var all []envelope.Wrap
	for range n {
		sealed, err := envelope.Seal(textMessage(t, from.PublicKey(), to, "hello"), from, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, sealed...)
	}
	return all
}

// script is a relay that does what a test says: it is called with every frame
// of the client and answers through send.
type script func(frame []json.RawMessage, send func(text string))

// serve starts a scripted relay. greet is sent to every new connection.
func serve(t *testing.T, greet string, s script) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		ws, err := websocket.Accept(rw, r, nil)
		if err != nil {
			return
		}
		defer ws.CloseNow()
		ws.SetReadLimit(1 << 20)
		send := func(text string) { _ = ws.Write(r.Context(), websocket.MessageText, []byte(text)) }
		if greet != "" {
			send(greet)
		}
		for {
			_, data, err := ws.Read(r.Context())
			if err != nil {
				return
			}
			var frame []json.RawMessage
			if json.Unmarshal(data, &frame) == nil {
				s(frame, send)
			}
		}
	}))
	t.Cleanup(server.Close)
	return "ws" + strings.TrimPrefix(server.URL, "http")
}

func text(raw json.RawMessage) (s string) {
	_ = json.Unmarshal(raw, &s)
	return s
}

func eventOf(raw json.RawMessage) (ev gonostr.Event) {
	_ = json.Unmarshal(raw, &ev)
	return ev
}

// proxy forwards connections to a target that can be taken away and changed.
type proxy struct {
	address string
	mu      sync.Mutex
	target  string
	conns   map[net.Conn]bool
}

func newProxy(t *testing.T) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{address: listener.Addr().String(), conns: make(map[net.Conn]bool)}
	t.Cleanup(func() { listener.Close(); p.point("") })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go p.forward(conn)
		}
	}()
	return p
}

// point cuts every connection and sends new ones to target; "" refuses them.
func (p *proxy) point(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = strings.TrimPrefix(target, "ws://")
	for conn := range p.conns {
		conn.Close()
	}
	clear(p.conns)
}

func (p *proxy) forward(in net.Conn) {
	defer in.Close()
	p.mu.Lock()
	target := p.target
	p.conns[in] = true
	p.mu.Unlock()
	if target == "" {
		return
	}
	out, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer out.Close()
	go func() { _, _ = io.Copy(out, in); out.Close() }()
	_, _ = io.Copy(in, out)
}
