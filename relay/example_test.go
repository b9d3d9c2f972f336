package relay_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/coder/websocket"

	"github.com/parleykit/parley/internal/httpserver"
	"github.com/parleykit/parley/relay"
)

// A relay behind the server of the process, until the context ends.
func Example() {
	dir, err := os.MkdirTemp("", "relay")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	server, err := httpserver.New(httpserver.Options{Listen: "127.0.0.1:0"})
	if err != nil {
		log.Fatal(err)
	}
	r, err := relay.New(relay.Options{
		Dir:         dir,
		Origin:      server.Origin().String(),
		Policy:      relay.Policy{Name: "example"},
		ClientIP:    server.ClientIP,
		CheckOrigin: server.CheckWebSocketOrigin,
		Registerer:  server.Registry(),
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := server.Handle(r.Routes()...); err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	go func() { ended <- server.Run(ctx) }()
	go func() { ended <- r.Run(ctx) }()

	conn, _, err := websocket.Dial(ctx, server.Origin().WebSocket(), nil)
	if err != nil {
		log.Fatal(err)
	}
	_, challenge, err := conn.Read(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%.7s\n", challenge)
	conn.Close(websocket.StatusNormalClosure, "")
	stop()
	fmt.Println(<-ended, <-ended)
	// Output:
	// ["AUTH"
	// <nil> <nil>
}
