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
	"github.com/parleykit/parley/internal/issuer"
	"github.com/parleykit/parley/internal/keys"
	"github.com/parleykit/parley/protocol/discovery"
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
	cfg.Data, cfg.Listen, cfg.Metrics.Listen, cfg.MQTT.Broker.Listen = t.TempDir(), "127.0.0.1:0", "", "127.0.0.1:0"
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

func TestRotatedIssuerKey_staysPublishedAndIsNamedByItsKID(t *testing.T) {
	data := t.TempDir()
	file := filepath.Join(t.TempDir(), "parley.yaml")
	if err := errors.Join(os.Chmod(data, 0o700), os.WriteFile(file, fmt.Appendf(nil, "data: %s\n", data), 0o600)); err != nil {
		t.Fatal(err)
	}
	call := func(words ...string) (string, error) {
		var said bytes.Buffer
		err := run(t.Context(), append([]string{"-c", file, "key"}, words...), &said, &said)
		return said.String(), err
	}
	dir, err := keys.Open(filepath.Join(data, "keys"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := call("rotate", "issuer"); !errors.Is(err, errRefused) || !errors.Is(err, keys.ErrNoKey) {
		t.Errorf("without a key: %v", err)
	}
	first, err := dir.EnsureEd25519(keys.Issuer)
	if err != nil {
		t.Fatal(err)
	}
	prepared, err := call("rotate", "issuer", "-prepare")
	if err != nil {
		t.Fatal(err)
	}
	rotated, err := call("rotate", "issuer")
	if err != nil {
		t.Fatal(err)
	}
	second, err := dir.Ed25519(keys.Issuer)
	if err != nil {
		t.Fatal(err)
	}
	was, now := issuer.KeyID(first.PublicKey()), issuer.KeyID(second.PublicKey())
	if !strings.Contains(prepared, "next     "+now) || !strings.Contains(rotated, "was      "+was+"\nnow      "+now) {
		t.Errorf("from %s to %s:\n%s\n%s", was, now, prepared, rotated)
	}
	listed, err := call("list")
	if err != nil || !strings.Contains(listed, "retired  kid "+was) || !strings.Contains(listed, "active   kid "+now) {
		t.Errorf("%v\n%s", err, listed)
	}
	retired, err := dir.Retirements(keys.Issuer)
	if err != nil || len(retired) != 1 || retired[0].KID != first.KID() {
		t.Errorf("retired: %v, %v", retired, err)
	}
	for range discovery.MaxKeys - 2 {
		if _, err := call("rotate", "issuer"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := call("rotate", "issuer"); !errors.Is(err, errRefused) || !errors.Is(err, issuer.ErrOptions) {
		t.Errorf("more keys than can be published: %v", err)
	}
}
