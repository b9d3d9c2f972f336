package main

import (
	"context"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"

	carriernostr "github.com/parleykit/parley/carrier/nostr"
	"github.com/parleykit/parley/internal/config"
	"github.com/parleykit/parley/internal/database/databasetest"
	"github.com/parleykit/parley/internal/egress"
	"github.com/parleykit/parley/internal/keys"
)

func TestRelay_ofTwoServersOnOneDatabaseHoldsTheSameEvents(t *testing.T) {
	address, err := url.Parse(databasetest.NewPostgres(t))
	if err != nil {
		t.Fatal(err)
	}
	password, _ := address.User.Password()
	passwordFile := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(passwordFile, []byte(password+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	address.User = url.User(address.User.Username())
	change := func(cfg *config.Config) {
		cfg.Database, cfg.DatabasePasswordFile = address.String(), passwordFile
		cfg.Relay.Store, cfg.Venue.Enabled = config.StoreDatabase, false
		if err := cfg.Validate(); err != nil {
			t.Error(err)
		}
	}
	a, b := startServer(t, change), startServer(t, change)
	client, err := carriernostr.NewClient(carriernostr.ClientOptions{Dialer: egress.New(egress.Options{AllowLoopback: true})})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	key, err := keys.GenerateNostr()
	if err != nil {
		t.Fatal(err)
	}
	profile := nostr.Event{Kind: nostr.KindProfileMetadata, CreatedAt: nostr.Now(), Content: "{}", Tags: nostr.Tags{}}
	if err := key.Sign(&profile); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := client.Publish(ctx, a.http.Origin().WebSocket()+"/", &profile); err != nil {
		t.Fatal(err)
	}
	found, err := client.Query(ctx, b.http.Origin().WebSocket()+"/", nostr.Filter{Authors: []string{key.PublicKey()}, Limit: 5})
	if err != nil || len(found) != 1 || found[0].ID != profile.ID {
		t.Errorf("the other server has %v, %v", found, err)
	}
	if entries, err := os.ReadDir(filepath.Join(a.cfg.Data, "relay")); err == nil {
		t.Errorf("events lie in the data folder as well: %v", entries)
	}
}
