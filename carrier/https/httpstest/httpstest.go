package httpstest

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"sync"
	"testing"

	"golang.org/x/sync/errgroup"

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
	web, err := httpserver.New(httpserver.Options{Listen: "127.0.0.1:0", Origin: opts.Origin})
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{Addr: web.Addr().String(), URL: web.Origin().String()}
	if opts.DB == nil {
		opts.DB = databasetest.Open(t)
	}
	opts.Origin, opts.ClientIP = s.URL, web.ClientIP
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
	if err := web.Handle(s.Routes()...); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.Run(ctx) })
	group.Go(func() error { return web.Run(ctx) })
	s.Stop = sync.OnceFunc(func() {
		cancel()
		if err := group.Wait(); err != nil {
			t.Errorf("ending the mailbox: %v", err)
		}
	})
	t.Cleanup(s.Stop)
	return s
}
