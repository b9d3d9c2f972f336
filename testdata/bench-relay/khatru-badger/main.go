// Command khatru-badger is a khatru relay over the badger store of eventstore,
// with synchronous writes, and without any policy. It prints "ready URL".
package main

import (
	"fmt"
	"net"
	"net/http"
	"os"

	db "github.com/dgraph-io/badger/v4"
	"github.com/fiatjaf/eventstore/badger"
	"github.com/fiatjaf/khatru"
)

func main() {
	store := &badger.BadgerBackend{
		Path: os.Args[1], MaxLimit: 500,
		BadgerOptionsModifier: func(o db.Options) db.Options { return o.WithSyncWrites(true).WithLogger(nil) },
	}
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
