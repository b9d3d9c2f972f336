package main

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"
	"github.com/rogpeppe/go-internal/testscript"

	carriernostr "github.com/parleykit/parley/carrier/nostr"
	"github.com/parleykit/parley/internal/config"
	"github.com/parleykit/parley/internal/crashtest"
	"github.com/parleykit/parley/internal/egress"
	"github.com/parleykit/parley/internal/httpserver"
	"github.com/parleykit/parley/internal/keys"
	"github.com/parleykit/parley/protocol/wellknown"
)

func TestMain(m *testing.M) {
	if crashtest.IsChild() { // it is killed, and would leave the folder of the scripts behind
		os.Exit(m.Run())
	}
	testscript.Main(m, map[string]func(){"parleyd": main})
}

func TestCommand(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		RequireExplicitExec: true,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"occupy":      occupy,
			"freeport":    freePort,
			"expand":      expand,
			"waitfor":     waitFor,
			"terminate":   terminate,
			"fetch":       fetch,
			"samekeys":    sameKeys,
			"populate":    populate,
			"absent":      absent,
			"capture":     capture,
			"fingerprint": fingerprint,
			"hangup":      hangUp,
			"until":       until,
		},
	})
}

// occupy NAME: holds a loopback port until the script ends.
func occupy(ts *testscript.TestScript, _ bool, args []string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Defer(func() { l.Close() })
	ts.Setenv(args[0], portOf(l))
}

// freeport NAME...: a free loopback port into each variable.
func freePort(ts *testscript.TestScript, _ bool, args []string) {
	for _, name := range args {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		ts.Check(err)
		defer l.Close() // after all are found, so that they differ
		ts.Setenv(name, portOf(l))
	}
}

func portOf(l net.Listener) string {
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

// expand FILE: environment variables in the file are filled in.
func expand(ts *testscript.TestScript, _ bool, args []string) {
	text := os.Expand(ts.ReadFile(args[0]), ts.Getenv)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(text), 0o644))
}

// waitfor HOST:PORT: until something listens there.
func waitFor(ts *testscript.TestScript, _ bool, args []string) {
	for range 1500 {
		conn, err := net.DialTimeout("tcp", args[0], time.Second)
		if err == nil {
			conn.Close()
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	ts.Fatalf("nothing listens on %s", args[0])
}

// terminate: SIGTERM to every program in the background.
func terminate(ts *testscript.TestScript, _ bool, _ []string) {
	for _, cmd := range ts.BackgroundCmds() {
		ts.Check(cmd.Process.Signal(syscall.SIGTERM))
	}
}

// fetch URL FILE: the body of a GET into a file.
func fetch(ts *testscript.TestScript, _ bool, args []string) {
	answer, err := http.Get(args[0])
	ts.Check(err)
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), body, 0o644))
}

// startServer composes and runs a whole server on free ports.
func startServer(t *testing.T, change func(*config.Config)) *server {
	t.Helper()
	cfg := config.Default()
	cfg.Data, cfg.Listen, cfg.Metrics.Listen, cfg.MQTT.Broker.Listen = t.TempDir(), "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	if err := os.Chmod(cfg.Data, 0o700); err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(&cfg)
	}
	s, err := compose(t.Context(), &cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("run = %v", err)
		}
		if err := s.close(); err != nil {
			t.Errorf("close = %v", err)
		}
	})
	return s
}

func TestServer_servesASignedDocumentThatNamesItsParts(t *testing.T) {
	s := startServer(t, nil)
	answer, err := http.Get(s.http.Origin().String() + wellknown.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := wellknown.Open(body)
	if err != nil {
		t.Fatal(err)
	}
	key, err := s.keys.Nostr(keys.Venue)
	if err != nil {
		t.Fatal(err)
	}
	if doc.Origin != s.http.Origin().String() || doc.Relay != s.http.Origin().WebSocket()+"/" || doc.Venue.PubKey != key.PublicKey() {
		t.Errorf("document = %+v", doc)
	}
}

func TestRoutes_areTheTableOfTheManual(t *testing.T) {
	s := startServer(t, nil)
	page, err := os.ReadFile("../../docs/http.md")
	if err != nil {
		t.Fatal(err)
	}
	if table := httpserver.Table(s.http.Routes()); !strings.Contains(string(page), table) {
		t.Errorf("docs/http.md does not hold this table:\n%s", table)
	}
}

func TestMetrics_areAllInTheManual(t *testing.T) {
	s := startServer(t, nil)
	page, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	families, err := s.http.Registry().Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		name := family.GetName()
		if strings.HasPrefix(name, "parley_") && !strings.Contains(string(page), "`"+name+"`") {
			t.Errorf("docs/metrics.md does not name %s (%s)", name, family.GetHelp())
		}
	}
}

func TestRelay_keepsWrapsOnlyForListedRecipientsAndTheVenueWhereTheOriginIsPublic(t *testing.T) {
	listed, err := keys.GenerateNostr()
	if err != nil {
		t.Fatal(err)
	}
	stranger, err := keys.GenerateNostr()
	if err != nil {
		t.Fatal(err)
	}
	s := startServer(t, func(cfg *config.Config) {
		cfg.Origin = "https://parley.example"
		cfg.Relay.RecipientsListed = []config.PublicKey{config.PublicKey(listed.PublicKey())}
	})
	venueKey, err := s.keys.Nostr(keys.Venue)
	if err != nil {
		t.Fatal(err)
	}
	client, err := carriernostr.NewClient(carriernostr.ClientOptions{Dialer: egress.New(egress.Options{
		Self: &egress.Self{Host: s.http.Origin().Host(), Dial: s.http.Dial},
	})})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for name, c := range map[string]struct {
		recipient string
		stored    bool
	}{
		"listed":   {listed.PublicKey(), true},
		"venue":    {venueKey.PublicKey(), true},
		"stranger": {stranger.PublicKey(), false},
	} {
		wrap := nostr.Event{Kind: 1059, CreatedAt: nostr.Now(), Content: name, Tags: nostr.Tags{{"p", c.recipient}}}
		sender, err := keys.GenerateNostr()
		if err != nil {
			t.Fatal(err)
		}
		if err := sender.Sign(&wrap); err != nil {
			t.Fatal(err)
		}
		if err := client.Publish(t.Context(), "wss://parley.example/", &wrap); (err == nil) != c.stored {
			t.Errorf("%s: Publish = %v, want stored %v", name, err, c.stored)
		}
	}
}
