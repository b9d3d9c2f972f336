// Command khatru-lmdb is a khatru relay over the LMDB store of eventstore, which
// syncs each write, and without any policy. It needs a C compiler. It prints
// "ready URL".
package main

import (
	"fmt"
	"net"
	"net/http"
	"os"

	"github.com/fiatjaf/eventstore/lmdb"
	"github.com/fiatjaf/khatru"
)

func main() {
	store := &lmdb.LMDBBackend{Path: os.Args[1], MaxLimit: 500}
	if err := store.Init(); err != nil {
		panic(err)
	}
	relay := khatru.NewRelay()
	relay.StoreEvent = append(relay.StoreEvent, store.SaveEvent)
	relay.QueryEvents = append(relay.QueryEvents, store.QueryEvents)
	relay.DeleteEvent = append(relay.DeleteEvent, store.DeleteEvent)
	relay.ReplaceEvent = append(relay.ReplaceEvent, store.ReplaceEvent)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println("ready ws://" + listener.Addr().String())
	panic(http.Serve(listener, relay))
}
