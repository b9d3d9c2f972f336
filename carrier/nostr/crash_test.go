package nostr_test

import (
	"path/filepath"
	"testing"
	"time"

	gonostr "github.com/nbd-wtf/go-nostr"

	"github.com/parleykit/parley/internal/crashtest"
	"github.com/parleykit/parley/internal/database/databasetest"
	"github.com/parleykit/parley/relay"
	"github.com/parleykit/parley/relay/relaytest"
)

// TestKilledAgentsLoseNothingAndProcessNothingTwice kills sender and receiver
// at random moments; at the end every message that Send had taken was
// processed exactly once and is acknowledged.
func TestKilledAgentsLoseNothingAndProcessNothingTwice(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) {
		folder := filepath.Join(t.TempDir(), "data")
		killAgents(t, "sqlite:"+filepath.Join(folder, "sender.db"), "sqlite:"+filepath.Join(folder, "receiver.db"))
	})
	t.Run("postgres", func(t *testing.T) { killAgents(t, databasetest.NewPostgres(t), databasetest.NewPostgres(t)) })
}

func killAgents(t *testing.T, senderDatabase, receiverDatabase string) {
	drill := crashtest.NewDrill(t)
	server := relaytest.Start(t, relay.Options{})
	out, in := newCrashed(t, senderDatabase, server.URL), newCrashed(t, receiverDatabase, server.URL)
	out.peer, in.peer = publicKey(t, in.secret), publicKey(t, out.secret)
	sent := make(map[string]bool)
	for range drill.Points {
		receiver, sender := in.start(t, "receiver"), out.start(t, "sender")
		// Kill one of them after a random number of sends, the other later.
		for n := 1 + drill.IntN(12); n > 0; n-- {
			sent[sender.Next(t)] = true
		}
		if drill.IntN(2) == 0 {
			receiver.Kill(t)
			for n := drill.IntN(6); n > 0; n-- {
				sent[sender.Next(t)] = true
			}
		}
		time.Sleep(drill.Moment())
		for _, id := range sender.Kill(t) {
			sent[id] = true
		}
		receiver.Kill(t)
	}
	processed := finish(t, out, in)
	for id, times := range processed {
		if times != 1 {
			t.Errorf("message %s was processed %d times", id, times)
		}
	}
	for id := range sent {
		if processed[id] == 0 {
			t.Errorf("message %s was taken by Send and is lost", id)
		}
	}
	t.Logf("%d points, %d messages taken, %d processed, seed %d", drill.Points, len(sent), len(processed), drill.Seed)
}

func newCrashed(t *testing.T, database, relay string) crashed {
	t.Helper()
	return crashed{database: database, secret: gonostr.GeneratePrivateKey(), relay: relay}
}

func publicKey(t *testing.T, secret string) string {
	t.Helper()
	key, err := gonostr.GetPublicKey(secret)
	if err != nil {
		t.Fatal(err)
	}
	return key
}
