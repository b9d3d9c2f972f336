// Package httpstest starts a real mailbox on a loopback port for the tests of other
// packages. It ends with its test and is imported from tests only.
package httpstest

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"net"
	"net/http"
	"sync"
	"testing"

	"github.com/parleykit/parley/carrier/https"
	"github.com/parleykit/parley/internal/database/databasetest"
	"github.com/parleykit/parley/internal/httpserver"
)

// Server is a running mailbox.
type Server struct {
	*https.Mailbox
	URL  string // its origin, http://127.0.0.1:port
	Addr string // 127.0.0.1:port
	Stop func() // ends it in order
}

// Start starts a mailbox. Without a DB it has one of its own, without an Origin its
// own address, without a Key a fresh one.
func Start(t testing.TB, opts https.MailboxOptions) *Server {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{Addr: listener.Addr().String(), URL: "http://" + listener.Addr().String()}
	if opts.DB == nil {
		opts.DB = databasetest.Open(t)
	}
	if opts.Origin == "" {
		opts.Origin = s.URL
	}
	if opts.Key == nil {
		_, key, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		opts.Key = key
	}
	if s.Mailbox, err = https.NewMailbox(t.Context(), opts); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	server := &http.Server{Handler: handler(s.Routes())}
	go server.Serve(listener) //nolint:errcheck // It ends with the listener.
	s.Stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("ending the mailbox: %v", err)
		}
		server.Close()
	})
	t.Cleanup(s.Stop)
	return s
}

func handler(routes []httpserver.Route) http.Handler {
	mux := http.NewServeMux()
	for _, route := range routes {
		mux.Handle(route.Method+" "+route.Pattern, route.Handler)
	}
	return mux
}
