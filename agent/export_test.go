package agent

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/parleykit/parley/protocol/message"
)

// SendRaw sends any body with an agent's own key.
func SendRaw(t *testing.T, a *Agent, to string, body message.Body) {
	t.Helper()
	m, err := message.New(body.Type(), a.key.PublicKey(), to, body, a.now(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	l, err := a.online()
	if err != nil {
		t.Fatal(err)
	}
	if err := l.engine.Send(t.Context(), m); err != nil {
		t.Fatal(err)
	}
}

// MaxConnections is the limit of the socket.
const MaxConnections = maxConnections

// ListenAs listens on a socket the way the daemon does, with another answer to
// who connects unless peer is nil. It reports the reasons of rejections.
func ListenAs(t *testing.T, path string, peer func(*net.UnixConn) (int, error)) (net.Listener, <-chan string) {
	t.Helper()
	under, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { under.Close() })
	rejected := make(chan string, 10)
	l := newOwnerListener(under, func(reason string) { rejected <- reason })
	if peer != nil {
		l.peer = peer
	}
	return l, rejected
}

// Remember checks and keeps a card as if a relay had sent it.
func Remember(t *testing.T, a *Agent, ev *nostr.Event) (*Card, error) {
	t.Helper()
	return a.rememberCard(t.Context(), ev)
}

// Publish gives any event to a relay.
func Publish(t *testing.T, a *Agent, relay string, ev *nostr.Event) error {
	t.Helper()
	return a.publishEvent(t.Context(), relay, ev)
}

// ForgetCards does what the daemon does every hour.
func ForgetCards(t *testing.T, a *Agent) error {
	t.Helper()
	return a.forgetCards(t.Context())
}

// Knows reports whether a card of a key is kept.
func Knows(t *testing.T, a *Agent, pubkey string) bool {
	t.Helper()
	c, err := a.knownCard(t.Context(), pubkey)
	return err == nil && c != nil
}

// Damage runs a statement on an agent's database.
func Damage(t *testing.T, a *Agent, statement string) {
	t.Helper()
	if err := exec(t.Context(), a.db, statement); err != nil {
		t.Fatal(err)
	}
}

// EraseUpToTheCommit does what ErasePerson had done when it was cut off right
// after its commit.
func EraseUpToTheCommit(t *testing.T, a *Agent, q EraseRequest) {
	t.Helper()
	pubkey, err := a.who(t.Context(), q.Who)
	if err != nil {
		t.Fatal(err)
	}
	a.writing.Lock()
	defer a.writing.Unlock()
	if err := a.eraseRows(t.Context(), q, &PersonErased{PubKey: pubkey}); err != nil {
		t.Fatal(err)
	}
}

// Resolve lists where a key is reached, as "scheme address".
func Resolve(ctx context.Context, a *Agent, pubkey string) (list []string, err error) {
	addresses, err := a.resolve(ctx, pubkey)
	for _, at := range addresses {
		list = append(list, at.Scheme+" "+at.Address)
	}
	return list, err
}
