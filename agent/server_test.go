package agent_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/parleykit/parley/agent"
	"github.com/parleykit/parley/agent/agenttest"
	"github.com/parleykit/parley/protocol/card"
)

func TestAChangedServerKeyIsRefusedUntilTrusted(t *testing.T) {
	t.Parallel()
	server := agenttest.Start(t)
	a := server.Agent(t, agent.Options{})
	before, err := a.PinServer(t.Context(), agent.PinRequest{URL: server.URL})
	if err != nil || before.New {
		t.Fatalf("pinning again: %+v, %v", before, err)
	}
	server.NewKey(t)
	_, err = a.PinServer(t.Context(), agent.PinRequest{URL: server.URL})
	if code(err) != agent.CodeRefused || !strings.Contains(err.Error(), before.Server.Fingerprint) {
		t.Fatalf("another key: %v", err)
	}
	status, err := a.Status(t.Context(), agent.Empty{})
	if err != nil || status.Servers[0].Fingerprint != before.Server.Fingerprint {
		t.Errorf("the pin changed: %+v, %v", status, err)
	}
	after, err := a.TrustServer(t.Context(), agent.PinRequest{URL: server.URL})
	if err != nil || after.Server.Fingerprint == before.Server.Fingerprint {
		t.Fatalf("trusting: %+v, %v", after, err)
	}
	if _, err := a.PinServer(t.Context(), agent.PinRequest{URL: server.URL}); err != nil {
		t.Errorf("after trusting: %v", err)
	}
}

func TestAnOlderDocumentIsRefused(t *testing.T) {
	t.Parallel()
	server := agenttest.Start(t)
	a := server.Agent(t, agent.Options{})
	server.Reissue(t, time.Now().Add(-time.Hour))
	if _, err := a.PinServer(t.Context(), agent.PinRequest{URL: server.URL}); code(err) != agent.CodeRefused {
		t.Errorf("err = %v", err)
	}
}

func TestADocumentThatDoesNotCheckPinsNothing(t *testing.T) {
	t.Parallel()
	server, other := agenttest.Start(t), agenttest.Start(t)
	a, err := agent.New(t.Context(), agent.Options{Home: filepath.Join(t.TempDir(), "home"), Create: true})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	for name, document := range map[string]string{
		"no JSON":                  "<html>",
		"unsigned":                 `{"document":{},"signature":""}`,
		"longer than 16 KiB":       strings.Repeat(" ", 17<<10),
		"another server's, signed": agenttest.Document(other),
	} {
		server.Replace([]byte(document))
		if _, err := a.PinServer(t.Context(), agent.PinRequest{URL: server.URL}); code(err) != agent.CodeRefused {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, url := range []string{"", "ftp://x", "http://x/path", "http://user@x", "http://x?q", "://"} {
		if _, err := a.PinServer(t.Context(), agent.PinRequest{URL: url}); code(err) != agent.CodeInvalid {
			t.Errorf("%q: %v", url, err)
		}
	}
	status, err := a.Status(t.Context(), agent.Empty{})
	if err != nil || len(status.Servers) != 0 {
		t.Errorf("status = %+v, %v", status, err)
	}
}

func TestACardNeverGoesBack(t *testing.T) {
	t.Parallel()
	server := agenttest.Start(t)
	alice, bob := server.Agent(t, agent.Options{}), server.Agent(t, agent.Options{})
	key := newKey(t)
	now := time.Now()
	sign := func(alt string, at time.Time) *nostr.Event {
		t.Helper()
		c := card.Card{
			Name: card.DefaultName, Alt: alt, Expires: now.Add(time.Hour), Protocols: []string{"parley/1"},
			Carriers: []card.Carrier{{Scheme: card.SchemeNostr, Address: server.Relay.URL}},
		}
		ev, err := c.Event(at)
		if err != nil {
			t.Fatal(err)
		}
		if err := key.Sign(&ev); err != nil {
			t.Fatal(err)
		}
		return &ev
	}
	newer, older := sign("newer", now), sign("older", now.Add(-time.Minute))
	if _, err := agent.Remember(t, bob, newer); err != nil {
		t.Fatal(err)
	}
	// A relay that knows, or shows, only the old one.
	if err := agent.Publish(t, alice, server.Relay.URL, older); err != nil {
		t.Fatal(err)
	}
	found, err := bob.FindCards(t.Context(), agent.FindRequest{Who: key.PublicKey()})
	if err != nil || len(found.Cards) != 1 || found.Cards[0].About != "newer" {
		t.Errorf("bob sees %+v, %v", found, err)
	}
	forged := *newer
	forged.Tags = append(nostr.Tags{}, forged.Tags...)
	forged.Content = "{}"
	if _, err := agent.Remember(t, bob, &forged); err == nil {
		t.Error("a changed card was kept")
	}
}
