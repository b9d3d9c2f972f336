package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parleykit/parley/agent"
	"github.com/parleykit/parley/internal/config"
)

// serveOnce runs a server until stop is called.
func serveOnce(t *testing.T, cfg *config.Config) (s *server, stop func()) {
	t.Helper()
	s, err := compose(t.Context(), cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.run(ctx) }()
	return s, func() {
		t.Helper()
		cancel()
		if err := errors.Join(<-ended, s.close()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRotatedServerKey_isFollowedByNobodyUntilItsOwnerTrustsIt(t *testing.T) {
	cfg := config.Default()
	cfg.Data, cfg.Listen, cfg.Metrics.Listen = t.TempDir(), "127.0.0.1:0", ""
	if err := os.Chmod(cfg.Data, 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "parley.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, "data: %s\n", cfg.Data), 0o600); err != nil {
		t.Fatal(err)
	}
	s, stop := serveOnce(t, &cfg)
	origin := s.http.Origin()
	a, err := agent.New(t.Context(), agent.Options{Home: filepath.Join(t.TempDir(), "home"), Create: true})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	request := agent.PinRequest{URL: origin.String()}
	pinned, err := a.PinServer(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	for _, words := range [][]string{{"key", "rotate", "server", "-prepare"}, {"key", "rotate", "server"}} {
		if err := run(t.Context(), append([]string{"-c", file}, words...), &said, &said); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := a.PinServer(t.Context(), request); err != nil {
		t.Errorf("before the restart: %v", err)
	}
	stop()
	cfg.Listen = origin.Host()
	_, stop = serveOnce(t, &cfg)
	defer stop()
	_, err = a.PinServer(t.Context(), request)
	if err == nil || !strings.Contains(err.Error(), "pinned fingerprint "+pinned.Server.Fingerprint+", now ") {
		t.Fatalf("the new key is met with %v", err)
	}
	trusted, err := a.TrustServer(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(said.String(), "next     "+trusted.Server.Fingerprint) {
		t.Errorf("trusted %s, announced:\n%s", trusted.Server.Fingerprint, said.String())
	}
	if _, err := a.PinServer(t.Context(), request); err != nil {
		t.Errorf("after trusting: %v", err)
	}
}
