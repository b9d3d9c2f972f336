package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/internal/keys"
	"github.com/parleykit/parley/protocol/canonical"
)

// closedPort is an address of this machine at which nothing listens.
func closedPort(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

func TestAnOutageIsToldInPlainWords(t *testing.T) {
	t.Parallel()
	address := closedPort(t)
	_, refused := new(net.Dialer).DialContext(t.Context(), "tcp", address)
	for want, err := range map[string]error{
		"nothing listens at " + address:             refused,
		"the name parley.example is not known here": &net.DNSError{Err: "no such host", Name: "parley.example"},
		"no answer in time":                         context.DeadlineExceeded,
	} {
		for _, err := range []error{err, fmt.Errorf("one: %w", errors.Join(fmt.Errorf("two: %w", err)))} {
			if got := outage(err); got != want {
				t.Errorf("outage(%v) = %q, want %q", err, got, want)
			}
		}
	}
	if got := outage(errors.New("something else")); got != "something else" {
		t.Errorf("an unknown cause became %q", got)
	}
}

// A server that is down is told in one sentence by every operation that needs
// it, and beside the message that waits for it.
func TestAServerThatIsDownIsOneSentence(t *testing.T) {
	t.Parallel()
	address := closedPort(t)
	l, err := OpenLocal(t.Context(), Options{Home: filepath.Join(t.TempDir(), "home"), Create: true})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var warned string
	l.Warn = func(text string) { warned = text }
	a := l.agent
	origin := "http://" + address
	server := Server{Origin: origin, Relay: "ws://" + address, IssuedAt: canonical.At(a.now()), PinnedAt: canonical.At(a.now())}
	if err := errors.Join(a.storeServer(t.Context(), server), a.relink(t.Context())); err != nil {
		t.Fatal(err)
	}
	stranger, err := keys.GenerateNostr()
	if err != nil {
		t.Fatal(err)
	}
	down := "nothing listens at " + address
	var d Delivery
	err = l.Call(t.Context(), "message.send", SendRequest{To: stranger.PublicKey(), Text: "x"}, &d)
	if err != nil || d.State != string(carrier.StateQueued) || d.Reason != down {
		t.Errorf("sent %+v, %v", d, err)
	}
	if !strings.HasPrefix(warned, "working offline: "+down+"; ") {
		t.Errorf("warned %q", warned)
	}
	for operation, want := range map[string]string{
		"card.find":    "no relay answered: " + down,
		"card.publish": "no relay took the card: ws://" + address + ": " + down,
	} {
		if err := l.Call(t.Context(), operation, Empty{}, nil); err == nil || err.Error() != want || asError(err).Hint == "" {
			t.Errorf("%s: %v, want %s and a hint", operation, err, want)
		}
	}
	var status Status
	if err := l.Call(t.Context(), "agent.status", Empty{}, &status); err != nil || status.AskedAt != nil || status.Listening {
		t.Errorf("status %+v, %v", status, err)
	}
}
