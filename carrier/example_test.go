package carrier_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/carrier/carriertest"
	"github.com/parleykit/parley/internal/database"
	"github.com/parleykit/parley/internal/keys"
	"github.com/parleykit/parley/protocol/message"
)

// Example sends one message from an agent to another and prints it there.
func Example() {
	ctx := context.Background()
	network := carriertest.NewNetwork()
	addresses := make(map[string][]carrier.Address)

	open := func(name string, handle func(context.Context, *sql.Tx, *carrier.Incoming) error) *carrier.Engine {
		dir, _ := os.MkdirTemp("", "parley")
		db, _ := database.Open(ctx, "sqlite:"+filepath.Join(dir, "agent.db"), database.Options{})
		key, _ := keys.GenerateNostr()
		engine, err := carrier.New(ctx, carrier.Options{
			DB: db, Keyer: key, Handle: handle,
			Carriers: []carrier.Carrier{network.Carrier("mem", name)},
			Resolve: func(_ context.Context, pubkey string) ([]carrier.Address, error) {
				return addresses[pubkey], nil
			},
		})
		if err != nil {
			panic(err)
		}
		addresses[key.PublicKey()] = []carrier.Address{{Scheme: "mem", Address: name}}
		return engine
	}
	alice := open("alice", nil)
	bob := open("bob", func(_ context.Context, _ *sql.Tx, in *carrier.Incoming) error {
		var body message.Text
		if err := message.DecodeBody(in.Message, &body); err != nil {
			return fmt.Errorf("%w: %w", carrier.ErrPermanent, err)
		}
		fmt.Println("bob reads:", body.Text)
		return nil
	})

	m, _ := message.New(message.TypeText, alice.PublicKey(), bob.PublicKey(), message.Text{Text: "hello"}, time.Now(), time.Hour)
	if err := alice.Send(ctx, m); err != nil {
		panic(err)
	}
	_ = alice.Sync(ctx)                    // sends it
	_ = bob.Sync(ctx)                      // puts it into the request box
	_ = bob.Accept(ctx, alice.PublicKey()) // acknowledges it
	_ = bob.Sync(ctx)                      // processes it, sends the ack
	_ = alice.Sync(ctx)                    // reads the ack
	sent, _ := alice.Outbox(ctx, carrier.OutboxFilter{MessageID: m.ID})
	fmt.Println("alice sees:", sent[0].State)
	// Output:
	// bob reads: hello
	// alice sees: acked
}
