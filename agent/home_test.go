package agent_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/parleykit/parley/agent"
	"github.com/parleykit/parley/agent/agenttest"
)

func TestOneProcessHoldsAHome(t *testing.T) {
	t.Parallel()
	home := filepath.Join(t.TempDir(), "home")
	first, err := agent.New(t.Context(), agent.Options{Home: home, Create: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := agent.New(t.Context(), agent.Options{Home: home}); !errors.Is(err, agent.ErrLocked) || code(err) != agent.CodeUnavailable {
		t.Errorf("a second process: %v", err)
	}
	key := first.PublicKey()
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := agent.New(t.Context(), agent.Options{Home: home, Create: true})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if again.PublicKey() != key {
		t.Error("the key changed")
	}
}

func TestAHomeOpenToOthersIsRefused(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	if err := os.Chmod(home, 0o750); err != nil {
		t.Fatal(err)
	}
	if _, err := agent.New(t.Context(), agent.Options{Home: home, Create: true}); code(err) != agent.CodeUnavailable {
		t.Errorf("err = %v", err)
	}
}

func TestAHomeIsMadeOnlyWhenAskedFor(t *testing.T) {
	t.Parallel()
	home := filepath.Join(t.TempDir(), "home")
	if _, err := agent.New(t.Context(), agent.Options{Home: home}); code(err) != agent.CodeUnavailable {
		t.Errorf("err = %v", err)
	}
	if _, err := os.Stat(home); !os.IsNotExist(err) {
		t.Errorf("a folder was made: %v", err)
	}
}

// A home whose keys were lost must not silently become another agent.
func TestADatabaseWithoutItsKeyIsRefused(t *testing.T) {
	t.Parallel()
	home := filepath.Join(t.TempDir(), "home")
	a, err := agent.New(t.Context(), agent.Options{Home: home, Create: true})
	if err != nil {
		t.Fatal(err)
	}
	a.Close()
	if err := os.RemoveAll(filepath.Join(home, "keys")); err != nil {
		t.Fatal(err)
	}
	_, err = agent.New(t.Context(), agent.Options{Home: home, Create: true})
	if code(err) != agent.CodeUnavailable || !strings.Contains(err.Error(), "no key") {
		t.Errorf("err = %v", err)
	}
}

func TestRunNeedsAServer(t *testing.T) {
	t.Parallel()
	a, err := agent.New(t.Context(), agent.Options{Home: filepath.Join(t.TempDir(), "home"), Create: true})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if err := a.Run(t.Context()); code(err) != agent.CodeUnavailable {
		t.Errorf("err = %v", err)
	}
}

// What was sent while nobody was up is found after a restart, once.
func TestARestartedAgentGoesOnWhereItStopped(t *testing.T) {
	t.Parallel()
	server := agenttest.Start(t)
	alice := server.Agent(t, agent.Options{})
	bob := server.Agent(t, agent.Options{})
	befriend(t, alice, bob, "alice", "bob")
	home := bob.Home()
	for i, text := range []string{"one", "two"} {
		if err := bob.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := alice.SendText(t.Context(), agent.SendRequest{To: bob.PublicKey(), Text: text}); err != nil {
			t.Fatal(err)
		}
		again, err := agent.New(t.Context(), agent.Options{Home: home})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { again.Close() })
		bob = again
		if err := bob.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		inbox, err := bob.Inbox(t.Context(), agent.InboxRequest{All: true})
		if err != nil || len(inbox.Texts) != i+1 || inbox.Texts[i].Text != text {
			t.Fatalf("after restart %d: %+v, %v", i, inbox, err)
		}
	}
}

func TestADaemonChangesOverToANewServer(t *testing.T) {
	t.Parallel()
	first, second := agenttest.Start(t), agenttest.Start(t)
	registry := prometheus.NewRegistry()
	alice := first.Running(t, agent.Options{Registerer: registry})
	bob := second.Running(t, agent.Options{})
	if _, err := alice.PinServer(t.Context(), agent.PinRequest{URL: second.URL}); err != nil {
		t.Fatal(err)
	}
	befriend(t, alice, bob, "alice", "bob")
	d, err := alice.SendText(t.Context(), agent.SendRequest{To: "bob", Text: "over there", WaitSeconds: patient})
	if err != nil || d.State != "acked" {
		t.Errorf("delivery = %+v, %v", d, err)
	}
	status, err := alice.Status(t.Context(), agent.Empty{})
	if err != nil || len(status.Servers) != 2 || status.Servers[0].Origin != second.URL {
		t.Errorf("status = %+v, %v", status, err)
	}
	problems, err := testutil.GatherAndLint(registry)
	if err != nil || len(problems) > 0 {
		t.Errorf("metrics: %v, %v", problems, err)
	}
}

func TestACardIsPublishedAgainBeforeItExpires(t *testing.T) {
	t.Parallel()
	server := agenttest.Start(t)
	now := time.Now().Add(-85 * 24 * time.Hour)
	home := filepath.Join(t.TempDir(), "home")
	a := server.Agent(t, agent.Options{Home: home, Now: func() time.Time { return now }})
	about := "still here"
	published, err := a.PublishCard(t.Context(), agent.PublishCardRequest{About: &about, Can: []string{"word"}})
	if err != nil {
		t.Fatal(err)
	}
	a.Close()
	again, err := agent.New(t.Context(), agent.Options{Home: home})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- again.Run(ctx) }()
	for {
		c, err := again.ShowCard(t.Context(), agent.ShowCardRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if c.CreatedAt.After(published.Card.CreatedAt.Time) {
			if c.About != about || len(c.Capabilities) != 1 {
				t.Errorf("published anew: %+v", c)
			}
			break
		}
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
