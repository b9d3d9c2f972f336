// Command rely-lmdb is a rely relay over the LMDB store of eventstore, which
// syncs each write, and without any policy. It needs a C compiler. It prints
// "ready URL".
package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"

	"github.com/fiatjaf/eventstore/lmdb"
	"github.com/nbd-wtf/go-nostr"
	"github.com/pippellia-btc/rely"
)

func main() {
	store := &lmdb.LMDBBackend{Path: os.Args[1], MaxLimit: 500}
	if err := store.Init(); err != nil {
		panic(err)
	}
	relay := rely.NewRelay()
	relay.On.Event = func(_ rely.Client, ev *nostr.Event) error {
		if nostr.IsRegularKind(ev.Kind) {
			return store.SaveEvent(context.Background(), ev)
		}
		return store.ReplaceEvent(context.Background(), ev)
	}
	relay.On.Req = func(ctx context.Context, _ rely.Client, filters nostr.Filters) (found []nostr.Event, err error) {
		for _, f := range filters {
			events, err := store.QueryEvents(ctx, f)
			if err != nil {
				return nil, err
			}
			for ev := range events {
				found = append(found, *ev)
			}
		}
		return found, nil
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	relay.Start(context.Background())
	fmt.Println("ready ws://" + listener.Addr().String())
	panic(http.Serve(listener, relay))
}
