package nostr_test

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/carrier/nostr"
	"github.com/parleykit/parley/internal/database"
	"github.com/parleykit/parley/internal/keys"
	"github.com/parleykit/parley/relay"
	"github.com/parleykit/parley/relay/relaytest"
)

// crashEnv makes the test binary an agent that a test kills. Its value is
// "role folder secret relay peer".
const crashEnv = "PARLEY_TEST_CRASH"

func TestMain(m *testing.M) {
	if spec := os.Getenv(crashEnv); spec != "" {
		if err := crashChild(strings.Fields(spec)); err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// crashChild runs one agent. A sender reports "sent <id>" for every message
// that Send took; a receiver writes a row for every message in Handle's
// transaction.
func crashChild(spec []string) error {
	role, folder, secret, url, peer := spec[0], spec[1], spec[2], spec[3], spec[4]
	key, err := keys.ParseNostr(secret)
	if err != nil {
		return err
	}
	ctx := context.Background()
	db, err := database.Open(ctx, "sqlite:"+filepath.Join(folder, role+".db"), database.Options{})
	if err != nil {
		return err
	}
	c, err := nostr.New(nostr.Options{Relays: []string{url}, Signer: key, Dialer: loopback()})
	if err != nil {
		return err
	}
	e, err := carrier.New(ctx, crashOptions(db, key, c, url))
	if err != nil {
		return err
	}
	if err := e.AddContact(ctx, carrier.Contact{PubKey: peer}); err != nil {
		return err
	}
	if role == "sender" {
		go crashSend(ctx, e, peer)
	}
	fmt.Println("ready")
	return e.Run(ctx)
}

func crashHandle(ctx context.Context, tx *sql.Tx, in *carrier.Incoming) error {
	if _, err := tx.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS processed (id TEXT NOT NULL)"); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, "INSERT INTO processed (id) VALUES ($1)", in.Message.ID)
	return err
}

func crashSend(ctx context.Context, e *carrier.Engine, peer string) {
	for i := 0; ; i++ {
		m, err := crashMessage(e.PublicKey(), peer, i)
		if err == nil {
			err = e.Send(ctx, m)
		}
		if err != nil {
			fmt.Println("error", err)
			return
		}
		fmt.Println("sent", m.ID)
	}
}

// drill is how often to kill, and the chance by which.
func drill(t *testing.T) (rounds int, random *rand.Rand) {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("PARLEY_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("PARLEY_SEED=%d", seed)
	rounds = 20
	if os.Getenv("PARLEY_DRILL") == "1" {
		rounds = 200
	}
	return rounds, rand.New(rand.NewPCG(seed, 0))
}

// TestKilledAgentsLoseNothingAndProcessNothingTwice kills sender and receiver
// at random moments, 20 times or, with PARLEY_DRILL=1, 200 times; at the end
// every message that Send had taken was processed exactly once and is
// acknowledged. PARLEY_SEED repeats the choices of a run.
func TestKilledAgentsLoseNothingAndProcessNothingTwice(t *testing.T) {
	if testing.Short() {
		t.Skip("starts and kills many processes")
	}
	server := relaytest.Start(t, relay.Options{})
	folder := t.TempDir()
	if err := os.Chmod(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	sender, receiver := newSecret(t), newSecret(t)
	sent := make(map[string]bool)
	rounds, random := drill(t)
	for range rounds {
		in := startChild(t, "receiver", folder, receiver, server.URL, sender)
		out := startChild(t, "sender", folder, sender, server.URL, receiver)
		// Kill one of them after a random number of sends, the other later.
		for n := 1 + random.IntN(12); n > 0; n-- {
			sent[out.nextSent(t)] = true
		}
		if random.IntN(2) == 0 {
			in.kill(t)
			for n := random.IntN(6); n > 0; n-- {
				sent[out.nextSent(t)] = true
			}
		}
		for id := range out.kill(t) {
			sent[id] = true
		}
		in.kill(t)
	}
	processed := finish(t, folder, sender, receiver, server.URL)
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
	t.Logf("%d messages, %d processed", len(sent), len(processed))
}
