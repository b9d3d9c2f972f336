package main

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/internal/config"
	"github.com/parleykit/parley/internal/database"
	"github.com/parleykit/parley/internal/database/databasetest"
	"github.com/parleykit/parley/internal/keys"
	"github.com/parleykit/parley/protocol/agreement"
	"github.com/parleykit/parley/protocol/message"
	"github.com/parleykit/parley/venue"
)

const testOrigin = "http://127.0.0.1:8417"

// standing opens rooms of two persons, with deadlines from now, in the stopped
// server of a configuration.
func standing(t *testing.T, cfg *config.Config, alice, bob *keys.Nostr, deadlines ...time.Duration) (ids []string) {
	t.Helper()
	s := opened(t, cfg)
	defer s.close()
	past := time.Now().Add(-48 * time.Hour)
	then := func() time.Time { return past }
	engine, err := carrier.New(t.Context(), carrier.Options{
		DB: s.db, Keyer: s.venueKey, Resolve: func(context.Context, string) ([]carrier.Address, error) { return nil, nil },
		Now: then,
	})
	if err != nil {
		t.Fatal(err)
	}
	v, err := venue.New(t.Context(), venue.Options{
		DB: s.db, Outbox: engine, Key: s.venueKey, Origin: testOrigin, Now: then,
		Hosts: func(context.Context, string) bool { return true },
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, deadline := range deadlines {
		a, err := agreement.New(agreement.Terms{
			Origin: testOrigin, Venue: s.venueKey.PublicKey(), Title: "Title", Objective: "Objective", Deadline: time.Now().Add(deadline),
			Participants: []agreement.Participant{{Kind: agreement.KindAgent, PubKey: alice.PublicKey()}, {Kind: agreement.KindAgent, PubKey: bob.PublicKey()}},
		}, past)
		if err != nil {
			t.Fatal(err)
		}
		revision, err := a.Canonical()
		if err != nil {
			t.Fatal(err)
		}
		signature, err := agreement.Sign(a, a.Digest(), agreement.ActionPropose, "", alice, past)
		if err != nil {
			t.Fatal(err)
		}
		err = s.db.Tx(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
			result, err := v.Propose(ctx, tx, venue.ProposeRequest{Initiator: alice.PublicKey(), Revision: revision, Signature: signature})
			if err == nil && result.Refusal != nil {
				err = result.Refusal
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, a.AgreementID)
	}
	return ids
}

// opened is the storage of a stopped server.
func opened(t *testing.T, cfg *config.Config) *storage {
	t.Helper()
	s, err := openStorage(t.Context(), cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// waitsFor counts what waits to be sent to somebody, by type.
func waitsFor(t *testing.T, cfg *config.Config, to *keys.Nostr) map[string]int {
	t.Helper()
	s := opened(t, cfg)
	defer s.close()
	counts := make(map[string]int)
	err := s.db.View(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
		rows, err := tx.QueryContext(ctx, "SELECT type FROM carrier_outbox WHERE recipient = $1 AND state = 'queued'", to.PublicKey())
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var typ string
			if err := rows.Scan(&typ); err != nil {
				return err
			}
			counts[typ]++
		}
		return rows.Err()
	})
	if err != nil {
		t.Fatal(err)
	}
	return counts
}

// newServer prepares the data folder of a server that has never run.
func newServer(t *testing.T) (file string, cfg *config.Config) {
	t.Helper()
	folder := t.TempDir()
	file = filepath.Join(folder, "parley.yaml")
	if err := os.WriteFile(file, []byte("data: "+folder+"/data\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := keys.Open(cfg.KeysDir())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := dir.EnsureNostr(keys.Venue); err != nil {
		t.Fatal(err)
	}
	if err := databasetest.OpenURL(t, cfg.DatabaseURL(), database.Options{}).Close(); err != nil {
		t.Fatal(err)
	}
	return file, cfg
}

func TestARoomThatStandsOpenPastItsDeadlineIsClosedSoThatAnErasureGoesOn(t *testing.T) {
	file, cfg := newServer(t)
	call := func(words ...string) (string, error) {
		var out, log bytes.Buffer
		err := run(t.Context(), append([]string{"-c", file}, words...), &out, &log)
		return out.String(), err
	}
	alice, bob := newNostr(t), newNostr(t)
	ids := standing(t, cfg, alice, bob, -time.Hour, time.Hour)
	if _, err := call("erase", alice.NPub()); !errors.Is(err, errRefused) || !strings.Contains(err.Error(), ids[0]) {
		t.Fatalf("erase beside open rooms: %v", err)
	}
	before := waitsFor(t, cfg, bob)
	if out, err := call("venue", "close", ids[0]); err != nil || out != "closed, outcome expired\n" {
		t.Fatalf("venue close = %q, %v", out, err)
	}
	before[message.TypeAgreementEvent]++
	before[message.TypeAgreementArtifact]++
	if diff := cmp.Diff(before, waitsFor(t, cfg, bob)); diff != "" {
		t.Errorf("waits for the other member (-want +got): %s", diff)
	}
	if _, err := call("venue", "close", ids[1]); !errors.Is(err, errRefused) || !errors.Is(err, venue.ErrNotDue) {
		t.Errorf("venue close before the deadline: %v", err)
	}
	if _, err := call("erase", alice.NPub()); !errors.Is(err, errRefused) || strings.Contains(err.Error(), ids[0]) || !strings.Contains(err.Error(), ids[1]) {
		t.Errorf("erase beside the other open room: %v", err)
	}
	if _, err := call("venue", "close", "unknown"); !errors.Is(err, venue.ErrNoRoom) {
		t.Errorf("venue close of no room: %v", err)
	}
}

func TestAServerWithTheKeysOfAnotherOneIsRefusedItsDatabase(t *testing.T) {
	_, cfg := newServer(t)
	standing(t, cfg, newNostr(t), newNostr(t))
	if err := os.RemoveAll(cfg.KeysDir()); err != nil {
		t.Fatal(err)
	}
	cfg.Listen, cfg.Metrics.Listen, cfg.MQTT.Broker.Listen = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	_, err := compose(t.Context(), cfg, slog.New(slog.DiscardHandler))
	if !errors.Is(err, venue.ErrOtherVenue) || !strings.Contains(err.Error(), "give this server the keys of that venue") {
		t.Errorf("a server with other keys on the database: %v", err)
	}
}

func newNostr(t *testing.T) *keys.Nostr {
	t.Helper()
	key, err := keys.GenerateNostr()
	if err != nil {
		t.Fatal(err)
	}
	return key
}
